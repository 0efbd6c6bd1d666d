"""What a machine remembers of its deliveries, in a folder of its own: small files, readable by their owner only.

    receiver           the receiver that this machine belongs to
    HASH.json          of one file: how much of it has been taken

Losing it is harmless to one receiver, which is asked how much it has; to several behind one address it is not: the
machine may then be given to another, which counts again what it sends again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path

from pimetrics.places import ship_dir

_COMPRESSED = (".gz", ".zst")


@dataclass
class Sent:
    """How far one file was delivered.

    Attributes:
        path: The file, without the ending of its compressed form.
        size: Its size when all of it was delivered; -1 until then.
        mtime_ns: The time of its last change, likewise.
        offset: Bytes that the receiver has acknowledged.
        complete: Whether the receiver was told that nothing will follow.
        generation: How often the file turned out to have other content than was delivered under its name.
        labels: The labels that its stream began with.
    """

    path: str
    size: int = -1
    mtime_ns: int = 0
    offset: int = 0
    complete: bool = False
    generation: int = 0
    labels: dict[str, str] = field(default_factory=dict)


class Memory:
    """What was delivered to one address.

    Args:
        url: The address.
        folder: Where it is remembered; by default below the state folder of the user.
    """

    def __init__(self, url: str, folder: Path | None = None) -> None:
        self._folder = (ship_dir() if folder is None else folder) / blake2b(url.encode(), digest_size=8).hexdigest()
        self._receiver: str | None = None
        self.writable = True
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            self.writable = False

    @property
    def receiver(self) -> str | None:
        """The receiver that this machine belongs to; None before the first delivery."""
        if self._receiver is None:
            with contextlib.suppress(OSError):
                self._receiver = (self._folder / "receiver").read_text(encoding="ascii").strip() or None
        return self._receiver

    def belong(self, receiver: str) -> str:
        """Belong to a receiver from now on; return the one that another process was faster with."""
        fresh = self._folder / f".{secrets.token_hex(8)}"
        try:
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.write(fd, receiver.encode("ascii") + b"\n")
                os.fsync(fd)
            finally:
                os.close(fd)
            with contextlib.suppress(FileExistsError):
                os.link(fresh, self._folder / "receiver")  # whole or not at all, and never over another
            fresh.unlink()
        except OSError:
            self.writable = False
            self._receiver = receiver
        return self.receiver or receiver

    @contextlib.contextmanager
    def of(self, path: Path) -> Iterator[Sent | None]:
        """Give what is known of a file, and keep what was changed of it; None while another process delivers it."""
        name = plain_path(path)
        try:
            file = self._folder / f"{blake2b(os.fsencode(name), digest_size=12).hexdigest()}.json"
            fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError:
            self.writable = False
            yield Sent(name)
            return
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
                return
            before = os.pread(fd, 1 << 20, 0)
            sent = _read(before) or Sent(name)
            try:
                yield sent
            finally:
                after = json.dumps(asdict(sent)).encode()
                if after != before:
                    with contextlib.suppress(OSError):  # then the receiver is asked again
                        os.pwrite(fd, after, 0)
                        os.ftruncate(fd, len(after))
        finally:
            os.close(fd)


def plain_path(path: Path) -> str:
    """Return where a file is, by the name it had before it was compressed."""
    name = os.path.abspath(path)
    return name.removesuffix(next((ending for ending in _COMPRESSED if name.endswith(ending)), ""))


def _read(text: bytes) -> Sent | None:
    """Return what a file of the memory holds; None when a crash or another version left something else."""
    try:
        return Sent(**json.loads(text))
    except (ValueError, TypeError):
        return None
