"""`pimetrics ship`: deliver recordings and session files that are on this disk to a receiver."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click

from pimetrics.commands.delivering import options, read_labels, target
from pimetrics.commands.lengths import Seconds
from pimetrics.errors import SourceError
from pimetrics.names import printable
from pimetrics.sources.paths import default_paths, find_files


@click.command(short_help="Deliver what is on this disk to a receiver.")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@options(required=True)
@click.option(
    "--give-up",
    "give_up",
    type=Seconds(),
    default="10m",
    show_default=True,
    help="How long to go on trying while nothing is taken.",
)
def command(
    paths: tuple[str, ...],
    *,
    to: str,
    token_file: Path | None,
    login_file: Path | None,
    ca_file: Path | None,
    labels: tuple[str, ...],
    give_up: float,
) -> None:
    """Deliver recordings and session files to a receiver (pimetrics serve --receive).

    PATH is a file, folder or pattern. Without one: the recordings folder and pi's session folder. What was delivered
    before is not sent again, and what cannot be delivered now stays where it is: run it again, at any time, as often
    as you like. Exit status 1 when something was left.
    """
    if os.name != "posix":
        raise click.UsageError("ship needs Linux or macOS; on Windows pimetrics reads and reports.")
    from pimetrics.shipping.client import Client  # noqa: PLC0415  not on Windows
    from pimetrics.shipping.memory import Memory  # noqa: PLC0415
    from pimetrics.shipping.shipper import Pauses, RefusedError, Shipper, TryLaterError  # noqa: PLC0415
    from pimetrics.sinks.recording import is_over  # noqa: PLC0415

    there = target(to, token_file, login_file, ca_file)
    memory = Memory(there.url)
    client = Client(there)
    shipper = Shipper(client, memory, labels=read_labels(labels), is_over=is_over)
    # Recordings before session files: of what both hold, a receiver counts what comes first, and they know more.
    todo = [file for path in (paths or [*map(str, reversed(default_paths()))]) for file in find_files([path])]
    pauses, left, worked_at = Pauses(), 0, time.monotonic()
    for path in todo:
        while True:
            before = shipper.delivered_bytes
            try:
                shipper.ship(path)
            except (RefusedError, SourceError) as error:
                left += 1
                _say(f"{printable(str(path))} was not delivered: {error}")
            except TryLaterError as error:
                if shipper.delivered_bytes > before:
                    pauses.worked()
                    worked_at = time.monotonic()
                pause = pauses.next(error.wait)
                if time.monotonic() + pause - worked_at > give_up:
                    _say(f"not everything was delivered ({error}); it stays here, run ship again later")
                    client.close()
                    sys.exit(1)
                time.sleep(pause)
                continue
            else:
                pauses.worked()
                worked_at = time.monotonic()
            break
    client.close()
    if not memory.writable:
        _say("what was delivered could not be remembered; give XDG_STATE_HOME a folder that can be written")
    _say(f"{shipper.delivered_bytes:,} bytes of {len(todo):,} files delivered")
    sys.exit(1 if left else 0)


def _say(text: str) -> None:
    print(f"pimetrics ship: {text}", file=sys.stderr)
