"""How long delivered streams stay: by age and total size, oldest first.

Deleting one loses no count: its facts are in the ledger, keys and all, and should its shipper send it once more it is
taken anew and counts nothing.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from pimetrics.sinks.inbox import ENDING, Inbox
from pimetrics.sinks.retention import Limits

EVERY_SECONDS: Final = 600.0

YOUNGEST_SECONDS: Final = 3600.0
"""A stream that changed since is never deleted: it may not have been read yet."""


def clear(inbox: Inbox, limits: Limits, now_s: float, stop: Callable[[], bool] = lambda: False) -> int:
    """Delete what is too old or too much; return how many streams.

    Args:
        inbox: Where they are.
        limits: What may stay.
        now_s: The time, Unix seconds.
        stop: Asked often; true ends the work.
    """
    found = sorted(_streams(inbox.folder))
    total = sum(size for _, size, _ in found)
    deleted = 0
    for changed, size, path in found:
        too_old = limits.keep_s is not None and now_s - changed > limits.keep_s
        too_much = limits.max_bytes is not None and total > limits.max_bytes
        if stop() or not (too_old or too_much):
            break
        if inbox.delete(path, unchanged_since=now_s - YOUNGEST_SECONDS):
            total -= size
            deleted += 1
    return deleted


def keep_clear(inbox: Inbox, limits: Limits, stop: threading.Event) -> None:
    """Do so again and again until the event is set."""
    while True:
        with contextlib.suppress(OSError):  # the next round does it
            clear(inbox, limits, time.time(), stop.is_set)
        if stop.wait(EVERY_SECONDS):
            return


def _streams(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """Yield (time of the last delivery, size, path) of each stream."""
    for here, _folders, names in os.walk(folder):
        for name in names:
            if name.endswith(ENDING):
                path = Path(here, name)
                with contextlib.suppress(FileNotFoundError):
                    info = path.stat()
                    yield info.st_ctime, info.st_size, path
