"""The lines that the cases about following share, and the way they are written."""

from __future__ import annotations

from pathlib import Path

from tests.cases.scans import case


def tail_lines(number: str) -> list[bytes]:
    """The header and the six records that most of these cases share."""
    return case(number).files[0].read_bytes().splitlines(keepends=True)


def append(path: Path, *lines: bytes) -> None:
    """Write at the end of a file, in one go."""
    with path.open("ab") as file:
        file.write(b"".join(lines))
