"""`pimetrics demo`: bundled recordings of real pi, played into a live exporter."""

from __future__ import annotations

import math
import threading
import time
from importlib.resources import as_file, files
from itertools import count

import click

from pimetrics.commands.serve import application
from pimetrics.exporter import Exporter
from pimetrics.pipeline import CHUNK_BYTES
from pimetrics.sources.compressed import read_chunks
from pimetrics.sources.replay import plan
from pimetrics.web.listening import listen, shown
from pimetrics.web.reload import LiveConfig
from pimetrics.web.server import Server

_PAUSE_SECONDS = 1.0
"""Between two recordings, so that their ends show."""


def _finite(_ctx: click.Context, _param: click.Parameter, value: float) -> float:
    if not math.isfinite(value):  # a range lets nan through
        raise click.BadParameter(f"{value} is no pace; give a number, such as 8")
    return value


@click.command()
@click.option("--web.listen-address", "address", default="127.0.0.1:9746", show_default=True, help="Where to listen.")
@click.option(
    "--speed",
    type=click.FloatRange(min=0.01),
    default=1.0,
    show_default=True,
    callback=_finite,
    help="Pace of the playing.",
)
def command(address: str, speed: float) -> None:
    """Play bundled recordings of pi into a live exporter, again and again.

    They are of pi 0.58 to 1.6, with retries, compactions and parallel tools. Nothing of yours is read or written.
    """
    exporter = Exporter()
    listener = listen(address)
    stop = threading.Event()
    player = threading.Thread(target=_play, args=(exporter, speed, stop), daemon=True, name="player")
    player.start()
    where = shown(listener)
    click.echo(f"pimetrics demo: http://{where}/ (Ctrl-C ends it). Try:\n  curl {where}/metrics", err=True)
    Server(application(exporter), LiveConfig()).run(sockets=[listener])
    stop.set()


def recordings() -> list[tuple[str, bytes]]:
    """Return the bundled recordings: (name, stamped records)."""
    found = []
    for each in sorted(files("pimetrics.demo").iterdir(), key=lambda each: each.name):
        if each.name.endswith(".jsonl.zst"):
            with as_file(each) as path:
                found.append((each.name.removesuffix(".jsonl.zst"), b"".join(read_chunks(path, CHUNK_BYTES))))
    return found


def _play(exporter: Exporter, speed: float, stop: threading.Event) -> None:
    exporter.ready = True
    bundle = recordings()
    for playing in count(1):
        for name, recording in bundle:
            start = time.time()
            source = exporter.open(f"{name}#{playing}")
            for due, line in plan(recording, round(start * 1000), playing, speed):
                if stop.wait(max(0.0, start + due - time.time())):
                    return
                exporter.feed(source, line)
            exporter.finish(source)
            if stop.wait(_PAUSE_SECONDS / speed):
                return
