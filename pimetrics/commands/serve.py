"""`pimetrics serve`: follow what pi writes and serve it to Prometheus."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

import click
from prometheus_client import ProcessCollector
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from pimetrics.commands import receiving
from pimetrics.commands.lengths import Seconds
from pimetrics.commands.stdin import refuse_unusable_stdin
from pimetrics.daemon import Daemon
from pimetrics.errors import PimetricsError, WrongUseError
from pimetrics.exporter import Exporter, LiveLedger
from pimetrics.ledger.memory import MemoryLedger
from pimetrics.ledger.schema import put_aside
from pimetrics.ledger.sqlite import SqliteLedger
from pimetrics.notices import LOGGER, set_up
from pimetrics.places import recordings_dir, sessions_dir, state_file
from pimetrics.sinks.births import HOLD_SECONDS
from pimetrics.sinks.exposition import Exposition
from pimetrics.sinks.live import IDLE_SECONDS
from pimetrics.sinks.recording import is_over
from pimetrics.sources.paths import find_files
from pimetrics.sources.stdin import PipeBuffer, read_pipe
from pimetrics.sources.waker import Waker
from pimetrics.stamping import Stamper
from pimetrics.web.app import make_app
from pimetrics.web.listening import is_loopback, listen, shown, warn_if_open
from pimetrics.web.page import render
from pimetrics.web.reload import LiveConfig
from pimetrics.web.server import Server

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
"""Numbers of options in glibc's malloc.h."""

_LARGE_BYTES: Final = 128 * 1024


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--web.listen-address",
    "address",
    default="127.0.0.1:9746",
    show_default=True,
    help="Where to listen, HOST:PORT; [HOST]:PORT for IPv6.",
)
@click.option(
    "--web.config.file",
    "web_config",
    type=click.Path(path_type=Path),
    help="TLS, client certificates and passwords, in the format of Prometheus' exporters; read again when it changes.",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    help="Ledger file that survives restarts  [default: pimetrics/ledger.db in $XDG_STATE_HOME or ~/.local/state]",
)
@click.option("--no-state", is_flag=True, help="Keep everything in memory only.")
@click.option(
    "--idle-timeout",
    "idle",
    type=Seconds(),
    default=f"{IDLE_SECONDS / 60:g}m",
    show_default=True,
    help="Silence after which a source no longer counts as active.",
)
@click.option(
    "--web.zero-hold",
    "zero_hold",
    type=Seconds(),
    default=f"{HOLD_SECONDS:g}s",
    show_default=True,
    help="How long scrapers are shown a new series at 0, so that increase() sees its first increment.",
)
@click.option(
    "--retention",
    "keep_s",
    type=Seconds(),
    help="How long rows stay in the ledger, such as 400d; counters and what was seen stay  [default: for ever]",
)
@receiving.options
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form of log lines."
)
def command(
    paths: tuple[str, ...],
    *,
    address: str,
    web_config: Path | None,
    state: Path | None,
    no_state: bool,
    idle: float,
    zero_hold: float,
    keep_s: float | None,
    log_format: str,
    **receive: Any,
) -> None:
    """Follow what pi writes and serve it to Prometheus.

    PATH is a stream, recording or session file, a folder, or - for standard input. Without one: pi's session folder and
    the recordings folder; with --receive that folder alone.
    """
    if no_state and state is not None:
        raise WrongUseError("--state and --no-state exclude each other; give one of them")
    refuse_unusable_stdin(paths)
    set_up(log_format)
    names = [path for path in paths if path != "-"]
    if names:
        find_files(names)  # what cannot be opened is said now, before anything is served
    followed = [*map(os.path.expanduser, names)] if paths else [str(sessions_dir()), str(recordings_dir())]
    file = None if no_state else state or state_file()
    listener = listen(address)
    web = LiveConfig(web_config)
    inbox = receiving.open_receiving(**receive, guarded=lambda: is_loopback(listener) or web.config.authenticates)
    if inbox is not None:
        followed = [*(followed if paths else ()), inbox.folder]
    exporter = Exporter(idle=idle, zero_hold=zero_hold, deliverer=inbox.deliverer if inbox else None)
    waker = Waker()
    pipe = PipeBuffer(waker.wake) if "-" in paths else None

    def open_ledger() -> LiveLedger:
        return MemoryLedger() if file is None else SqliteLedger(file)

    daemon = Daemon(
        exporter,
        open_ledger,
        paths=followed,
        pipe=pipe,
        clock=time.time,
        monotonic=time.monotonic,
        put_aside=lambda: None if file is None else put_aside(file),
        idle=idle,
        ended=lambda path: is_over(path) or (inbox is not None and inbox.is_complete(path)),
        keep_s=keep_s,
        progress=_progress(exporter) if sys.stderr.isatty() else lambda _files, _bytes: None,
    )
    warn_if_open(listener, web.config)
    receiver = None if inbox is None else inbox.receiver(exporter.delivered)
    signal.signal(signal.SIGTERM, _end_now)  # until the server takes over there is nothing to commit
    _set_up_memory()
    daemon.begin()
    waker.watch([name for name in followed if not os.path.isfile(name)], daemon.hint)
    stop = threading.Event()

    def end() -> None:
        stop.set()
        waker.close()

    server = Server(
        application(exporter, receiver.routes if receiver else ()),
        web,
        receiver.opens if receiver else lambda _: False,
        ending=end,
    )
    reader = threading.Thread(target=_read, args=(daemon, waker, stop, server), daemon=True, name="reader")
    reader.start()
    if inbox is not None:
        inbox.keep_clear(stop)
    if pipe is not None:
        threading.Thread(target=_read_stdin, args=(pipe,), daemon=True, name="stdin").start()
    print(f"pimetrics: serving {web.scheme}://{shown(listener)}/metrics", file=sys.stderr)
    server.run(sockets=[listener])
    reader.join()
    gc.freeze()  # the end need not look at every row again
    if server.failed is not None:
        raise server.failed


def _set_up_memory() -> None:
    """Fit the memory of a process that runs for months."""
    gc.set_threshold(100_000, 20, 50)  # rows hold no cycles, and a look at all of them costs up to half the time
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # glibc keeps what large buffers took, and more with each larger one, unless told a limit
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _LARGE_BYTES)


def application(exporter: Exporter, more: Sequence[BaseRoute] = ()) -> ASGIApp:
    """Build the pages of an exporter, with further routes."""
    process = ProcessCollector(registry=None)
    return make_app(
        Exposition(exporter.snapshot, process),
        ready=lambda: exporter.ready,
        for_scrapers=Exposition(lambda: exporter.snapshot(scraper=True), process),
        page=lambda: render(exporter.snapshot()),
        more=more,
    )


def _end_now(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(0)


def _read(daemon: Daemon, waker: Waker, stop: threading.Event, server: Server) -> None:
    try:
        daemon.run(waker, stop)
    except PimetricsError as error:
        server.failed = error
    except Exception as error:  # noqa: BLE001  whatever it is: a daemon that does not read must not go on serving
        LOGGER.exception("the reader has failed; this is a bug of pimetrics")
        server.failed = error
    finally:
        server.should_exit = True


def _read_stdin(pipe: PipeBuffer) -> None:
    is_pipe = not stat.S_ISREG(os.fstat(0).st_mode)
    stamper = Stamper()
    for chunk in read_pipe():
        pipe.put(stamper.feed(chunk, round(time.time() * 1000)) if is_pipe else chunk)
    pipe.put(stamper.finish())
    pipe.end()


def _progress(exporter: Exporter) -> Callable[[int, int], None]:
    """Show on a terminal how far catching up is."""
    shown_at = time.monotonic()

    def show(files: int, left: int) -> None:
        nonlocal shown_at
        if exporter.ready:
            print(f"\r\x1b[Kpimetrics: caught up, {files} files read", file=sys.stderr)
        elif time.monotonic() - shown_at >= 0.2:
            shown_at = time.monotonic()
            print(
                f"\r\x1b[Kpimetrics: catching up, {files} files read, {left / 1e6:.0f} MB left",
                end="",
                file=sys.stderr,
                flush=True,
            )

    return show
