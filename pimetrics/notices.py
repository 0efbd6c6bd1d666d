"""What the daemon says to its log: one line an occasion, bounded by reason and file, as text or JSON.

A broken file is worth a line, not one a second. Each reason is told at most `PER_FILE` times for a file and
`PER_REASON` times altogether, then once that no more will be told. Counts are in the metrics.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter, OrderedDict
from typing import Final

from pimetrics.names import printable

PER_FILE: Final = 2
PER_REASON: Final = 100
_FILES: Final = 10_000

LOGGER: Final = logging.getLogger("pimetrics")


class Notices:
    """Says things, a bounded number of times."""

    def __init__(self) -> None:
        self._by_file: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._by_reason: Counter[str] = Counter()

    def say(self, reason: str, text: str, path: str = "", *, level: int = logging.WARNING) -> None:
        """Log a sentence.

        Args:
            reason: A short fixed name for it, such as `unreadable`.
            text: The sentence; names from outside in it were made printable.
            path: The file that it is about.
            level: As in `logging`.
        """
        if path:
            told = self._by_file.pop((reason, path), 0) + 1
            self._by_file[reason, path] = told
            if len(self._by_file) > _FILES:
                self._by_file.popitem(last=False)
            if told > PER_FILE:
                return
        self._by_reason[reason] += 1
        if self._by_reason[reason] > PER_REASON:
            return
        extra = {"reason": reason} | ({"file": printable(path)} if path else {})
        LOGGER.log(level, text, extra=extra)
        if self._by_reason[reason] == PER_REASON:
            LOGGER.log(level, "no more lines for the reason %s; see /metrics for counts", reason, extra=extra)


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        found = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        found |= {name: getattr(record, name) for name in ("reason", "file") if hasattr(record, name)}
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return json.dumps(found)


def set_up(log_format: str) -> None:
    """Send log lines to standard error.

    Args:
        log_format: text or json.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_Json() if log_format == "json" else logging.Formatter("pimetrics: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    LOGGER.setLevel(logging.INFO)
