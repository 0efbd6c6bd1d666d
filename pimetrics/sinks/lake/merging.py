"""Small files of a day put together: many hosts that export often leave many, and each costs a request to read."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, NamedTuple

import polars as pl

from pimetrics.errors import StateError
from pimetrics.sinks.lake.layout import MERGED, Day, days, path_of
from pimetrics.sinks.lake.reading import rows_of
from pimetrics.sinks.lake.store import Store, reason
from pimetrics.sinks.parquet import SCHEMA_VERSION

_TRIES: Final = 3


class Outcome(NamedTuple):
    """What a merge did: files before and after, of the whole lake."""

    before: int
    after: int


def merge(url: str) -> Outcome:
    """Make one file of each day that has several, for every table; run by any host, at any time.

    The merged file is there before those that it replaces go, merged ones first: so in every moment the names say
    rightly which rows count. Memory does not grow with the day: rows are streamed.

    Raises:
        StateError: The store cannot be read or written.
    """
    store = Store(url)
    before = after = 0
    for (table, date), day in days(store.list()).items():
        before += len(day.files) + len(day.others)
        after += 1
        for left in reversed(range(_TRIES)):
            try:
                _merge_day(store, table, date, day)
                break
            except (FileNotFoundError, pl.exceptions.PolarsError) as error:
                # Its writer, or another merge, has replaced a file meanwhile: look again.
                if not left:
                    raise StateError(
                        f"{store.shown} cannot be merged ({reason(error)}); check that its files are whole"
                    ) from None
                day = days(store.list(f"{table}/date={date}/"))[table, date]  # noqa: PLW2901
    return Outcome(before, after)


def _merge_day(store: Store, table: str, date: str, day: Day) -> None:
    if len(day.files) < 2 and not day.others:
        return
    inputs = sorted(file.path for file in day.files)
    if len(inputs) > 1:
        # Named by what went in: two merges of the same files write the same file.
        digest = blake2b("\n".join(inputs).encode("utf-8"), digest_size=16).hexdigest()
        rows_of(store, table, day).sink_parquet(
            store.address(path_of(table, date, MERGED, digest)),
            compression="zstd",
            metadata={"pimetrics.schema_version": str(SCHEMA_VERSION), "pimetrics.table": table},
            mkdir=True,
        )
        store.delete([file.path for file in day.merged])
        store.delete([file.path for file in day.own.values()])
    store.delete([file.path for file in day.others])
