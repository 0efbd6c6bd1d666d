"""Which files a path means.

A path is a file (any name), a folder (all `*.jsonl`, `*.jsonl.gz`, `*.jsonl.zst` below it) or a glob pattern. Without a
path: pi's own session folder and the recordings folder. A file that several names reach (symlinks, hard links) is read
once. Folders behind symlinks inside a folder are not followed, so a planted link cannot make the search wander or never
end; only regular files are taken.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pimetrics.errors import SourceError
from pimetrics.names import printable
from pimetrics.places import recordings_dir, sessions_dir

SUFFIXES: Final = (".jsonl", ".jsonl.gz", ".jsonl.zst")


def find_files(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return the files that the paths mean, sorted by name, each file once.

    Raises:
        SourceError: A path that does not exist, may not be read, or matches nothing.
    """
    found: dict[tuple[int, int], Path] = {}
    for path in paths:
        for each in sorted(_expand(os.path.expanduser(os.fspath(path)))):
            info = each.stat()
            found.setdefault((info.st_dev, info.st_ino), each)
    return sorted(found.values())


def is_session_name(name: str) -> bool:
    """Whether a folder read takes files of that name."""
    return name.endswith(SUFFIXES)


def walk(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder that have a fitting name and are regular files.

    A folder in it that cannot be read comes out as a path too: whoever reads it says that something is missing.
    """
    closed: list[Path] = []
    for here, _folders, names in os.walk(folder, onerror=lambda error: closed.append(Path(error.filename))):
        yield from closed
        closed.clear()
        for name in names:
            if is_session_name(name):
                path = Path(here, name)
                if _is_file(path):
                    yield path
    yield from closed


def default_paths() -> list[Path]:
    """Return the folders to look in when none is named: pi's sessions and the recordings, those that exist."""
    return [folder for folder in (sessions_dir(), recordings_dir()) if folder.is_dir()]


def _expand(path: str) -> list[Path]:
    if not os.path.lexists(path) and glob.has_magic(path):
        matches = [Path(each) for each in glob.glob(path, recursive=True)]
        files = [each for each in matches if _is_file(each)]
        if not files:  # a pattern for folders means what is in them
            files = [file for each in matches if each.is_dir() for file in walk(each)]
        if not matches:
            raise SourceError(f"nothing matches {printable(path)}; check the pattern (** goes into folders)")
        return files
    try:
        info = os.stat(path)
    except (ValueError, UnicodeError):
        raise SourceError(f"{printable(path)} can be no name of a file; check it") from None
    except FileNotFoundError:
        raise SourceError(f"{printable(path)} does not exist; name a file or folder that does") from None
    except OSError as error:
        raise _unreadable(path, error) from None
    if not stat.S_ISDIR(info.st_mode):
        return [Path(path)]
    try:
        with os.scandir(path):
            pass
    except OSError as error:
        raise _unreadable(path, error) from None
    return list(walk(Path(path)))


def _unreadable(path: str, error: OSError) -> SourceError:
    return SourceError(f"{printable(path)} cannot be read ({error.strerror}); check its permissions")


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False  # a dangling link, or gone since it was listed
