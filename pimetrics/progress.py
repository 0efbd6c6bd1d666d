"""A progress bar for long work: on standard error, and only when that is a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


_WORTH_BYTES: Final = 32 << 20
"""Less than this is read before anybody has seen a bar."""

Sources = Iterator[tuple[str, Iterable[bytes]]]


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


def watched(files: Sequence[Path], sources: Sources) -> Sources:
    """Pass sources on, and show how much of the files has been read."""
    sizes = {str(file): _size(file) for file in files}
    whole = sum(sizes.values())
    if whole < _WORTH_BYTES:
        yield from sources
        return
    with Bar("reading", whole) as bar:
        for name, chunks in sources:
            yield name, _counted(chunks, sizes.get(name, 0), bar)


def _counted(chunks: Iterable[bytes], size: int, bar: Bar) -> Iterator[bytes]:
    left = size
    for chunk in chunks:
        read = min(len(chunk), left)  # a compressed file gives more than its size
        left -= read
        bar.advance(read)
        yield chunk
    bar.advance(left)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0  # reading it says what is wrong
