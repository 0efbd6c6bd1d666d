"""An export into a folder of this machine: `DIR/usage/date=2026-11-30/data.parquet`.

New files are written aside (`DIR/.export-...`) and swapped in when all are there; `_manifest.json` comes last. A crash
or a full disk before the swap leaves the old export as it was; a crash in the middle of it leaves whole files, some old
and some new, and a manifest that says so, and the next export writes all of them again.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import polars as pl

from pimetrics.errors import StateError
from pimetrics.names import printable
from pimetrics.sinks.parquet import SCHEMA_VERSION, Manifest, Target, parse_manifest

MANIFEST: Final = "_manifest.json"
FILE: Final = "data.parquet"
_ASIDE: Final = ".export-"


class Folder(Target):
    """An export folder while it is written. Made by `exporting`."""

    def __init__(self, folder: Path, aside: Path) -> None:
        super().__init__(_read_manifest(folder))
        self.folder = folder
        self._aside = aside

    def keep(self, table: str, date: str, data: memoryview) -> None:
        """Write a partition aside."""
        path = self._aside / _place(table, date)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def get(self, table: str, date: str) -> pl.DataFrame:
        """Return a partition that was put."""
        base = self._aside if (table, date) in self.written else self.folder
        return pl.read_parquet(base / _place(table, date), hive_partitioning=False)

    def intact(self, table: str, date: str) -> bool:
        """Whether the file that the old manifest names is there, in its size."""
        part = self.old.tables.get(table, {}).get(date) if self.old is not None else None
        try:
            return part is not None and (self.folder / _place(table, date)).stat().st_size == part.size
        except OSError:
            return False

    def commit(self, manifest: Manifest) -> None:
        """Swap the new files in, take away those that no longer hold rows, and the manifest last."""
        begun, new = self._aside / "begun.json", self._aside / MANIFEST
        for path, content in ((begun, {"schema_version": SCHEMA_VERSION, "swapping": True}), (new, manifest.to_json())):
            with path.open("w", encoding="utf-8") as file:
                json.dump(content, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
        ours = (self.folder / MANIFEST).exists()  # else whatever is there was not exported by us
        if self.written:
            begun.replace(self.folder / MANIFEST)
        for table, date in sorted(self.written):
            _swap(self._aside, self.folder, _place(table, date))
        if ours:
            for table, parts in manifest.tables.items():
                for path in sorted((self.folder / table).glob(f"date=*/{FILE}")):
                    if path.parent.name.removeprefix("date=") not in parts:
                        _remove(path)
        new.replace(self.folder / MANIFEST)


@contextmanager
def exporting(folder: Path) -> Iterator[Folder]:
    """Open an export folder to write; what was not committed is gone afterwards.

    Raises:
        StateError: It cannot be written, is full, or another export is writing it.
    """
    try:
        made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder):
            for left in folder.glob(f"{_ASIDE}*"):
                shutil.rmtree(left, ignore_errors=True)  # of an export that was killed
            aside = Path(tempfile.mkdtemp(prefix=_ASIDE, dir=folder))
            done = False
            try:
                yield Folder(folder, aside)
                done = True
            finally:
                shutil.rmtree(aside, ignore_errors=True)
                if made and not done and not any(folder.iterdir()):
                    folder.rmdir()
    except OSError as error:
        where = printable(str(folder))
        raise StateError(
            f"{where} cannot be written ({error.strerror or error}); what was exported there before is unchanged, "
            "free space or name another folder in --to"
        ) from None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        import fcntl  # noqa: PLC0415  not on Windows, where nobody keeps two exports apart
    except ImportError:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateError(f"{printable(str(folder))} is being written by another export; wait for it") from None
        yield
    finally:
        os.close(descriptor)


def _read_manifest(folder: Path) -> Manifest | None:
    try:
        return parse_manifest((folder / MANIFEST).read_bytes())
    except OSError:
        return None


def _place(table: str, date: str) -> Path:
    return Path(table, f"date={date}", FILE)


def _swap(aside: Path, folder: Path, place: Path) -> None:
    """Move a file in, with as much of its folders as is not there yet: renames need no space."""
    for part in (*reversed(place.parents[:-1]), place):
        if not (aside / part).exists():
            return  # moved with its folder
        if not (folder / part).exists() or part == place:
            (aside / part).replace(folder / part)
            return


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    try:
        path.parent.rmdir()
    except OSError:
        return  # somebody keeps other files there
