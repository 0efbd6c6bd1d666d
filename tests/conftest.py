"""Hypothesis profiles and the recordings, for all tests.

`HYPOTHESIS_PROFILE` chooses how hard property tests look: fast (default, seconds a test), ci (the same examples in every
run, so a red run can be repeated), deep (for a quiet machine and a long evening).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import support

_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]

settings.register_profile("fast", max_examples=60, deadline=None, suppress_health_check=_SLOW_IS_FINE)
settings.register_profile(
    "ci", max_examples=100, deadline=None, derandomize=True, print_blob=True, suppress_health_check=_SLOW_IS_FINE
)
settings.register_profile("deep", max_examples=3000, deadline=None, suppress_health_check=_SLOW_IS_FINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "fast"))


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """The folder of the test data."""
    return support.FIXTURES


@pytest.fixture
def no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder, and none of the settings that name another one."""
    for name in ("PI_CODING_AGENT_DIR", "PI_CODING_AGENT_SESSION_DIR", "PIMETRICS_RECORDINGS", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder to follow, with room beside it for a ledger."""
    made = tmp_path / "followed"
    made.mkdir()
    return made
