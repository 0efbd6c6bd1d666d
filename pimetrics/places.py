"""Where pi and pimetrics keep things on this machine; environment and settings only, nothing is created."""

from __future__ import annotations

import json
import os
from pathlib import Path


def sessions_dir() -> Path:
    """Return the folder in which pi keeps sessions (see `_sessions_dir`)."""
    return _sessions_dir()[0]


def recordings_dir() -> Path:
    """Return the folder in which `record` keeps recordings: `PIMETRICS_RECORDINGS`, else below the user's data."""
    return _recordings_dir()[0]


def chosen_dirs() -> list[tuple[Path, str]]:
    """Return the folders that are read when none is named, whether they exist or not, each with what chose it."""
    return [_sessions_dir(), _recordings_dir()]


def _sessions_dir() -> tuple[Path, str]:
    """Find pi's session folder, and what chose it.

    `PI_CODING_AGENT_SESSION_DIR` wins over the `sessionDir` setting of pi's `settings.json`, and that over `sessions`
    in pi's folder (`PI_CODING_AGENT_DIR`, by default `~/.pi/agent`), as in pi 1.6.
    """
    given = os.environ.get("PI_CODING_AGENT_SESSION_DIR")
    if given:
        return Path(given).expanduser(), "PI_CODING_AGENT_SESSION_DIR"
    moved = os.environ.get("PI_CODING_AGENT_DIR")
    agent = Path(moved or "~/.pi/agent").expanduser()
    try:
        settings = json.loads((agent / "settings.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        settings = None  # pi runs without settings, or with a file it cannot read, on its defaults; so do we
    chosen = settings.get("sessionDir") if isinstance(settings, dict) else None
    if isinstance(chosen, str) and chosen:
        return Path(os.path.expanduser(chosen)), f"sessionDir in {agent / 'settings.json'}"
    return agent / "sessions", "PI_CODING_AGENT_DIR" if moved else "pi's default"


def _recordings_dir() -> tuple[Path, str]:
    given = os.environ.get("PIMETRICS_RECORDINGS")
    if given:
        return Path(given).expanduser(), "PIMETRICS_RECORDINGS"
    data = os.environ.get("XDG_DATA_HOME", "")
    # The XDG specification has relative paths ignored.
    if data.startswith("/"):
        return Path(data) / "pimetrics" / "recordings", "XDG_DATA_HOME"
    return Path("~/.local/share").expanduser() / "pimetrics" / "recordings", "pimetrics' default"


def state_file() -> Path:
    """Return the file in which `serve` keeps its ledger unless the user names another."""
    return _state_dir() / "ledger.db"


def ship_dir() -> Path:
    """Return the folder in which is remembered what was delivered to receivers."""
    return _state_dir() / "ship"


def host_file() -> Path:
    """Return the file in which the name is kept that tells this host from others in a lake."""
    return _state_dir() / "host"


def _state_dir() -> Path:
    state = os.environ.get("XDG_STATE_HOME", "")
    # The XDG specification has relative paths ignored.
    base = Path(state) if state.startswith("/") else Path("~/.local/state").expanduser()
    return base / "pimetrics"
