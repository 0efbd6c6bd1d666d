"""Neighbours who guess passwords, and certificates and users that change while it runs."""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import ssl
import time

import bcrypt
import pytest

from tests.certificates import Authority
from tests.faults.neighbours import Guessers, scrape_times
from tests.serving import Served


def hashed(password: str, cost: int = 4) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode()


class Site:
    """A folder with a web configuration and its certificates."""

    def __init__(self, folder):
        self.authority = Authority.new(folder)
        self.authority.sign("server")
        self.file = folder / "web.yml"
        self.context = ssl.create_default_context(cafile=self.authority.cert)

    def write(self, *users: str, tls: bool = True, more: str = "") -> None:
        """Write the configuration in one piece: users (and what they are allowed by), TLS or not."""
        text = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n" if tls else ""
        if users:
            text += "basic_auth_users:\n" + "".join(f"  {user}\n" for user in users)
        aside = self.file.with_suffix(".new")
        aside.write_text(text + more or "{}\n")
        os.replace(aside, self.file)

    def serve(self, folder) -> Served:
        return Served(
            [folder, "--no-state", "--web.config.file", self.file], context=self.context, login=("alice", "right")
        )


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path / "web")


def until(true, within=20.0):
    """Wait until something holds."""
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def told(served: Served) -> str:
    """End it and return all it has said."""
    served.process.terminate()
    assert served.process.wait(20) == 0
    assert served.process.stderr is not None
    return (served.said + served.process.stderr.read()).decode()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_flood_of_wrong_passwords_delays_no_scrape(site, tmp_path, tls):
    """Guesses wait for each other and not the scrape that knows its password; what comes above is turned away."""
    site.write(f"alice: {hashed('right', 10)}", tls=tls)
    with site.serve(tmp_path) as served:
        until(lambda: served.ask("/-/ready")[0] == 200)
        with Guessers(served.address, site.context if tls else None) as guessers:
            until(lambda: guessers.answers[429] > 20 and guessers.answers[401] > 2)
            assert max(scrape_times(served, 5)) < 3
        assert set(guessers.answers) == {401, 429}
        assert "Traceback" not in told(served)


def test_a_first_scrape_from_another_address_finds_room_among_guesses(site, tmp_path):
    """Nobody has remembered its password yet: those who guess from one address have not taken all the room."""
    site.write(f"alice: {hashed('right', 10)}", tls=False)
    with site.serve(tmp_path) as served, Guessers(served.address, source="127.0.0.2") as guessers:
        until(lambda: guessers.answers[429] > 5 and guessers.answers[401] > 1)
        until(lambda: served.ask("/-/ready")[0] == 200)
        assert served.ask()[0] == 200


def test_it_ends_soon_while_passwords_are_checked(site, tmp_path):
    """SIGTERM ends it within 2 seconds, however long a check still takes."""
    site.write(f"alice: {hashed('right')}", f"slow: {hashed('right', 4).replace('$04$', '$16$')}", tls=False)
    with site.serve(tmp_path) as served, contextlib.ExitStack() as sockets:
        until(lambda: served.ask("/-/ready")[0] == 200)
        for number in range(6):
            login = base64.b64encode(f"slow:{number}".encode())
            one = sockets.enter_context(socket.create_connection(served.address))
            one.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Basic " + login + b"\r\n\r\n")
        assert b"429" in one.recv(100)
        before = time.monotonic()
        said = told(served)
        assert time.monotonic() - before < 2.0
    assert "Traceback" not in said


def test_without_credentials_nothing_is_shown(site, tmp_path):
    """401 with a challenge for every page, a wrong name as for a wrong password, and no word of what is behind."""
    site.write(f"alice: {hashed('right')}", tls=False)
    with site.serve(tmp_path) as served:
        until(lambda: served.ask("/-/ready")[0] == 200)
        for path in ("/metrics", "/", "/-/healthy", "/-/ready", "/nothing"):
            served.login = None
            assert served.ask(path) == (401, "unauthorized\n")
            for login in (("alice", "wrong"), ("bob", "right"), ("", ""), ("alice", "")):
                assert served.ask(path, login=login) == (401, "unauthorized\n")
        assert served.ask(login=("alice", "right"))[0] == 200


def test_users_and_certificates_change_while_it_runs(site, tmp_path):
    """A new user, a new certificate, TLS taken away and given back: the listener stays, and so do open connections."""
    site.write(f"alice: {hashed('right')}")
    with site.serve(tmp_path) as served:
        until(lambda: served.ask("/-/ready")[0] == 200)

        def serial() -> str:
            with (
                socket.create_connection(served.address) as raw,
                site.context.wrap_socket(raw, server_hostname="localhost") as one,
            ):
                return one.getpeercert()["serialNumber"]

        site.write(f"alice: {hashed('right')}", f"bob: {hashed('new')}")
        until(lambda: served.ask(login=("bob", "new"))[0] == 200)
        site.write(f"bob: {hashed('new')}")
        until(lambda: served.ask()[0] == 401)
        served.login = ("bob", "new")
        before = serial()
        site.authority.sign("server")
        until(lambda: serial() != before)
        assert served.ask()[0] == 200
        site.write(tls=False)
        plain = served.url.replace("https", "http")
        served._url = plain
        until(lambda: served.ask()[0] == 200)
        site.write(f"bob: {hashed('new')}")
        until(lambda: served.ask()[0] == 0)
        served._url = plain.replace("http", "https")
        assert served.ask()[0] == 200
        said = told(served)
    assert said.count("was read again") == 5
    assert "was read again: plain HTTP, 0 users" in said


def test_a_broken_change_is_said_once_and_changes_nothing(site, tmp_path):
    """What was in force stays in force, for as long as the file is broken; then the next good one holds."""
    site.write(f"alice: {hashed('right')}")
    with site.serve(tmp_path) as served:
        until(lambda: served.ask("/-/ready")[0] == 200)
        assert served.process.stderr is not None
        os.set_blocking(served.process.stderr.fileno(), False)

        def said(word: bytes) -> bool:
            served.said += served.process.stderr.read() or b""
            return word in served.said

        site.write(f"alice: {hashed('right')}", more="colour: blue\n")
        until(lambda: said(b"colour is not a known setting"))
        (site.file.parent / "server.key").write_text("no key")
        until(lambda: served.ask()[0] == 200)
        site.write(f"alice: {hashed('right')}")
        until(lambda: said(b"give a PEM certificate and its PEM key"))
        site.file.unlink()
        until(lambda: said(b"cannot read the web configuration"))
        quiet = time.monotonic() + 3  # several looks at files that stay broken
        until(lambda: time.monotonic() > quiet and served.ask()[0] == 200)
        site.authority.sign("server")
        site.write(f"alice: {hashed('better')}")
        until(lambda: served.ask(login=("alice", "better"))[0] == 200)
        assert served.ask()[0] == 401
        os.set_blocking(served.process.stderr.fileno(), True)
        lines = told(served).splitlines()
    for word in ("colour is not", "give a PEM certificate", "cannot read the web configuration", "was read again"):
        assert sum(word in line for line in lines) == 1, lines
    assert len(lines) == 5


def test_others_can_reach_it_is_said_once(site, tmp_path):
    """Listening beyond this machine: a line without passwords, another for passwords in the clear, none with both."""
    for users, tls, part in (
        ((), True, "anyone who can reach 0.0.0.0:"),
        ((), False, "anyone who can reach 0.0.0.0:"),
        ((f"alice: {hashed('right')}",), False, "cross the network as plain text"),
        ((f"alice: {hashed('right')}",), True, None),
    ):
        site.write(*users, tls=tls)
        with Served(
            [tmp_path, "--no-state", "--web.config.file", site.file], listen="0.0.0.0:0", context=site.context
        ) as served:
            served._url = served.url.replace("0.0.0.0", "127.0.0.1")
            until(lambda served=served: served.ask("/-/healthy")[0])
            lines = told(served).splitlines()
        assert len(lines) == (1 if part is None else 2), lines
        assert part is None or part in lines[0]
