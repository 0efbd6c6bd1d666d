"""The web configuration in force: read at the start, read again when its files have changed.

New certificates and users hold for the next connection and the next request; the listener stays. A new state that
cannot be used is said once, and what was in force stays in force.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Final, TypeAlias

from pimetrics.errors import WrongUseError
from pimetrics.names import printable
from pimetrics.web.config import WebConfig
from pimetrics.web.tls import make_context

LOOK_SECONDS: Final = 1.0
"""How often the files are looked at."""

_State: TypeAlias = dict[Path, tuple[int, ...]]
_LOGGER: Final = logging.getLogger("pimetrics")
_LOG_FIELDS: Final = {"reason": "web_config"}


class LiveConfig:
    """A web configuration that follows its file.

    Args:
        path: The file; without one everyone is served over plain HTTP.

    Raises:
        WrongUseError: The file, or one that it names, cannot be used.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.config = WebConfig()
        self.context: ssl.SSLContext | None = None
        self._path = path
        self._loaded: _State = {}
        self._seen: _State = {}
        if path is not None:
            self._load(path)

    @property
    def scheme(self) -> str:
        """How a URL of it begins."""
        return "http" if self.context is None else "https"

    def look(self) -> None:
        """Read the files again if they have changed and rest: a change of several files is one change."""
        if self._path is None:
            return
        state = _state(self._loaded)
        if state != self._seen:
            self._seen = state
            return
        if state == self._loaded:
            return
        try:
            self._load(self._path)
        except WrongUseError as error:
            _LOGGER.error("%s (the web configuration read before stays in force)", error, extra=_LOG_FIELDS)  # noqa: TRY400
        else:
            _LOGGER.info("the web configuration was read again: %s", self._summary(), extra=_LOG_FIELDS)

    async def follow(self) -> None:
        """Look at the files again and again; ends when it is cancelled."""
        while self._path is not None:
            await asyncio.sleep(LOOK_SECONDS)
            await asyncio.to_thread(self.look)

    def _load(self, path: Path) -> None:
        from pimetrics.web.configfile import is_blank, load  # noqa: PLC0415  YAML and bcrypt only where there is a file

        state = _state((path,))  # before it is read: what changes meanwhile is a change
        try:
            config = load(path)
            if self.config != WebConfig() and is_blank(path):
                # What a full disk leaves of a file that is written anew must not let everyone in.
                raise WrongUseError(f"{printable(str(path))} is empty; write {{}} to let everyone in")
            state |= _state(config.files)
            context = make_context(config.tls) if config.tls is not None else None
            self.config, self.context = config, context
        finally:
            self._loaded = self._seen = state

    def _summary(self) -> str:
        users = len(self.config.users)
        return f"{'plain HTTP' if self.context is None else 'TLS'}, {users} user{'' if users == 1 else 's'}"


def _state(paths: Iterable[Path]) -> _State:
    """Return what tells one state of files from the next."""
    return {path: _signature(path) for path in paths}


def _signature(path: Path) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError as error:
        return (error.errno or 0,)
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
