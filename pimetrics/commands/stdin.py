"""Standard input as an argument (`-`)."""

from __future__ import annotations

import os

from pimetrics.errors import WrongUseError


def refuse_terminal(paths: tuple[str, ...]) -> None:
    """Refuse to read records from a terminal, where none will come.

    Raises:
        WrongUseError: `-` was given and standard input is a terminal.
    """
    if "-" in paths and os.isatty(0):
        raise WrongUseError(
            'standard input is a terminal; pipe pi into it (pi --mode json "..." | pimetrics ... -) or name a file'
        )
