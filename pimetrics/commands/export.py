"""`pimetrics export`: tables as Parquet."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pimetrics.errors import WrongUseError, needed
from pimetrics.exporting import compact_lake, export, is_lake
from pimetrics.scanning import Scan
from pimetrics.workers import Engine


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--to",
    required=True,
    metavar="DIR|URL",
    help="Folder for the datasets, one a table, made if it is not there; or a lake (s3://bucket/folder), which many "
    "hosts may write.",
)
@click.option("--host", metavar="NAME", help="Name of this host in a lake.  [default: one of its own]")
@click.option("--engine", type=click.Choice(["ray"]), help="Decode on a Ray cluster (RAY_ADDRESS, else this machine).")
@click.option("--compact", is_flag=True, help="Instead: merge the small files that many exports left in a lake.")
def command(paths: tuple[str, ...], to: str, host: str | None, engine: str | None, *, compact: bool) -> None:
    """Write all tables as Parquet, partitioned by day (UTC).

    PATH is a stream, recording, RPC output or session file, a folder or a glob pattern. Without one: pi's session
    folder and the recordings folder. Run again, it reads and writes only what has changed since.
    """
    if compact and (paths or engine or not is_lake(to)):
        raise WrongUseError("--compact merges the files of a lake; give it alone, with --to s3://bucket/folder")
    if host is not None and not is_lake(to):
        raise WrongUseError("--host names this host in a lake; a folder has one writer, so leave it out")
    if compact:
        merged = compact_lake(to)
        print(f"{merged.before:,} files became {merged.after:,}", file=sys.stderr)
        return
    done = export(
        Scan(paths, engine=_cluster() if engine else None), to if is_lake(to) else Path(to).expanduser(), host
    )
    print(
        f"{done.rows:,} rows in {done.files:,} files, {done.written:,} of them written "
        f"({done.decoded:,} of {done.families:,} groups of sources read)",
        file=sys.stderr,
    )


def _cluster() -> Engine:
    with needed("ray", "ray", "--engine ray"):
        from pimetrics.cluster import Cluster  # noqa: PLC0415  an extra, needed for nothing else

    return Cluster()
