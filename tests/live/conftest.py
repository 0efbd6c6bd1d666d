"""Fixtures of the live tests: the installed pi, a home for it, the scripted model, the project's own command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.live.modelserver import ModelServer
from tests.live.parts import PiProgram, pi_program
from tests.live.pi import Home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Report = Callable[..., dict[str, Any]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder `live`."""
    here = os.path.dirname(__file__)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker("live")


@pytest.fixture(scope="session")
def program() -> PiProgram:
    """The installed pi."""
    return pi_program()


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """A scripted model; the test fails when its script did not fit what pi asked for."""
    with ModelServer() as server:
        yield server
        assert server.left() == {"turns": 0, "summaries": 0, "unexpected": 0}


@pytest.fixture
def home(program: PiProgram, model: ModelServer, tmp_path: Path) -> Home:
    """A home for pi that knows the scripted model."""
    return Home(tmp_path / "home", program, model.url)


@pytest.fixture(scope="session")
def report() -> Report:
    """Run `pimetrics report --json` over paths and return its object."""

    def run(*paths: Path) -> dict[str, Any]:
        argv = [sys.executable, "-m", "pimetrics", "report", "--json", *map(str, paths)]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr.decode()
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    return run
