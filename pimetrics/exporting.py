"""The wiring of `export`: an archive to Parquet, as far as it has changed.

A family of files whose contents are those of the last export gave the rows that are there. So only changed families are
decoded, and those that share a day with them; only the days that they touch, or touched, are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from pimetrics import __version__
from pimetrics.progress import Bar
from pimetrics.rows import TABLES
from pimetrics.scanning import Scan
from pimetrics.sinks.frames import schema
from pimetrics.sinks.parquet import SCHEMA_VERSION, UNKNOWN_DATE, Group, Manifest, dates_of, empty, exporting
from pimetrics.sources.content import content_of
from pimetrics.sources.families import Family


class Outcome(NamedTuple):
    """What an export did.

    Attributes:
        rows: Rows in all tables of the export.
        files: Files in it.
        written: Those that were new or differed.
        decoded: Families that were decoded, of `families`.
    """

    rows: int
    files: int
    written: int
    decoded: int
    families: int


def export(scan: Scan, folder: Path) -> Outcome:
    """Bring an export folder up to date.

    Raises:
        PimetricsError: The folder cannot be written, or a source cannot be read.
    """
    with exporting(folder) as target:
        families = scan.families()
        names = _names(families)
        old = target.old if target.old is not None and target.old.made_by == __version__ else None
        known = old.groups if old is not None else {}
        fresh = [family for family in families if names[family][0] not in known]
        dates = dict(zip(fresh, _dates(scan, fresh), strict=True))
        for family in families:
            if family not in dates:
                dates[family] = set(known[names[family][0]].dates)
        stale = set().union(*(dates[family] for family in fresh))
        if old is None and target.old is not None:
            stale.update(date for parts in target.old.tables.values() for date in parts)
        if old is not None:
            now = {name for name, _ in names.values()}
            stale.update(date for name, group in old.groups.items() if name not in now for date in group.dates)
            for table in TABLES:
                stale.update(date for date in old.tables[table] if not target.intact(table, date))
        needed = [family for family in families if dates[family] & stale]
        manifest = Manifest(SCHEMA_VERSION, __version__)
        manifest.groups = {names[f][0]: Group(names[f][1], sorted(dates[f])) for f in families}
        for table in TABLES:
            kept = {} if old is None else {d: part for d, part in old.tables[table].items() if d not in stale}
            kept.update(target.put_all(table, scan.pieces(table, needed, list(schema(table))), stale))
            if UNKNOWN_DATE not in kept:
                kept[UNKNOWN_DATE] = target.put(table, UNKNOWN_DATE, empty(table))
            manifest.tables[table] = kept
        target.commit(manifest)
        parts = [part for each in manifest.tables.values() for part in each.values()]
        decoded = len({*fresh, *needed})
        return Outcome(sum(part.rows for part in parts), len(parts), len(target.written), decoded, len(families))


def _names(families: Sequence[Family]) -> dict[Family, tuple[str, dict[str, list[object]]]]:
    """Return for each family a name made of what its files hold, and their fingerprints."""
    found = {}
    with Bar("looking", sum(family.size for family in families)) as bar:
        for family in families:
            sources: dict[str, list[object]] = {}
            for path in family.files:
                content = content_of(path)
                sources[str(path)] = [None, None] if content is None else list(content)
            name = blake2b(repr(sorted(sources.items())).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
            found[family] = (name, sources)
            bar.advance(family.size)
    return found


def _dates(scan: Scan, families: Sequence[Family]) -> list[set[str]]:
    found: list[set[str]] = [set() for _ in families]
    for table in TABLES:
        for dates, piece in zip(found, scan.pieces(table, families, ["time"]), strict=True):
            dates.update(dates_of(piece.frame))
    return found
