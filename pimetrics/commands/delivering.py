"""The options by which commands are told where and how to deliver."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pimetrics.delivery import LABELS, MAX_LABEL_CHARS
from pimetrics.errors import WrongUseError
from pimetrics.names import printable

if TYPE_CHECKING:
    from pimetrics.shipping.client import Target

_FILE = click.Path(path_type=Path, dir_okay=False)


def options(*, required: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options; they come as `to`, `token_file`, `login_file`, `ca_file` and `labels`."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in (
            click.option(
                "--label",
                "labels",
                multiple=True,
                metavar="NAME=VALUE",
                help=f"Who delivers: {', '.join(LABELS)}; the receiver takes those that it allows.",
            ),
            click.option("--to-ca-file", "ca_file", type=_FILE, metavar="FILE", help="Certificates to trust (PEM)."),
            click.option(
                "--to-login-file", "login_file", type=_FILE, metavar="FILE", help="File with user:password for it."
            ),
            click.option(
                "--to-token-file", "token_file", type=_FILE, metavar="FILE", help="File with a bearer token for it."
            ),
            click.option(
                "--to",
                "to",
                required=required,
                metavar="URL",
                help="Deliver to the receiver there (pimetrics serve --receive).",
            ),
        ):
            function = option(function)
        return function

    return add


def target(to: str, token_file: Path | None, login_file: Path | None, ca_file: Path | None) -> Target:
    """Read where to deliver.

    Raises:
        WrongUseError: It is no place, or a file cannot be used.
    """
    from pimetrics.shipping.client import target as read  # noqa: PLC0415  record starts without it

    return read(to, token_file, login_file, ca_file)


def read_labels(given: tuple[str, ...]) -> dict[str, str]:
    """Read `NAME=VALUE`.

    Raises:
        WrongUseError: It is none, or no name that a receiver could allow.
    """
    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or name not in LABELS or not value:
            raise WrongUseError(
                f"--label {printable(each)} is no label; give NAME=VALUE, the name one of {', '.join(LABELS)}"
            )
        if len(value) > MAX_LABEL_CHARS:
            raise WrongUseError(f"the value of --label {name} is longer than {MAX_LABEL_CHARS} characters; shorten it")
        found[name] = value
    return found
