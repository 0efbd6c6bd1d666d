"""How long a scrape takes among hostile neighbours: python -m tests.bench.neighbours.

Each line: a `serve` that may open 1,024 files is scraped 20 times alone, then 20 times while 5,000 connections stand
open that say nothing, or half of a request; then while eight threads guess passwords as fast as they are answered.
"""

from __future__ import annotations

import ssl
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import bcrypt

from tests.certificates import Authority
from tests.faults.neighbours import (
    CROWD,
    Guessers,
    crowd,
    figures,
    files_for,
    scrape_times,
    served_with_few_files,
)
from tests.serving import Served

SCRAPES = 20
HALF = b"GET /metrics HTTP/1.1\r\nHost: x\r\n"


@contextmanager
def serving(folder: Path, *, tls: bool, users: bool) -> Iterator[tuple[Served, ssl.SSLContext | None]]:
    """Run a `serve` with what is asked for, once it is ready."""
    web = folder / "web"
    authority = Authority.new(web)
    authority.sign("server")
    text = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n" if tls else ""
    if users:
        text += f"basic_auth_users:\n  alice: {bcrypt.hashpw(b'right', bcrypt.gensalt(12)).decode()}\n"
    (web / "web.yml").write_text(text)
    context = ssl.create_default_context(cafile=authority.cert) if tls else None
    options = ["--web.config.file", web / "web.yml"] if text else []
    empty = folder / "empty"
    empty.mkdir(exist_ok=True)
    login = ("alice", "right") if users else None
    with served_with_few_files([empty, "--no-state", *options], context=context, login=login) as served:
        served.ready()
        yield served, context


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name, files_for(CROWD):
        folder = Path(name)
        for tls in (False, True):
            kind = "TLS" if tls else "plain"
            for what, first in (("silent", b""), ("half a request", HALF)):
                with serving(folder, tls=tls, users=False) as (served, _):
                    alone = scrape_times(served, SCRAPES)
                    with crowd(served.address, CROWD, first):
                        before = time.perf_counter()
                        served.ask()
                        next_one = time.perf_counter() - before
                        among = scrape_times(served, SCRAPES)
                print(
                    f"{kind}, {CROWD} {what}: alone {figures(alone)}, the first after they came "
                    f"{next_one * 1000:.0f} ms, then {figures(among)}"
                )
            with serving(folder, tls=tls, users=True) as (served, context):
                alone = scrape_times(served, SCRAPES)
                with Guessers(served.address, context) as guessers:
                    while guessers.answers[401] < 3:
                        time.sleep(0.1)
                    among = scrape_times(served, SCRAPES)
            print(f"{kind}, guesses: alone {figures(alone)}, among {sum(guessers.answers.values())} {figures(among)}")


if __name__ == "__main__":
    main()
