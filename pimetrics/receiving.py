"""What makes `serve` a receiver: the inbox on the disk, its HTTP side, and the tokens that open it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from pimetrics.errors import WrongUseError
from pimetrics.names import printable
from pimetrics.sinks.clearing import keep_clear
from pimetrics.sinks.inbox import Inbox, is_complete
from pimetrics.sinks.retention import Limits
from pimetrics.web.receive import Receiver

SHORTEST_TOKEN: Final = 16

_LOGGER: Final = logging.getLogger("pimetrics")
_LOG_FIELDS: Final = {"reason": "receive_tokens"}


class Tokens:
    """The bearer tokens in a file, one a line; read again when the file changes, so that they can be replaced.

    A new state that cannot be used is said once, and the tokens that were read before stay in force: a file that is
    just being written must not turn everybody away.

    Args:
        path: The file.

    Raises:
        WrongUseError: It cannot be read, or holds no token.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = _signature(path)  # before it is read: what changes meanwhile is a change
        self._tokens = _read_tokens(path)

    def __call__(self) -> Sequence[str]:
        """Return the tokens in force."""
        now = _signature(self._path)
        if now != self._seen:
            self._seen = now
            try:
                self._tokens = _read_tokens(self._path)
            except WrongUseError as error:
                _LOGGER.error("%s (the tokens read before stay in force)", error, extra=_LOG_FIELDS)  # noqa: TRY400
        return self._tokens


def _signature(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError as error:
        return (error.errno or 0,)
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _read_tokens(path: Path) -> list[str]:
    name = printable(str(path))
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError as error:
        raise WrongUseError(f"the tokens in {name} cannot be read ({error.strerror}); check the file") from None
    except UnicodeDecodeError:
        raise WrongUseError(f"{name} holds no tokens: it is not plain ASCII text") from None
    tokens = [line.strip() for line in lines if line.strip()]
    if not tokens or any(len(token) < SHORTEST_TOKEN or not token.isprintable() for token in tokens):
        raise WrongUseError(
            f"{name} must hold tokens of at least {SHORTEST_TOKEN} characters, one a line; "
            "openssl rand -hex 32 makes one"
        )
    return tokens


class Receiving:
    """A receiver, ready to be served.

    Args:
        folder: Where deliveries go.
        labels: Labels that are allowed.
        token_file: Holds the tokens that shippers must bear; None asks for none.
        max_rate: Bytes a second that are taken; None sets no limit.
        limits: What may stay in the folder.
        guarded: Tells whether everyone who gets in may deliver, where there are no tokens.

    Attributes:
        folder: Where deliveries are.
        deliverer: Tells who delivered a source; None without labels.

    Raises:
        WrongUseError: The folder or the file cannot be used.
    """

    def __init__(
        self,
        folder: Path,
        *,
        labels: Sequence[str],
        token_file: Path | None,
        max_rate: float | None,
        limits: Limits,
        guarded: Callable[[], bool],
    ) -> None:
        self._tokens = None if token_file is None else Tokens(token_file)
        self._max_rate = max_rate
        self._guarded = guarded
        self._limits = limits
        self._inbox = Inbox(folder, labels)
        self.folder = str(folder)
        self.deliverer: Callable[[str], tuple[str, ...]] | None = None
        if labels:
            self.deliverer = lru_cache(4096)(self._inbox.labels_of)

    def keep_clear(self, stop: threading.Event) -> None:
        """Keep the folder within its limits until the event is set, beside everything else."""
        threading.Thread(
            target=keep_clear, args=(self._inbox, self._limits, stop), name="clearing", daemon=True
        ).start()

    @staticmethod
    def is_complete(path: str) -> bool:
        """Whether a file is a delivered stream to which nothing will be added."""
        return is_complete(path)

    def receiver(self, count: Callable[[str, int], None]) -> Receiver:
        """Return the HTTP side; `count` is told how each request was answered, and how many bytes it brought."""
        return Receiver(self._inbox, count=count, tokens=self._tokens, guarded=self._guarded, max_rate=self._max_rate)
