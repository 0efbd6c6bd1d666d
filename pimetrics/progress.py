"""A progress bar for long work: on standard error, and only when that is a terminal."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bar:
    """Shows how much of some work is done; does nothing away from a terminal. Advancing is thread-safe.

    Args:
        what: The work, in a word or two.
        total: How much there is, in any unit; 0 shows nothing.
    """

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._lock = threading.Lock()
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self._total > 0 and sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415  only for a terminal
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._progress.start()
            self._task = self._progress.add_task(self._what, total=self._total)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            if self._progress is not None:
                self._progress.stop()
                self._progress = None

    def advance(self, amount: int) -> None:
        """So much more is done."""
        with self._lock:
            if self._progress is not None and self._task is not None:
                self._progress.advance(self._task, amount)
