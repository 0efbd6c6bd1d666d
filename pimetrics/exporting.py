"""The wiring of `export`: an archive to Parquet, as far as it has changed.

A family of files whose contents are those of the last export gave the rows that are there. So only changed families are
decoded, and those that share a day with them; only the days that they touch, or touched, are written.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
from collections.abc import Sequence
from contextlib import AbstractContextManager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pimetrics import __version__
from pimetrics.errors import WrongUseError, needed
from pimetrics.names import printable
from pimetrics.places import host_file
from pimetrics.progress import Bar
from pimetrics.rows import TABLES
from pimetrics.scanning import Scan
from pimetrics.sinks.folder import exporting
from pimetrics.sinks.frames import schema
from pimetrics.sinks.parquet import SCHEMA_VERSION, UNKNOWN_DATE, Group, Manifest, Target, dates_of, empty
from pimetrics.sources.content import content_of
from pimetrics.sources.families import Family

if TYPE_CHECKING:
    from pimetrics.sinks.lake.merging import Outcome as Merged


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


def export(scan: Scan, to: str | Path, host: str | None = None) -> Outcome:
    """Bring an export up to date.

    Args:
        scan: What is exported.
        to: A folder, or the address of a lake (`s3://bucket/folder`), which takes the exports of many hosts.
        host: Name of this host in a lake; None takes one that is its own (see `_own_name`).

    Raises:
        PimetricsError: The export cannot be written, or a source cannot be read.
    """
    with _target(scan, to, host) as target:
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


def compact_lake(url: str) -> Merged:
    """Merge the small files of a lake.

    Raises:
        PimetricsError: The lake cannot be read or written.
    """
    with needed("lake", "obstore", "a lake"):
        from pimetrics.sinks.lake.merging import merge  # noqa: PLC0415  an extra, needed for nothing else

    return merge(url)


def is_lake(to: str | Path) -> bool:
    """Whether an export goes to an object store."""
    return "://" in str(to)


def _target(scan: Scan, to: str | Path, host: str | None) -> AbstractContextManager[Target]:
    if not is_lake(to):
        return exporting(Path(to))
    with needed("lake", "obstore", "a lake"):
        from pimetrics.sinks.lake.writing import writing  # noqa: PLC0415  an extra, needed for nothing else
    # A host may export several archives to one lake; each is a writer of its own.
    named = repr([host or _own_name(), *scan.roots]).encode("utf-8", "surrogatepass")
    shown = re.sub(r"[^A-Za-z0-9._]+", "-", host or socket.gethostname())[:40]
    return writing(str(to), f"{shown}-{blake2b(named, digest_size=4).hexdigest()}")


def _own_name() -> str:
    """Return a name that no other host has, made when it is first needed: containers share host names."""
    path = host_file()
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if name := path.read_text(encoding="ascii").strip():
            return name
    name = secrets.token_hex(8)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(name + "\n")
    except FileExistsError:
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise WrongUseError(
            f"{printable(str(path))} cannot be written ({error.strerror}), so this host has no name of its own; "
            "give it one with --host"
        ) from None
    return name


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
        first = 0
        for piece in scan.pieces(table, families, ["time"]):
            for number, date in dates_of(piece):
                found[first + number].add(date)
            first += len(piece.counts)
    return found
