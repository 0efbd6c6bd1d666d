"""What makes `serve` a receiver: the inbox on the disk, its HTTP side, and the tokens that open it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from pimetrics.errors import WrongUseError
from pimetrics.names import printable
from pimetrics.sinks.clearing import keep_clear
from pimetrics.sinks.inbox import Inbox, is_complete
from pimetrics.sinks.retention import Limits
from pimetrics.web.receive import Receiver

SHORTEST_TOKEN = 16


class Tokens:
    """The bearer tokens in a file, one a line; read again when the file changes, so that they can be replaced.

    Args:
        path: The file.

    Raises:
        WrongUseError: It cannot be read, or holds no token.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state: tuple[int, int, int] | None = None
        self._tokens: list[str] = []
        self._read()

    def __call__(self) -> Sequence[str]:
        """Return the tokens; those known before while the file cannot be read."""
        try:
            self._read()
        except WrongUseError:
            return self._tokens
        return self._tokens

    def _read(self) -> None:
        name = printable(str(self._path))
        try:
            info = self._path.stat()
            state = (info.st_ino, info.st_size, info.st_mtime_ns)
            if state == self._state:
                return
            lines = self._path.read_text(encoding="ascii").splitlines()
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
        self._tokens, self._state = tokens, state


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
