"""`pimetrics export`: tables as Parquet."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pimetrics.exporting import export
from pimetrics.scanning import Scan


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--to",
    "folder",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the datasets, one a table; it is made if it is not there.",
)
def command(paths: tuple[str, ...], folder: Path) -> None:
    """Write all tables as Parquet, partitioned by day (UTC).

    PATH is a stream, recording, RPC output or session file, a folder or a glob pattern. Without one: pi's session
    folder and the recordings folder. Run again, it reads and writes only what has changed since.
    """
    done = export(Scan(paths), folder.expanduser())
    print(
        f"{done.rows:,} rows in {done.files:,} files, {done.written:,} of them written "
        f"({done.decoded:,} of {done.families:,} groups of sources read)",
        file=sys.stderr,
    )
