"""Wrong use: one clear sentence on standard error, exit status 2, nothing on standard output, no traceback."""

from __future__ import annotations

import os
import pty
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

PIMETRICS = [sys.executable, "-m", "pimetrics"]
PATIENCE_S = 60
RECORD = '{"type":"session","version":3,"id":"s","timestamp":"2026-11-29T10:00:00.000Z","cwd":"/srv"}\n'
READERS = ("report", "doctor", "backfill", "serve", "export")


def pimetrics(*arguments: object, through: Sequence[str] = (), **how) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; one that should have been refused and goes on runs into the time limit."""
    how.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run(
        [*through, *PIMETRICS, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        **how,
    )


def command(name: str, path: object, folder: Path) -> list[object]:
    """A command that reads a path, with what it needs beside it."""
    more = {
        "serve": ["--no-state", "--web.listen-address", "127.0.0.1:0"],
        "export": ["--to", folder / "out"],
    }
    return [name, path, *more.get(name, [])]


def says(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    """Assert that a command was refused with one sentence that holds the parts."""
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert re.fullmatch(r"pimetrics: [^\n]+\n", done.stderr), done.stderr
    assert "Traceback" not in done.stderr
    for part in parts:
        assert part in done.stderr


@pytest.fixture
def held_by_permissions() -> dict[str, object]:
    """How a command is run so that permissions hold it: root gives up the power to pass them by."""
    if os.geteuid():
        return {}
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("root without setpriv (util-linux) cannot give up its power over permissions")
    powers = "-dac_override,-dac_read_search"
    return {"through": [setpriv, f"--inh-caps={powers}", f"--bounding-set={powers}"]}


@pytest.mark.parametrize("name", READERS)
def test_a_missing_file(name: str, tmp_path: Path) -> None:
    """The path is named, and what to do."""
    missing = tmp_path / "none.jsonl"
    says(pimetrics(*command(name, missing, tmp_path)), f"{missing} does not exist", "name a file or folder that does")


@pytest.mark.parametrize("name", READERS)
def test_a_missing_file_with_a_hostile_name(name: str, tmp_path: Path) -> None:
    """Its name is shown escaped: it neither moves the cursor nor makes a second line."""
    missing = f"{tmp_path}/a\x1b]0;\x07\u202e\nb"
    says(pimetrics(*command(name, missing, tmp_path)), "a\\x1b]0;\\x07\\u202e\\x0ab does not exist")


@pytest.mark.parametrize("name", READERS)
def test_a_pattern_without_a_match(name: str, tmp_path: Path) -> None:
    """Nothing that fits is no empty report."""
    says(pimetrics(*command(name, tmp_path / "*.none", tmp_path)), "nothing matches", "check the pattern")


@pytest.mark.parametrize("name", READERS)
def test_a_folder_without_permission(name: str, tmp_path: Path, held_by_permissions: dict[str, object]) -> None:
    """A folder that may not be read is refused at the start, and is not taken for an empty one."""
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "a.jsonl").write_text(RECORD)
    closed.chmod(0)
    try:
        done = pimetrics(*command(name, closed, tmp_path), **held_by_permissions)
    finally:
        closed.chmod(0o700)
    says(done, f"{closed} cannot be read (Permission denied)", "check its permissions")


@pytest.mark.parametrize("name", ["report", "backfill", "export"])
def test_a_file_without_permission(name: str, tmp_path: Path, held_by_permissions: dict[str, object]) -> None:
    """A file that was named and may not be read is refused."""
    closed = tmp_path / "closed.jsonl"
    closed.write_text(RECORD)
    closed.chmod(0)
    says(
        pimetrics(*command(name, closed, tmp_path), **held_by_permissions),
        f"{closed} cannot be read (Permission denied)",
    )


@pytest.mark.parametrize(
    "address", ["nonsense", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:-1", ":x", "\x1b[31m:x"]
)
def test_a_bad_address(address: str, tmp_path: Path) -> None:
    """An address that is none is refused with an example of one."""
    done = pimetrics("serve", tmp_path, "--no-state", f"--web.listen-address={address}")
    says(done, "is no address to listen on; give HOST:PORT, for example 127.0.0.1:9746")
    assert "\x1b" not in done.stderr


def test_a_host_that_does_not_exist(tmp_path: Path) -> None:
    """A host that cannot be found is refused; the name is reserved to be none."""
    says(
        pimetrics("serve", tmp_path, "--no-state", "--web.listen-address", "no-host.invalid:0"),
        "cannot listen on no-host.invalid:0",
    )


@pytest.mark.parametrize("name", ["serve", "demo"])
def test_a_port_in_use(name: str, tmp_path: Path) -> None:
    """The address is named, and the option that chooses another."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        more = [tmp_path, "--no-state"] if name == "serve" else []
        done = pimetrics(name, *more, "--web.listen-address", address)
    says(done, f"cannot listen on {address} (Address already in use)", "--web.listen-address")


@pytest.mark.parametrize("name", ["report", "serve"])
def test_standard_input_that_is_a_terminal(name: str, tmp_path: Path) -> None:
    """`-` at a terminal would wait for ever: it is refused with the pipe that was meant."""
    ours, theirs = pty.openpty()
    try:
        done = pimetrics(*command(name, "-", tmp_path), stdin=theirs)
    finally:
        os.close(ours)
        os.close(theirs)
    says(done, "standard input is a terminal", "pipe pi into it")


@pytest.mark.parametrize("name", ["report", "serve"])
def test_standard_input_that_is_closed(name: str, tmp_path: Path) -> None:
    """`-` without a standard input is refused; it is never some descriptor of our own that got its number."""
    done = pimetrics(*command(name, "-", tmp_path), through=["sh", "-c", 'exec "$@" <&-', "sh"])
    says(done, "standard input cannot be read (Bad file descriptor)", "pipe pi into it")


def test_state_and_no_state(tmp_path: Path) -> None:
    """They contradict each other, and no ledger is made."""
    ledger = tmp_path / "ledger.db"
    says(pimetrics("serve", tmp_path, "--state", ledger, "--no-state"), "--state and --no-state exclude each other")
    assert not ledger.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--no-such-option",),
        ("no-such-command",),
        *((name, "--no-such-option") for name in (*READERS, "record", "demo")),
        ("report", "--top", "0"),
        ("report", "--top"),
        ("report", "--by", "moon"),
        ("report", "--since", "yesteryear"),
        ("report", "--timezone", "Mars/Olympus"),
        ("report", "--json", "--csv"),
        ("serve", "--idle-timeout", "soon"),
        ("serve", "--web.zero-hold", "-1"),
        ("export",),
        ("record", "--keep", "soon"),
        ("record", "--max-bytes", "many"),
        ("record", "--to-wait", "99999999999d", "--", "true"),
        ("demo", "--speed", "nan"),
        ("demo", "--speed", "inf"),
    ],
    ids=" ".join,
)
def test_options_that_cannot_be(arguments: tuple[str, ...], no_home: Path) -> None:
    """An unknown option or command, a value that is none, two that exclude each other: one sentence each."""
    says(pimetrics(*arguments))


@pytest.mark.parametrize("arguments", [("serve", "--no-such-option"), ("report", "--by", "moon")], ids=" ".join)
def test_the_sentence_names_the_help(arguments: tuple[str, ...], no_home: Path) -> None:
    """Whoever mistyped an option is told where all of them stand."""
    says(pimetrics(*arguments), arguments[1], f"pimetrics {arguments[0]} --help")


def test_without_arguments_the_help_shows() -> None:
    """`pimetrics` alone is no mistake that needs a sentence: it shows what there is."""
    done = pimetrics()
    assert "Commands:" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_textfile_that_cannot_be_written(tmp_path: Path, held_by_permissions: dict[str, object]) -> None:
    """The file is named; no half of it stays, and one that was there is left as it was."""
    source = tmp_path / "a.jsonl"
    source.write_text(RECORD)
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "pi.prom").write_text("before\n")
    closed.chmod(0o555)
    done = pimetrics("report", source, "--textfile", closed / "pi.prom", **held_by_permissions)
    says(done, f"{closed / 'pi.prom'} cannot be written (Permission denied)")
    assert [path.name for path in closed.iterdir()] == ["pi.prom"]
    assert (closed / "pi.prom").read_text() == "before\n"


def test_a_textfile_in_no_folder(tmp_path: Path) -> None:
    """A folder that is not there is not made."""
    source = tmp_path / "a.jsonl"
    source.write_text(RECORD)
    target = tmp_path / "none" / "pi.prom"
    says(pimetrics("report", source, "--textfile", target), f"{target} cannot be written (No such file or directory)")


def test_a_textfile_that_is_a_folder(tmp_path: Path) -> None:
    """A folder is no file to write."""
    source = tmp_path / "a.jsonl"
    source.write_text(RECORD)
    says(pimetrics("report", source, "--textfile", tmp_path))
    says(pimetrics("report", source, "--textfile", ""))


def test_a_textfile_that_is_a_device(tmp_path: Path) -> None:
    """What is no file is left what it is, also for root, who could put a file in its place."""
    source = tmp_path / "a.jsonl"
    source.write_text(RECORD)
    pipe = tmp_path / "pipe.prom"
    os.mkfifo(pipe)
    says(pimetrics("report", source, "--textfile", pipe), f"{pipe} cannot be written (it is no file)")
    assert pipe.is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "pipe.prom"]


def test_a_textfile_that_is_a_link(tmp_path: Path) -> None:
    """The link stays, and the file that it points to is the one that is written."""
    source = tmp_path / "a.jsonl"
    source.write_text(RECORD)
    (tmp_path / "kept").mkdir()
    target = tmp_path / "kept" / "real.prom"
    target.write_text("before\n")
    link = tmp_path / "link.prom"
    link.symlink_to(target)
    assert pimetrics("report", source, "--textfile", link).returncode == 0
    assert link.readlink() == target
    assert "pi_sessions_total 1.0" in target.read_text()
    assert [path.name for path in target.parent.iterdir()] == ["real.prom"]
