"""Standard output, and files, as commands write them."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from pathlib import Path

from pimetrics.errors import SourceError
from pimetrics.names import printable


def escape_what_cannot_be_printed() -> None:
    """Show escaped what the encoding of standard output lacks: a name may hold anything, and must not end a report."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; whoever reads it sees the old one or the new one.

    What is no file (a device, a pipe) is refused, not replaced; a link stays, and what it points to is written.

    Raises:
        SourceError: The file cannot be written.
    """
    where = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise SourceError(f"{printable(str(path))} cannot be written (it is no file); choose another file")
    # Not its own suffix: who collects such files must not read a half-written one.
    aside = where.with_name(f".{where.name}.{secrets.token_hex(4)}.tmp")
    try:
        with aside.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(where)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink()
        reason = error.strerror or str(error)
        raise SourceError(f"{printable(str(path))} cannot be written ({reason}); choose another file") from None
