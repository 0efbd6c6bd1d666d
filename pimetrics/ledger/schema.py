"""The file behind the ledger on disk: who may open it, how it is made, brought up to date, or put aside.

The file is only ever one of: absent, whole, or damaged (then it is moved aside, never deleted). A new one is made under
another name and renamed, so a crash while it is made leaves it absent.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import stat
import time
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from pimetrics.errors import StateError, StateFullError, StateLostError
from pimetrics.names import printable

APPLICATION_ID: Final = 0x70694D74  # "piMt"
MAGIC: Final = b"SQLite format 3\x00"

MIGRATIONS: Final = (
    """
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE series (metric TEXT, labels TEXT, amount TEXT NOT NULL, counts TEXT, born REAL NOT NULL,
        PRIMARY KEY (metric, labels)) WITHOUT ROWID;
    CREATE TABLE labels (label TEXT, value TEXT, PRIMARY KEY (label, value)) WITHOUT ROWID;
    CREATE TABLE parts (id INTEGER PRIMARY KEY, source TEXT NOT NULL, number INTEGER NOT NULL, session_id TEXT,
        cwd TEXT, time INTEGER, leaf TEXT, off_branch TEXT);
    CREATE INDEX parts_by_name ON parts (source, number);
    CREATE TABLE facts (tbl INTEGER, place INTEGER, hash BLOB, alias BLOB, ordinal INTEGER NOT NULL,
        counted INTEGER NOT NULL, owner INTEGER NOT NULL, entry_id TEXT, holders TEXT NOT NULL, body TEXT,
        PRIMARY KEY (tbl, place, hash)) WITHOUT ROWID;
    CREATE TABLE files (path BLOB PRIMARY KEY, dev INTEGER, ino INTEGER, size INTEGER, mtime_ns INTEGER,
        ctime_ns INTEGER, offset INTEGER, head BLOB, tail BLOB) WITHOUT ROWID;
    """,
    """
    CREATE INDEX facts_cut_off ON facts (tbl, place) WHERE ordinal > 0;
    ALTER TABLE files ADD COLUMN done INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE files ADD COLUMN errors INTEGER NOT NULL DEFAULT 0;
    """,
    """
    CREATE TABLE births (metric TEXT, labels TEXT, at REAL NOT NULL, PRIMARY KEY (metric, labels)) WITHOUT ROWID;
    """,
    """
    ALTER TABLE parts ADD COLUMN entries INTEGER NOT NULL DEFAULT 0;
    """,
    """
    CREATE TABLE names (tbl INTEGER, name BLOB, place INTEGER NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (tbl, name))
        WITHOUT ROWID;
    """,
)
"""What brings a ledger from each version to the next; a new one runs through all of them."""

VERSION: Final = len(MIGRATIONS)
_BUSY_SECONDS: Final = 5.0
_LITTLE_ROOM_BYTES: Final = 256 * 1024


class Opened(NamedTuple):
    """A ledger file in use.

    Attributes:
        connection: In autocommit mode; transactions are written out.
        lock: Descriptor of the lock file; closing it gives the ledger free.
        replaces: True when it stands in for one that was lost: its first catch-up must not count.
    """

    connection: sqlite3.Connection
    lock: int
    replaces: bool


def open_state(path: Path) -> Opened:
    """Open the ledger of an exporter, or make it.

    Raises:
        StateFullError: There is no room on the disk; try again later.
        StateError: It cannot be used: locked, newer, not writable, not on a suitable file system, no ledger.
    """
    path = _real(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        _raise(path, error)
    lock = _lock(path)
    try:
        replaces = not path.exists() and any(path.parent.glob(f"{_literal(path.name)}.corrupt-*"))
        if not path.exists():
            _make(path)
        try:
            connection = _connect(path)
        except StateLostError:
            put_aside(path)
            replaces = True
            _make(path)
            connection = _connect(path)
    except BaseException:
        os.close(lock)
        raise
    return Opened(connection, lock, replaces)


def put_aside(path: Path) -> Path:
    """Move a damaged ledger out of the way; return where it is now."""
    path = _real(path)
    name = f"{path.name}.corrupt-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}"
    aside = path.with_name(name)
    number = 1
    while aside.exists():
        aside = path.with_name(f"{name}.{number}")
        number += 1
    try:
        path.rename(aside)
        for ending in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                path.with_name(path.name + ending).rename(aside.with_name(aside.name + ending))
    except OSError as error:
        _raise(path, error)
    return aside


def is_state_file(path: Path) -> bool:
    """Whether a file is an SQLite database, as a ledger is."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def open_reader(path: Path) -> sqlite3.Connection:
    """Open a ledger for reading, also while an exporter writes it.

    Raises:
        StateError: It is no ledger, of a newer version, or cannot be read.
    """
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
        try:
            _check_identity(path, connection)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise StateError(
            f"{printable(str(path))} cannot be read as a ledger ({error}); name a file that pimetrics serve keeps"
        ) from None
    return connection


def failure(path: Path, error: sqlite3.Error) -> StateError:
    """Say what an SQLite error means for the ledger."""
    name = getattr(error, "sqlite_errorname", "")
    shown = printable(str(path))
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return StateLostError(f"{shown} is damaged ({error}); it is put aside and begun anew")
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_BUSY", "SQLITE_LOCKED")) or _little_room(path):
        return StateFullError(f"{shown} cannot be written now ({error}); make room on its disk")
    return StateError(f"{shown} cannot be used ({error}); check its permissions or name another file with --state")


def _real(path: Path) -> Path:
    """Follow links, as SQLite does: the lock, the log and what is put aside belong beside the file itself."""
    return Path(os.path.realpath(path))


def _lock(path: Path) -> int:
    import fcntl  # noqa: PLC0415  not on Windows, where ledgers can be read

    name = path.with_name(path.name + ".lock")
    try:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        _raise(path, error)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in {errno.EAGAIN, errno.EACCES}:
            raise StateError(
                f"{printable(str(path))} is in use by another pimetrics serve; stop that one or name another file "
                "with --state"
            ) from None
        _raise(path, error)
    return descriptor


def _make(path: Path) -> None:
    """Make an empty ledger."""
    new = path.with_name(path.name + ".new")
    try:
        for ending in ("", "-wal", "-shm", "-journal"):
            new.with_name(new.name + ending).unlink(missing_ok=True)
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # SQLite gives its mode to -wal and -shm
        connection = sqlite3.connect(new, isolation_level=None)
        try:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            _migrate(connection, 0)
        finally:
            connection.close()
        new.rename(path)
    except OSError as error:
        _raise(path, error)
    except sqlite3.Error as error:
        raise failure(path, error) from None


def _connect(path: Path) -> sqlite3.Connection:
    """Open what exists.

    Raises:
        StateLostError: It is damaged.
        StateError: It cannot be used.
    """
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            raise StateError(f"{printable(str(path))} is no file; name another with --state")
        if not os.access(path, os.R_OK | os.W_OK) or not info.st_mode & stat.S_IRWXU:
            raise StateError(f"{printable(str(path))} may not be written; check its permissions")
        if not is_state_file(path):
            raise StateLostError(f"{printable(str(path))} is no database")
    except OSError as error:
        _raise(path, error)
    try:
        connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise failure(path, error) from None
    try:
        version = _check_identity(path, connection)
        _use_log(path, connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA cache_size = -16384")  # 16 MiB
        _migrate(connection, version)
        _check_whole(path, connection)
    except sqlite3.Error as error:
        connection.close()
        raise failure(path, error) from None
    except BaseException:
        connection.close()
        raise
    return connection


def _use_log(path: Path, connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
        raise StateError(
            f"{printable(str(path))} is on a file system without shared memory (WAL); name a file on a local disk with "
            "--state"
        )


def _check_identity(path: Path, connection: sqlite3.Connection) -> int:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise StateError(f"{printable(str(path))} is a database of another program; name another file with --state")
    if version > VERSION:
        raise StateError(
            f"{printable(str(path))} has the schema of a newer pimetrics (version {version}, this one knows {VERSION});"
            " update pimetrics or name another file with --state"
        )
    assert isinstance(version, int)
    return version


def _migrate(connection: sqlite3.Connection, version: int) -> None:
    for number in range(version, VERSION):
        # executescript would commit what is open; the script therefore holds the whole transaction
        connection.executescript(f"BEGIN IMMEDIATE;{MIGRATIONS[number]}PRAGMA user_version = {number + 1};COMMIT;")


def _check_whole(path: Path, connection: sqlite3.Connection) -> None:
    """Find a file that was cut: SQLite itself would notice only when it needs a page that is gone."""
    with contextlib.suppress(sqlite3.OperationalError):  # no room to copy the log into it now: then it is not checked
        if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            return
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        if path.stat().st_size < pages * size:
            raise StateLostError(f"{printable(str(path))} is cut short")


def _raise(path: Path, error: OSError) -> NoReturn:
    shown = printable(str(path))
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        raise StateFullError(f"{shown} cannot be written now ({error.strerror}); make room on its disk") from None
    raise StateError(
        f"{shown} cannot be used ({error.strerror}); check its permissions or name another file with --state"
    ) from None


def _little_room(path: Path) -> bool:
    try:
        room = os.statvfs(path.parent)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize < _LITTLE_ROOM_BYTES


def _literal(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)
