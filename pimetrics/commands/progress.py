"""A progress bar for long reads, on a terminal only; it goes to standard error and leaves nothing behind."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

_WORTH_BYTES: Final = 32 << 20
"""Less than this is read before anybody has seen a bar."""

Sources = Iterator[tuple[str, Iterable[bytes]]]


def watched(files: Sequence[Path], sources: Sources) -> Sources:
    """Pass sources on, and show how much of the files has been read."""
    sizes = {str(file): _size(file) for file in files}
    whole = sum(sizes.values())
    if whole < _WORTH_BYTES or not sys.stderr.isatty():
        yield from sources
        return
    from rich.console import Console  # noqa: PLC0415  most reads need no bar
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=whole)
        done = 0
        for name, chunks in sources:
            size = sizes.get(name, 0)

            def counted(chunks: Iterable[bytes] = chunks, start: int = done, size: int = size) -> Iterator[bytes]:
                read = 0
                for chunk in chunks:
                    read += len(chunk)
                    bar.update(task, completed=start + min(read, size))  # a compressed file gives more than its size
                    yield chunk

            yield name, counted()
            done += size


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0  # reading it says what is wrong
