"""A lake written to by one host."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from pimetrics.sinks.lake.layout import WRITER, Day, File, current, days, manifest_of, path_of
from pimetrics.sinks.lake.store import Store, at_once
from pimetrics.sinks.parquet import Manifest, Target, empty, parse_manifest


class Writer(Target):
    """What one writer has in a lake, while it is written. Made by `writing`.

    New files come first, then the manifest, then the old files go: killed anywhere in between, the lake shows every
    row (see `layout.current`), and the next export of this writer clears what is left.
    """

    def __init__(self, store: Store, writer: str, aside: Path) -> None:
        manifest = store.get(manifest_of(writer))
        super().__init__(None if manifest is None else parse_manifest(manifest))
        self._store = store
        self._writer = writer
        self._aside = aside
        self._days = days(store.list())

    def shaped(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Say in each row who exported it: that stays true when files are merged."""
        return frame.with_columns(pl.lit(self._writer).alias(WRITER))

    def keep(self, table: str, date: str, data: memoryview) -> None:
        """Keep a partition on this machine until all are there."""
        self._file(table, date).write_bytes(data)

    def get(self, table: str, date: str) -> pl.DataFrame:
        """Return a partition that was put."""
        if (table, date) in self.written:
            return pl.read_parquet(self._file(table, date)).drop(WRITER)
        own = self._store.address(self._day(table, date).own[self._writer].path)
        return pl.read_parquet(own, glob=False, hive_partitioning=False).drop(WRITER)

    def intact(self, table: str, date: str) -> bool:
        """Whether the file that the old manifest names is there, or was merged with others."""
        part = self.old.tables.get(table, {}).get(date) if self.old is not None else None
        if part is None:
            return False
        day = self._day(table, date)
        own = day.own.get(self._writer)
        return (own.digest, own.size) == (part.digest, part.size) if own is not None else bool(day.merged)

    def commit(self, manifest: Manifest) -> None:
        """Send what is new, and clear what it replaces."""
        for table, date in self._emptied(manifest):
            self.put(table, date, empty(table))
        paths = {key: path_of(*key, self._writer, part.digest) for key, part in self.written.items()}
        at_once(lambda key: self._store.put(paths[key], self._file(*key).read_bytes()), paths)
        self._store.put(manifest_of(self._writer), json.dumps(manifest.to_json(), indent=1).encode("utf-8"))
        self._store.delete([file.path for file in self._replaced(manifest) if file.path not in paths.values()])

    def _emptied(self, manifest: Manifest) -> list[tuple[str, str]]:
        """Return the days of which a merged file still holds rows of ours, though there are none any more.

        An empty file of our own says so.
        """
        return [
            (table, date)
            for table, dates in (self.old.tables if self.old is not None else {}).items()
            for date in dates
            if date not in manifest.tables.get(table, {}) and self._day(table, date).merged
        ]

    def _replaced(self, manifest: Manifest) -> Iterator[File]:
        for (table, date), day in self._days.items():
            part = manifest.tables.get(table, {}).get(date) or self.written.get((table, date))
            for file in (*day.own.values(), *day.others):
                if file.writer == self._writer and (part is None or file.digest != part.digest):
                    yield file

    def _day(self, table: str, date: str) -> Day:
        return self._days.get((table, date)) or current(())

    def _file(self, table: str, date: str) -> Path:
        return self._aside / f"{table}-{date}.parquet"


@contextmanager
def writing(url: str, writer: str) -> Iterator[Writer]:
    """Open a lake to write as `writer`; what was not committed is gone afterwards.

    Raises:
        StateError: The store cannot be read or written.
    """
    with tempfile.TemporaryDirectory(prefix="pimetrics-export-") as aside:
        yield Writer(Store(url), writer, Path(aside))
