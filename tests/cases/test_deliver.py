"""record --to, ship and serve --receive as users run them: real processes on loopback."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Authority
from tests.serving import Served
from tests.support import FIXTURES

TOKEN = "0123456789-the-token-of-this-test"
STREAMS = FIXTURES / "streams"
RUN = STREAMS / "1.6.0" / "continued_a.jsonl"
PI = re.compile(r"^(pi_\w+_total|pi_\w+_(?:sum|count|bucket))(\{.*\})? (\S+)$", re.MULTILINE)


class Place:
    """A machine and a collector: a home, a token, the recordings folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = folder / "token"
        self.token.write_text(TOKEN + "\n")
        self.recordings = folder / "recordings"
        self.inbox = folder / "inbox"
        self.environment = {
            **os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"),
            "PIMETRICS_RECORDINGS": str(self.recordings), "PI_CODING_AGENT_DIR": str(folder / "pi"),
        }  # fmt: skip

    def serve(self, *more: object) -> Served:
        arguments = ["--receive", self.inbox, "--state", self.folder / "ledger.db", "--web.zero-hold", "0", *more]
        return Served(arguments, env=self.environment)

    def run(self, *arguments: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "pimetrics", *map(str, arguments)],
            env=self.environment, capture_output=True, check=False, timeout=60, **options,
        )  # fmt: skip

    def streams(self) -> list[bytes]:
        return sorted(path.read_bytes() for path in self.inbox.rglob("*.jsonl"))

    def spooled(self) -> list[bytes]:
        return sorted(path.read_bytes() for path in self.recordings.glob("*.jsonl"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def served(place: Place) -> Iterator[Served]:
    with place.serve("--receive-token-file", place.token, "--receive-label", "team") as served:
        _ = served.url
        yield served


def to(url: str, place: Place) -> list[object]:
    return ["--to", url, "--to-token-file", place.token]


def nowhere() -> str:
    """An address at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def counted(served: Served) -> dict[str, float]:
    page = served.get() or ""
    return {name + (labels or ""): float(value) for name, labels, value in PI.findall(page) if float(value)}


def plain(counts: dict[str, float]) -> dict[str, float]:
    """What the agent did, without who delivered it."""
    return {name: value for name, value in counts.items() if not name.startswith("pi_fleet_")}


def test_a_recorded_run_is_delivered_and_nobody_notices(place: Place, served: Served) -> None:
    """Output and exit status are pi's; the collector holds the recording, and counts what a local exporter counts."""
    done = place.run("record", *to(served.url, place), "--label", "team=core", "--", "sh", "-c", f"cat {RUN}; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, RUN.read_bytes(), b"")
    assert place.streams() == place.spooled() != []
    (path,) = place.inbox.rglob("*.jsonl")
    assert path.parent.parent.name == "team=core"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    served.wait_for("pimetrics_bytes_read_total", path.stat().st_size)
    with Served([place.recordings, "--no-state", "--web.zero-hold", "0"], env=place.environment) as local:
        local.ready()
        local.wait_for("pimetrics_bytes_read_total", path.stat().st_size)
        assert plain(counted(served)) == plain(counted(local)) != {}


def test_session_files_follow_and_count_nothing_twice(place: Place, served: Served) -> None:
    """A recording, then all sessions and streams there are, twice: sums are those of one read of everything."""
    place.run("record", *to(served.url, place), "--", "cat", RUN)
    archive = place.folder / "archive"
    shutil.copytree(STREAMS / "1.6.0", archive)
    hour_ago = time.time() - 3600
    for path in archive.iterdir():
        os.utime(path, (hour_ago, hour_ago))
    for _ in range(2):
        done = place.run("ship", archive, *to(served.url, place), "--label", "team=a")
        assert done.returncode == 0, done.stderr
    again = place.run("ship", archive, *to(served.url, place))
    assert b" 0 bytes of " in again.stderr
    total = sum(len(each) for each in place.streams())
    served.wait_for("pimetrics_bytes_read_total", total)
    report = place.run("report", "--json", place.recordings, archive)
    usage = json.loads(report.stdout)["usage"]
    # The last rows count once their files have been quiet for a moment.
    for kind in ("input", "output", "cache_read", "cache_write"):
        served.wait_for("pi_tokens_total", usage["tokens"][kind], token_type=kind)
        assert served.sum("pi_fleet_tokens_total", token_type=kind) == usage["tokens"][kind]
    cost = served.sum("pi_cost_usd_total")
    assert cost == pytest.approx(usage["cost_usd"], abs=1e-9)
    assert served.sum("pi_fleet_cost_usd_total") == pytest.approx(cost, abs=1e-9)
    assert served.sum("pi_fleet_requests_total") == served.sum("pi_requests_total")
    assert served.sum("pi_fleet_sessions_total") == served.sum("pi_sessions_total")
    served.wait_for("pi_sessions_active", 0)  # the recorded run has ended, the others are as old as they were


def test_a_collector_that_is_away_costs_nothing_and_gets_everything_later(place: Place) -> None:
    """pi's run ends as without it, soon and in one line; the next run, or ship, brings what was left."""
    away = nowhere()
    started = time.monotonic()
    done = place.run("record", *to(away, place), "--", "sh", "-c", f"cat {RUN}; sleep 2")
    assert time.monotonic() - started < 9
    assert (done.returncode, done.stdout) == (0, RUN.read_bytes())
    assert re.fullmatch(
        rb"pimetrics record: not all of the recording was delivered \(the receiver cannot be reached: Connection refused"
        rb"\); the next record --to, or ship, goes on with it\.\n",
        done.stderr,
    )
    failed = place.run("ship", *to(away, place), "--give-up", "0")
    assert failed.returncode == 1
    assert b"it stays here, run ship again later" in failed.stderr
    with place.serve("--receive-token-file", place.token) as served:
        done = place.run("record", *to(served.url, place), "--", "sh", "-c", f"cat {RUN}; sleep 3")
        assert (done.returncode, done.stderr) == (0, b"")
        assert place.run("ship", *to(served.url, place)).returncode == 0
        assert place.streams() == place.spooled()
        assert len(place.spooled()) == 2


def test_a_collector_that_says_nothing_is_left_in_time(place: Place) -> None:
    """Connections are taken and nothing is answered: record ends within its time, the recording is whole."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        started = time.monotonic()
        done = place.run("record", *to(url, place), "--to-wait", "500ms", "--", "cat", RUN)
        assert time.monotonic() - started < 8
    assert (done.returncode, done.stdout) == (0, RUN.read_bytes())
    assert b"(it takes long)" in done.stderr
    assert len(place.spooled()) == 1


def test_readers_of_the_output_do_not_wait_for_the_delivery(place: Place) -> None:
    """The output is closed when pi has ended, although delivering goes on."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        command = ["record", *map(str, to(url, place)), "--to-wait", "20s", "--", "cat", str(RUN)]
        process = subprocess.Popen(
            [sys.executable, "-m", "pimetrics", *command],
            env=place.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        with process:
            assert process.stdout is not None
            assert process.stdout.read() == RUN.read_bytes()
            assert process.poll() is None
            process.kill()


def test_in_a_pipe_the_output_stays_and_the_copy_is_delivered(place: Place, served: Served) -> None:
    """`pi | pimetrics record --to URL | jq`: unstamped to the next, stamped to the collector."""
    done = place.run("record", *to(served.url, place), input=RUN.read_bytes())
    assert (done.returncode, done.stdout, done.stderr) == (0, RUN.read_bytes(), b"")
    assert place.streams() == place.spooled()
    assert b'"receivedAt":' in place.streams()[0]


def test_over_tls_with_a_login(place: Place) -> None:
    """Certificate of an authority of one's own, password of the web configuration; the token opens beside it."""
    authority = Authority(place.folder)
    signed = authority.sign("server")
    config = place.folder / "web.yml"
    bcrypt = pytest.importorskip("bcrypt")

    hashed = bcrypt.hashpw(b"secret of mine", bcrypt.gensalt(4)).decode()
    config.write_text(
        f"tls_server_config:\n  cert_file: {signed.cert}\n  key_file: {signed.key}\n"
        f"basic_auth_users:\n  shipper: {hashed}\n"
    )
    login = place.folder / "login"
    login.write_text("shipper:secret of mine\n")
    with place.serve("--web.config.file", config) as served:
        given = ["--to", served.url, "--to-login-file", login]
        assert served.url.startswith("https://")
        strange = place.run("ship", RUN, *given, "--give-up", "0")
        assert strange.returncode == 1
        assert b"its certificate is not trusted" in strange.stderr
        wrong = place.folder / "wrong"
        wrong.write_text("shipper:guess\n")
        refused = place.run(
            "ship", RUN, "--to", served.url, "--to-login-file", wrong, "--to-ca-file", authority.cert, "--give-up", "0"
        )
        assert refused.returncode == 1
        assert b"the receiver does not accept the credentials" in refused.stderr
        assert place.streams() == []
        done = place.run("ship", RUN, *given, "--to-ca-file", authority.cert)
        assert done.returncode == 0, done.stderr
        assert place.streams() == [RUN.read_bytes()]
        everything = strange.stderr + refused.stderr + done.stderr + served.said
        assert b"secret" not in everything
        assert b"guess" not in everything


def test_credentials_are_nowhere_to_be_seen(place: Place, served: Served) -> None:
    """Not in the list of processes, not in a log, not on the screen."""
    command = ["record", *map(str, to(served.url, place)), "--", "sh", "-c", f"cat {RUN}; read line"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pimetrics", *command], env=place.environment,
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    with process:
        listed = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(process.pid)], capture_output=True, check=True)
        assert b"record" in listed.stdout
        assert TOKEN.encode() not in listed.stdout
        _, said = process.communicate(b"\n", timeout=30)
    assert said == b""
    assert TOKEN.encode() not in served.said
    for path in place.folder.rglob("*"):
        if path.is_file() and path != place.token:
            assert TOKEN.encode() not in path.read_bytes(), path


def test_strangers_are_refused(place: Place, served: Served) -> None:
    """No token, a wrong one, a path that leads out, a raw body: right status, nothing written, nothing said."""
    before = sorted(path.name for path in place.folder.rglob("*") if "ledger" not in path.name)
    host, _, port = served.url.removeprefix("http://").partition(":")
    wanted = {
        ("GET", "/receive", ""): 401,
        ("HEAD", "/receive/0123456789abcdef", "Bearer nonsense"): 401,
        ("PATCH", "/receive/0123456789abcdef", "Basic eDp5"): 401,
        ("PATCH", "/receive/../../etc/passwd", f"Bearer {TOKEN}"): 404,
        ("PATCH", "/receive/..%2f..%2fetc%2fpasswd", f"Bearer {TOKEN}"): 404,
        ("PATCH", "/receive/0123456789abcdef", f"Bearer {TOKEN}"): 400,
        ("DELETE", "/receive/0123456789abcdef", f"Bearer {TOKEN}"): 405,
    }
    for (method, path, given), status in wanted.items():
        connection = http.client.HTTPConnection(host, int(port), timeout=10)
        connection.request(method, path, b"x" * 1000, {"Authorization": given} if given else {})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == status, (method, path)
        assert str(place.inbox).encode() not in body
        connection.close()
    assert sorted(path.name for path in place.folder.rglob("*") if "ledger" not in path.name) == before
    served.wait_for("pimetrics_deliveries_total", 3, answer="unauthorized")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["serve", "--receive", "inbox", "--no-state", "--web.listen-address", "0.0.0.0:0"], "would let everyone write"),
        (["serve", "--receive-label", "team", "--no-state"], "go with --receive DIR"),
        (["serve", "--receive", "inbox", "--receive-token-file", "none", "--no-state"], "none cannot be read"),
        (["serve", "--receive", "inbox", "--receive-token-file", "short", "--no-state"], "at least 16 characters"),
        (["serve", "--receive", "inbox", "--receive-label", "colour", "--no-state"], "colour"),
        (["serve", "--receive", "inbox", "--receive-max-rate", "fast", "--no-state"], "--receive-max-rate 'fast'"),
        (["serve", "--receive", "inbox", "--receive-keep", "ever", "--no-state"], "--receive-keep 'ever'"),
        (["serve", "--receive", "short", "--no-state"], "short"),
        (["ship", "."], "--to"),
        (["ship", ".", "--to", "collector"], "collector is no address of a receiver"),
        (["ship", ".", "--to", "http://[::1"], "is no address of a receiver"),
        (["ship", ".", "--to", "http://h:99999"], "is no address of a receiver"),
        (["ship", ".", "--to", f"http://{'h' * 64}.x"], "is no address of a receiver"),
        (["ship", ".", "--to", "https://u:hunter2@h"], "holds credentials"),
        (["ship", ".", "--to", "https://h", "--to-token-file", "none"], "none cannot be read"),
        (["ship", ".", "--to", "https://h", "--to-token-file", "empty"], "empty holds no token"),
        (["ship", ".", "--to", "https://h", "--to-login-file", "short"], "short holds no login"),
        (["ship", ".", "--to", "https://h", "--to-ca-file", "short"], "--to-ca-file"),
        (["ship", ".", "--to", "https://h", "--to-token-file", "short", "--to-login-file", "short"], "exclude each"),
        (["ship", ".", "--to", "https://h", "--label", "colour=red"], "--label colour=red is no label"),
        (["ship", ".", "--to", "https://h", "--label", "team"], "--label team is no label"),
        (["ship", ".", "--to", "https://h", "--label", "team=" + "x" * 65], "longer than 64 characters"),
        (["ship", "missing", "--to", "https://h"], "missing does not exist"),
        (["record", "--to", "https://u:hunter2@h", "--", "true"], "holds credentials"),
        (["record", "--to", "https://h", "--to-token-file", "none", "--", "true"], "none cannot be read"),
    ],
)  # fmt: skip
def test_wrong_use_is_one_sentence_and_status_2(place: Place, arguments: list[str], says: str) -> None:
    """It says what and what to do, and repeats no secret."""
    (place.folder / "short").write_text("short\n")
    (place.folder / "empty").write_text("\n")
    done = place.run(*arguments, cwd=place.folder, stdin=subprocess.DEVNULL)
    said = done.stderr.decode()
    assert (done.returncode, said.count("\n")) == (2, 1)
    assert says in said
    assert "hunter2" not in said
