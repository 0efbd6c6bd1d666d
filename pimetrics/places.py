"""Where pi and pimetrics keep things on this machine; environment and settings only, nothing is created."""

from __future__ import annotations

import json
import os
from pathlib import Path


def sessions_dir() -> Path:
    """Return the folder in which pi keeps sessions.

    `PI_CODING_AGENT_SESSION_DIR` wins over the `sessionDir` setting of pi's `settings.json`, and that over `sessions`
    in pi's folder (`PI_CODING_AGENT_DIR`, by default `~/.pi/agent`), as in pi 1.6.
    """
    given = os.environ.get("PI_CODING_AGENT_SESSION_DIR")
    if given:
        return Path(given).expanduser()
    agent = Path(os.environ.get("PI_CODING_AGENT_DIR") or "~/.pi/agent").expanduser()
    try:
        settings = json.loads((agent / "settings.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        settings = None  # pi runs without settings, or with a file it cannot read, on its defaults; so do we
    chosen = settings.get("sessionDir") if isinstance(settings, dict) else None
    if isinstance(chosen, str) and chosen:
        return Path(os.path.expanduser(chosen))
    return agent / "sessions"


def recordings_dir() -> Path:
    """Return the folder in which `record` keeps recordings: `PIMETRICS_RECORDINGS`, else below the user's data."""
    given = os.environ.get("PIMETRICS_RECORDINGS")
    if given:
        return Path(given).expanduser()
    data = os.environ.get("XDG_DATA_HOME", "")
    # The XDG specification has relative paths ignored.
    base = Path(data) if data.startswith("/") else Path("~/.local/share").expanduser()
    return base / "pimetrics" / "recordings"


def state_file() -> Path:
    """Return the file in which `serve` keeps its ledger unless the user names another."""
    state = os.environ.get("XDG_STATE_HOME", "")
    # The XDG specification has relative paths ignored.
    base = Path(state) if state.startswith("/") else Path("~/.local/state").expanduser()
    return base / "pimetrics" / "ledger.db"
