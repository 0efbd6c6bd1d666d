"""Standard output as commands use it."""

from __future__ import annotations

import sys


def escape_what_cannot_be_printed() -> None:
    """Show escaped what the encoding of standard output lacks: a name may hold anything, and must not end a report."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
