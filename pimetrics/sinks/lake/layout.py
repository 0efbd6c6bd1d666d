"""What the names in a lake say, and which rows count."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from pimetrics.sinks.lake.store import Object

WRITER: Final = "writer"
"""A column that every file of a lake has besides those of the table: who exported the row."""

MERGED: Final = "merged"
"""In place of a writer in the name of a file that holds rows of several. Writers end in a dash and eight hex digits."""

_NAME: Final = re.compile(r"(?P<table>\w+)/date=(?P<date>[\w-]+)/(?P<writer>.+)-(?P<digest>[0-9a-f]{32})\.parquet")


class File(NamedTuple):
    """A file of a lake, as its name has it."""

    table: str
    date: str
    writer: str
    digest: str
    path: str
    size: int
    modified: datetime

    @property
    def is_merged(self) -> bool:
        """Whether it holds rows of several writers."""
        return self.writer == MERGED


class Day(NamedTuple):
    """The files of one table and day that count.

    Attributes:
        own: The newest file of each writer that has one.
        merged: Merged files; of their rows those count whose writer has no file of its own.
        others: Files that count no more: nobody misses them.
    """

    own: dict[str, File]
    merged: list[File]
    others: list[File]

    @property
    def files(self) -> list[File]:
        """Return the files that count."""
        return [*self.merged, *self.own.values()]


def path_of(table: str, date: str, writer: str, digest: str) -> str:
    """Return the path of a file below the lake."""
    return f"{table}/date={date}/{writer}-{digest}.parquet"


def manifest_of(writer: str) -> str:
    """Return the path of what a writer has exported."""
    return f"_writers/{writer}.json"


def days(objects: Iterable[Object]) -> dict[tuple[str, str], Day]:
    """Return the files of each table and date; what is not named as in a lake is somebody else's."""
    found: dict[tuple[str, str], list[File]] = defaultdict(list)
    for each in objects:
        name = _NAME.fullmatch(each.path)
        if name is not None:
            file = File(name["table"], name["date"], name["writer"], name["digest"], *each)
            found[file.table, file.date].append(file)
    return {key: current(files) for key, files in sorted(found.items())}


def current(files: Iterable[File]) -> Day:
    """Tell which files of a day count.

    A writer replaces its file by writing the new one and deleting the old; killed in between it leaves both, and the
    newer one is the truth.
    """
    day = Day({}, [], [])
    for file in sorted(files, key=lambda file: (file.modified, file.path)):
        if file.is_merged:
            day.merged.append(file)
            continue
        old = day.own.pop(file.writer, None)
        if old is not None:
            day.others.append(old)
        day.own[file.writer] = file
    return day
