"""The errors that pimetrics raises on purpose; any other exception is a bug.

Bad input is never an error here: a line that gives no record becomes a `Reject`, an unknown value is counted.
An error means that a whole source, or the command itself, cannot go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class PimetricsError(Exception):
    """Base of everything below. Its text is one sentence for the user: what happened, where, and what to do."""


class SourceError(PimetricsError):
    """A source cannot be opened or read on (missing, no permission, not a file). Rows already made stay made."""


class StateError(PimetricsError):
    """The ledger on disk cannot be opened or used (locked, newer schema, read-only)."""


class WrongUseError(PimetricsError):
    """The command line or the configuration asks for something that cannot be done as written."""


class StateFullError(StateError):
    """The ledger on disk cannot be written now (disk full, an I/O error); nothing is lost, and it is tried again."""


class StateLostError(StateError):
    """The ledger on disk is damaged; it has to be put aside and begun anew."""


@contextmanager
def needed(extra: str, library: str, what: str) -> Iterator[None]:
    """Import what an extra brings; where it was not installed, say how to install it.

    Raises:
        WrongUseError: The library is not there.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != library:
            raise
        raise WrongUseError(f"{what} needs {library}; install it with: pip install 'pimetrics[{extra}]'") from None
