"""How long recordings stay: by age and total size, and compressed once they are settled.

Only files that bear the name of a recording are touched, and never one that is still being written: a folder named by
the user may hold other things.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import math
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pimetrics.errors import WrongUseError

if TYPE_CHECKING:
    from collections.abc import Callable

SETTLED_S: Final = 600.0
"""A recording that nobody writes is compressed after this time, so that a follower has read it in place before."""

_NAME: Final = re.compile(r"\d{8}T\d{6}\.\d{3}Z_[0-9a-f]{8}\.jsonl(\.gz)?")
_LEFTOVER: Final = re.compile(r"\.\d{8}T\d{6}\.\d{3}Z_[0-9a-f]{8}\.jsonl\.gz\.part")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_BYTES: Final = {
    "": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40,
}  # fmt: skip
_BLOCK: Final = 256 * 1024
_LEVEL: Final = 6


class Limits(NamedTuple):
    """What a folder of recordings may hold.

    Attributes:
        keep_s: Longest age in seconds (None: any).
        max_bytes: Largest size of all recordings together (None: any).
    """

    keep_s: float | None
    max_bytes: int | None


def parse_keep(text: str, option: str = "--keep") -> float | None:
    """Read a length of time like 30d, 12h or 2w as seconds; `off` is no limit.

    Raises:
        WrongUseError: It is none.
    """
    if text == "off":
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text.strip())
    if not match or float(match[1]) <= 0:
        raise WrongUseError(f"{option} {text!r} is no length of time; write it like 30d, 12h or 2w, or off.")
    return float(match[1]) * _SECONDS[match[2]]


def parse_max_bytes(text: str, option: str = "--max-bytes") -> int | None:
    """Read a size like 5GB or 500MiB as bytes; `off` is no limit.

    Raises:
        WrongUseError: It is none.
    """
    if text == "off":
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    unit = _BYTES.get(match[2].upper()) if match else None
    size = float(match[1]) * unit if match and unit else 0.0
    if not 1 <= size < math.inf:
        raise WrongUseError(f"{option} {text!r} is no size; write it like 5GB or 500MiB, or off.")
    return int(size)


def tidy(folder: Path, limits: Limits, now_s: float | None = None, stop: Callable[[], bool] = lambda: False) -> None:
    """Delete what is too old or too much, oldest first, and compress what is settled.

    Safe to run at any time, from any number of processes, and to kill: a recording is replaced by its compressed form
    in one step. Files that cannot be read, deleted or compressed are left for the next time.

    Args:
        folder: The folder of the recordings; missing is the same as empty.
        limits: What may stay.
        now_s: The time, epoch seconds.
        stop: Asked often; true ends the work at the next good point.
    """
    now_s = time.time() if now_s is None else now_s
    kept: list[tuple[float, int, Path]] = []
    for path, status in _recordings(folder, now_s):
        if limits.keep_s is not None and now_s - status.st_mtime > limits.keep_s and _delete(path):
            continue
        kept.append((status.st_mtime, status.st_size, path))
    kept.sort()
    total = sum(size for _, size, _ in kept)
    for mtime, size, path in list(kept):
        if limits.max_bytes is None or total <= limits.max_bytes:
            break
        if _delete(path):
            total -= size
            kept.remove((mtime, size, path))
    for mtime, _, path in kept:
        if stop():
            return
        if path.suffix == ".jsonl" and now_s - mtime > SETTLED_S:
            with contextlib.suppress(OSError):
                _compress(path, stop)


def _recordings(folder: Path, now_s: float) -> list[tuple[Path, os.stat_result]]:
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if not entry.is_file(follow_symlinks=False):
                    continue
                status = entry.stat(follow_symlinks=False)
                if _NAME.fullmatch(entry.name):
                    found.append((Path(entry.path), status))
                elif _LEFTOVER.fullmatch(entry.name) and now_s - status.st_mtime > _SECONDS["d"]:
                    Path(entry.path).unlink()  # of a compression that was killed
    return found


def _delete(path: Path) -> bool:
    """Delete a recording that nobody writes; say whether it is gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        if not _claim(fd):
            return False
        path.unlink(missing_ok=True)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def _claim(fd: int) -> bool:
    """Take the lock that a recorder holds while it writes; false when another holds it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # no locks on this filesystem: only age tells
    return True


def _compress(path: Path, stop: Callable[[], bool]) -> None:
    """Replace a recording by its gzip form, same mode and time; or do nothing at all.

    Raises:
        OSError: It could not be done (disk full, no permission); the recording is as it was.
    """
    part = path.with_name(f".{path.name}.gz.part")
    with path.open("rb") as source:
        # The claim makes this process the only one at work on this file, so the name of the part needs no random.
        if not _claim(source.fileno()) or not path.exists():
            return
        status = os.fstat(source.fileno())
        done = False
        try:
            fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with (
                open(fd, "wb") as raw,
                gzip.GzipFile(path.name, "wb", _LEVEL, raw, status.st_mtime) as target,
            ):
                while block := source.read(_BLOCK):
                    if stop():
                        return
                    target.write(block)
            os.utime(part, ns=(status.st_atime_ns, status.st_mtime_ns))
            part.replace(path.with_name(path.name + ".gz"))
            done = True
            path.unlink(missing_ok=True)
        finally:
            if not done:
                part.unlink(missing_ok=True)
