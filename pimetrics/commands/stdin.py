"""Standard input as an argument (`-`)."""

from __future__ import annotations

import os

from pimetrics.errors import WrongUseError


def refuse_unusable_stdin(paths: tuple[str, ...]) -> None:
    """Refuse to read records from a standard input where none will come.

    Raises:
        WrongUseError: `-` was given and standard input is a terminal, or closed.
    """
    if "-" not in paths:
        return
    try:
        os.read(0, 0)
    except OSError as error:
        raise WrongUseError(
            f"standard input cannot be read ({error.strerror}); pipe pi into it or name a file"
        ) from None
    if os.isatty(0):
        raise WrongUseError(
            'standard input is a terminal; pipe pi into it (pi --mode json "..." | pimetrics ... -) or name a file'
        )
