"""Neighbours that connect and are silent: nobody else waits for them, and none stays for ever."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import time

import bcrypt
import pytest

from tests.certificates import Authority
from tests.faults.neighbours import CROWD, crowd, files_for, scrape_times, served_with_few_files
from tests.serving import Served

HEAD = b"GET /metrics HTTP/1.1\r\nHost: x\r\n"
SOON_S = 3.0


@pytest.fixture
def secured(tmp_path):
    """Options of a `serve` with TLS and a password, and what a client needs."""
    authority = Authority.new(tmp_path / "web")
    authority.sign("server")
    hashed = bcrypt.hashpw(b"right", bcrypt.gensalt(10)).decode()
    (tmp_path / "web" / "web.yml").write_text(
        f"tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\nbasic_auth_users:\n  alice: {hashed}\n"
    )
    return (
        ["--web.config.file", tmp_path / "web" / "web.yml"],
        {"context": ssl.create_default_context(cafile=authority.cert), "login": ("alice", "right")},
    )


def open_files(served: Served) -> int:
    return len(os.listdir(f"/proc/{served.process.pid}/fd"))


@pytest.mark.parametrize("first", [b"", HEAD], ids=["silent", "half a head"])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_five_thousand_idle_connections_delay_no_scrape(tmp_path, secured, tls, first):
    """With 1,024 files to open, 5,000 connections that say nothing or half of it cost a scrape nothing."""
    options, client = secured if tls else ([], {})
    with files_for(CROWD), served_with_few_files([tmp_path, "--no-state", *options], **client) as served:
        served.ready()
        alone = scrape_times(served, 5)
        with crowd(served.address, CROWD, first):
            among = scrape_times(served, 5)
            assert open_files(served) < 400
        assert max(among) < max(alone) + SOON_S
    assert b"Traceback" not in served.said


def test_whoever_waits_too_long_is_hung_up_on(tmp_path, secured):
    """Silence, half a head, a byte now and then, and a TLS handshake that never ends: over after 10 seconds."""
    options, client = secured
    with (
        Served([tmp_path, "--no-state"]) as plain,
        Served([tmp_path, "--no-state", *options], **client) as locked,
        contextlib.ExitStack() as sockets,
    ):
        plain.ready()
        locked.ready()

        def connect(served: Served, first: bytes) -> socket.socket:
            one = sockets.enter_context(socket.create_connection(served.address))
            one.sendall(first)
            return one

        began = time.monotonic()
        dripping = connect(plain, HEAD)
        answered = connect(plain, HEAD + b"\r\n")  # and then half of the next
        while b"\r\n\r\n" not in answered.recv(100_000):
            pass
        answered.sendall(HEAD)
        waiting = {
            connect(plain, b""): "silent",
            connect(plain, HEAD): "half a head",
            connect(locked, b""): "no handshake",
            connect(locked, b"\x16\x03\x01\x02\x00\x01"): "half a handshake",
            dripping: "dripping",
            answered: "half of the second head",
        }
        tight = locked.context.wrap_socket(connect(locked, b""), server_hostname="127.0.0.1")
        sockets.enter_context(tight)
        waiting[tight] = "handshake, then silence"
        ended = {}
        while waiting:
            assert time.monotonic() - began < 20, waiting.values()
            with contextlib.suppress(OSError):
                dripping.sendall(b"X")
            for each in select.select(list(waiting), [], [], 0.5)[0]:
                try:
                    over = not each.recv(100_000)
                except (ConnectionError, ssl.SSLError):
                    over = True
                if over:
                    ended[waiting.pop(each)] = time.monotonic() - began
        assert all(9.5 < seconds < 16 for seconds in ended.values()), ended
        assert plain.ask()[0] == locked.ask()[0] == 200


def test_an_answer_that_nobody_takes_gives_way(tmp_path):
    """Clients that ask and never read fill all places; a scrape gets in all the same, and memory is given back."""
    with Served([tmp_path, "--no-state"]) as served:
        served.ready()
        head = HEAD.replace(b"/metrics", b"/") + b"\r\n"
        with crowd(served.address, 300, head * 200):
            assert max(scrape_times(served, 3)) < 5
            assert open_files(served) < 300


def test_nonsense_is_answered_or_ended_without_a_line_in_the_log(tmp_path):
    """No HTTP, upgrades, a body that breaks off into nonsense after the answer: nothing is logged for it."""
    with Served([tmp_path, "--no-state"]) as served:
        served.ready()
        chunked = b"POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        for sent in (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 600,
            b"hello\r\n\r\n",
            HEAD + b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            b"GET /" + b"a" * 100_000,
            chunked + b"nonsense\r\n\r\n",
        ):
            with (
                socket.create_connection(served.address, timeout=15) as one,
                contextlib.suppress(ConnectionError),
            ):
                one.sendall(sent)
                one.recv(100_000)
                one.sendall(b"zz\r\nnonsense\r\n\r\n")
                while one.recv(100_000):
                    pass
        assert served.get() is not None
        served.process.terminate()
        assert served.process.wait(10) == 0
        assert served.process.stderr is not None
        assert served.process.stderr.read() == b""


def test_it_ends_soon_while_a_crowd_is_connected(tmp_path, secured):
    """SIGTERM ends it within 2 seconds, whoever is connected."""
    options, client = secured
    with Served([tmp_path, "--no-state", *options], **client) as served:
        served.ready()
        with crowd(served.address, 200), crowd(served.address, 20, HEAD):
            tight = client["context"].wrap_socket(socket.create_connection(served.address), server_hostname="127.0.0.1")
            with tight:
                before = time.monotonic()
                served.process.terminate()
                assert served.process.wait(10) == 0
                assert time.monotonic() - before < 2.0
        assert served.process.stderr is not None
        assert b"Traceback" not in served.process.stderr.read()
