"""`pimetrics doctor`: what is found, what is read, what is wrong."""

from __future__ import annotations

import json
import sys
import time

import click

from pimetrics.commands.diagnosis import Diagnosis, as_dict
from pimetrics.commands.output import escape_what_cannot_be_printed
from pimetrics.examination import examine
from pimetrics.places import chosen_dirs
from pimetrics.progress import watched
from pimetrics.sources.paths import default_paths, find_files


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: every file, every finding.")
def command(paths: tuple[str, ...], *, as_json: bool) -> None:
    """Tell what pimetrics finds, how it reads it, and what is wrong with it.

    PATH is a file, a folder or a glob pattern. Without one: pi's session folder and the recordings folder.

    Exit status: 0 when nothing is wrong; 1 when there is nothing to read, a file cannot be read or is not pi's, a line
    gave no record, or a clock is odd.
    """
    folders = [] if paths else chosen_dirs()
    files = find_files(paths or default_paths())
    result = examine(files, int(time.time() * 1000), watched)
    escape_what_cannot_be_printed()
    if as_json:
        json.dump(as_dict(result, folders), sys.stdout, indent=2, allow_nan=False)
        print()
    else:
        from rich.console import Console  # noqa: PLC0415  --json does without it

        Diagnosis(Console(highlight=False, markup=False, emoji=False), result).all(folders)
    if result.is_wrong:
        sys.exit(1)
