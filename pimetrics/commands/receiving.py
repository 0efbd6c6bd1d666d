"""The options by which `serve` becomes a receiver."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from pimetrics.delivery import LABELS
from pimetrics.errors import WrongUseError
from pimetrics.receiving import Receiving
from pimetrics.sinks.retention import Limits, parse_keep, parse_max_bytes

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--receive",
        "receive",
        metavar="DIR",
        type=click.Path(path_type=Path, file_okay=False),
        help="Take what other machines deliver (record --to, ship) into this folder, and follow it.",
    ),
    click.option(
        "--receive-token-file",
        "receive_token_file",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Tokens that shippers must bear, one a line.",
    ),
    click.option(
        "--receive-label",
        "receive_labels",
        multiple=True,
        type=click.Choice(LABELS),
        help="Take this label from shippers, and count by it in pi_fleet_*; several times for several.",
    ),
    click.option(
        "--receive-max-rate",
        "receive_max_rate",
        default="64MB",
        show_default=True,
        metavar="SIZE",
        help="Bytes a second that are taken, uncompressed; off takes all.",
    ),
    click.option(
        "--receive-keep",
        "receive_keep",
        default="30d",
        show_default=True,
        metavar="TIME",
        help="Delete streams that got nothing for so long (30d, 12h, off); what they counted stays.",
    ),
    click.option(
        "--receive-max-bytes",
        "receive_max_bytes",
        default="off",
        show_default=True,
        metavar="SIZE",
        help="Delete the oldest streams above this size (500GB, off).",
    ),
)


def options(function: Command) -> Command:
    """Give a command the options; they come as the arguments of `open_receiving`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def open_receiving(
    *,
    guarded: Callable[[], bool],
    receive: Path | None,
    receive_token_file: Path | None,
    receive_labels: tuple[str, ...],
    receive_max_rate: str,
    receive_keep: str,
    receive_max_bytes: str,
) -> Receiving | None:
    """Open the inbox that is asked for, if one is.

    Args:
        guarded: Tells whether nobody gets in whom the web configuration does not know, or nobody but this machine.
        receive: As the option says, like all that follow.
        receive_token_file: -
        receive_labels: -
        receive_max_rate: -
        receive_keep: -
        receive_max_bytes: -

    Raises:
        WrongUseError: The options do not go together, or what they name cannot be used.
    """
    if receive is None:
        if receive_token_file is not None or receive_labels:
            raise WrongUseError("--receive-token-file and --receive-label go with --receive DIR; add it")
        return None
    if receive_token_file is None and not guarded():
        raise WrongUseError(
            "--receive at an address that others can reach would let everyone write here; name tokens with "
            "--receive-token-file, or passwords or certificates with --web.config.file, or listen on 127.0.0.1"
        )
    return Receiving(
        receive.expanduser().absolute(),
        labels=[name for name in LABELS if name in receive_labels],
        token_file=receive_token_file,
        max_rate=parse_max_bytes(receive_max_rate, "--receive-max-rate"),
        limits=Limits(
            parse_keep(receive_keep, "--receive-keep"), parse_max_bytes(receive_max_bytes, "--receive-max-bytes")
        ),
        guarded=guarded,
    )
