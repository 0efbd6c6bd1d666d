"""`pimetrics serve`: follow what pi writes and serve it to Prometheus."""

from __future__ import annotations

import socket
import sys
import threading
from pathlib import Path

import click
import uvicorn
from prometheus_client import CollectorRegistry, ProcessCollector

from pimetrics.commands.stdin import refuse_terminal
from pimetrics.errors import WrongUseError
from pimetrics.exporter import Exporter
from pimetrics.names import printable
from pimetrics.pipeline import Source
from pimetrics.sinks.live import IDLE_SECONDS
from pimetrics.sinks.metrics import PiCollector
from pimetrics.sources.follow import Follower
from pimetrics.sources.paths import default_paths, find_files
from pimetrics.sources.stdin import read_pipe
from pimetrics.web.app import make_app

POLL_SECONDS = 0.25
"""How often files are looked at: a record in a file is visible within about this time."""


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--web.listen-address",
    "address",
    default="127.0.0.1:9746",
    show_default=True,
    help="Where to listen, HOST:PORT; [HOST]:PORT for IPv6.",
)
@click.option("--state", type=click.Path(path_type=Path), help="Ledger file that survives restarts.")
@click.option("--no-state", is_flag=True, help="Keep everything in memory only.")
@click.option(
    "--idle-timeout",
    "idle",
    type=click.FloatRange(min=0),
    default=IDLE_SECONDS,
    show_default=True,
    help="Seconds of silence after which a source no longer counts as active.",
)
def command(paths: tuple[str, ...], *, address: str, state: Path | None, no_state: bool, idle: float) -> None:
    """Follow what pi writes and serve it to Prometheus.

    PATH is a stream, recording or session file, a folder, or - for standard input. Without one: pi's session folder and
    the recordings folder.
    """
    del state, no_state
    refuse_terminal(paths)
    names = [path for path in paths if path != "-"]
    if names or not paths:
        find_files(names)  # what cannot be opened is said now, before anything is served
    exporter = Exporter(idle=idle)
    listener = listen(address)
    if "-" in paths:
        threading.Thread(target=_read_stdin, args=(exporter,), daemon=True, name="stdin").start()
    stop = threading.Event()
    reader = threading.Thread(
        target=_follow, args=(exporter, names or ([] if paths else default_paths()), stop), daemon=True, name="reader"
    )
    reader.start()
    host, port = listener.getsockname()[:2]
    print(f"pimetrics: serving http://{f'[{host}]' if ':' in host else host}:{port}/metrics", file=sys.stderr)
    run(exporter, listener)
    stop.set()


def run(exporter: Exporter, listener: socket.socket) -> None:
    """Serve HTTP until a signal ends it."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PiCollector(exporter.snapshot))
    ProcessCollector(registry=registry)
    app = make_app(registry, ready=lambda: exporter.ready)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off")).run(sockets=[listener])


def listen(address: str) -> socket.socket:
    """Open the listening socket.

    Raises:
        WrongUseError: The address is no address, or cannot be listened on.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not port.isdecimal() or int(port) > 65535:
        raise WrongUseError(
            f"{printable(address)} is no address to listen on; give HOST:PORT, for example 127.0.0.1:9746"
        )
    try:
        family, kind, proto, _, where = socket.getaddrinfo(
            host or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, proto)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(128)
    except OSError as error:
        raise WrongUseError(
            f"cannot listen on {printable(address)} ({error.strerror or error}); "
            "stop what uses that port or choose another with --web.listen-address"
        ) from None
    return listener


def _read_stdin(exporter: Exporter) -> None:
    source = exporter.open("-")
    for chunk in read_pipe():
        exporter.feed(source, chunk)
    exporter.finish(source)


def _follow(exporter: Exporter, paths: list[str | Path], stop: threading.Event) -> None:
    follower = Follower(paths)
    sources: dict[Path, Source] = {}
    while not stop.is_set():
        for piece in follower.poll() if paths else ():
            if piece.fresh and piece.path in sources:
                exporter.finish(sources.pop(piece.path))
            if piece.path not in sources:
                sources[piece.path] = exporter.open(str(piece.path))
            exporter.feed(sources[piece.path], piece.chunk, piece.written)
        exporter.states = {"open": len(sources)}
        exporter.ready = True
        stop.wait(POLL_SECONDS)
