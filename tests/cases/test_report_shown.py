"""What `report` prints: at 80 and at 200 columns, in a pipe, with hostile names, and for wrong use."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest
from rich.cells import cell_len

from tests.reporting import STREAMS, Session, overview, run

VIEWS = ("day", "week", "month", "model", "provider", "tool", "session", "project", "operation", "error", "compaction")
HOSTILE = (
    "[/]",
    "[bold red]x",
    "<script>alert(1)</script>",
    "a\nb",
    "a\u202eb",
    "a\x1b[2Jb",
    "=cmd|' /C calc'!A0",
    ":boom:",
)


@pytest.fixture
def hostile(tmp_path):
    """A session whose project, models, providers and tools have names that mean something to others."""
    session = Session("s\u202e-1\n", "/srv/[/]\n<b>").ask()
    for each in HOSTILE:
        session.answer(0.5, tools=(each,), model=each, provider=each).results(0.01)
    return session.write(tmp_path / "s.jsonl")


@pytest.mark.parametrize("width", [80, 200])
def test_recordings_fit_a_terminal(width):
    """No line of any table is wider than the terminal, and the columns that matter are there."""
    lines = overview(width, STREAMS)
    assert max(cell_len(line) for line in lines) <= width
    text = "\n".join(lines)
    for word in ("Cost as reported by pi", "Reported by tools", "may repeat", "cache hit rate", "Days", "Models", "Tools",
                 "Compactions", "Errors", "Most expensive prompts", "Most expensive turns", "Sessions"):  # fmt: skip
        assert word in text
    assert "$0.0000" not in text


def test_a_wide_terminal_shows_more():
    """At 200 columns numbers are whole and more columns are there than at 80."""
    narrow, wide = ("\n".join(overview(width, STREAMS)) for width in (80, 200))
    assert "cache write" not in narrow.partition("Days")[2]
    assert "cache write" in wide.partition("Days")[2]


@pytest.mark.parametrize("width", [80, 200])
def test_hostile_names_stay_names_on_a_terminal(hostile, width):
    """Every line is printable, fits, and shows markup as it is."""
    lines = overview(width, hostile)
    assert all(line.isprintable() for line in lines)
    assert max(cell_len(line) for line in lines) <= width
    text = "\n".join(lines)
    assert "[/]" in text
    assert "<script>" in text


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("width", ["80", "200"])
def test_a_pipe_gets_whole_names_and_no_colours(hostile, view, width):
    """In a pipe nothing is cut and nothing but text is printed, whatever the width."""
    ran = run("report", "--by", view, hostile, COLUMNS=width, FORCE_COLOR="")
    assert ran.status == 0
    assert all(line.isprintable() for line in ran.out.splitlines())
    if view in {"model", "tool"}:
        assert "<script>alert(1)</script>" in ran.out
        assert "a\\u202eb" in ran.out
        assert "…" not in ran.out


@pytest.mark.parametrize("view", [*VIEWS, "top"])
def test_csv_is_one_table_with_a_heading(hostile, view):
    """Every line of --csv has the columns of the heading, names escaped; an empty read gives the heading alone."""
    option = ("--top", "9") if view == "top" else ("--by", view)
    rows = list(csv.reader(io.StringIO(run("report", "--csv", *option, hostile).out)))
    assert {len(row) for row in rows} == {len(rows[0])}
    assert all(cell.isprintable() for row in rows for cell in row)
    assert not any(cell.startswith("=") for row in rows for cell in row)
    empty = hostile.with_name("empty.jsonl")
    empty.write_text("")
    assert list(csv.reader(io.StringIO(run("report", "--csv", *option, empty).out))) == rows[:1]


@pytest.mark.parametrize("more", [("--by", "day"), ("--by", "session", "--by", "tool"), ("--top", "3")])
def test_views_only_add_to_the_json(more):
    """The fixed keys keep their values beside any view; without one the object is as it always was."""
    plain = run("report", "--json", STREAMS / "1.6.0").json
    with_views = run("report", "--json", *more, STREAMS / "1.6.0").json
    assert plain.keys() < with_views.keys()
    assert {key: with_views[key] for key in plain} == plain
    assert with_views.keys() - plain.keys() == {more[0].strip("-")}


def test_json_without_a_view_has_the_keys_of_the_design():
    """No view, no range: nothing is added."""
    keys = run("report", "--json", STREAMS / "1.6.0" / "basic_text.jsonl").json.keys()
    assert keys == {
        "records", "rejects", "unknown", "fused_lines", "extension_errors", "duplicates_skipped", "sessions", "prompts",
        "runs", "turns", "usage", "unfinished", "tools", "retries", "compactions",
    }  # fmt: skip


def test_a_range_says_what_it_leaves_out(tmp_path):
    """Usage without a time is told of, in words and in JSON; what has a time is in or out."""
    session = Session().ask().answer(0.25).answer(0.5, timestamp=None)
    session.entries[-1]["timestamp"] = None
    path = session.write(tmp_path / "s.jsonl")
    shown = run("report", "--since", "2026-01-01", "--timezone", "UTC", path, COLUMNS="80").out
    assert "Left out: 1 usage rows whose time is unknown ($0.5000)" in shown
    found = run("report", "--json", "--since", "2026-01-01", "--timezone", "UTC", path).json
    assert found["range"]["without_time"] == {"usage_rows": 1, "cost_usd": 0.5}
    assert found["usage"]["cost_usd"] == 0.25
    assert "time unknown" in run("report", "--by", "day", path).out


def test_the_total_has_two_lines(tmp_path):
    """What tools reported stands beside the cost, not in it; a session's figure holds both, as pi's does."""
    path = Session().ask().answer(0.5, tools=("agent",)).results(0.25).write(tmp_path / "s.jsonl")
    lines = run("report", "--by", "session", "--by", "day", path).out.splitlines()
    assert [line.split("  ")[-1] for line in lines if line.startswith("Cost as")] == ["$0.5000"]
    assert any(
        line.startswith("Reported by tools") and "$0.2500 (may repeat sub-agent sessions)" in line for line in lines
    )
    assert next(line for line in lines if "s-1" in line).endswith("$0.7500")
    assert next(line for line in lines if line.startswith("2026-09-21  ")).endswith("$0.5000")


@pytest.mark.parametrize(
    "wrong",
    [
        ("--csv", "--json"), ("--csv", "--by", "day", "--by", "tool"), ("--csv", "--by", "day", "--top", "3"),
        ("--since", "soon"), ("--timezone", "Mars"), ("--by", "mood"), ("--top", "0"),
    ],
)  # fmt: skip
def test_wrong_use_is_one_sentence_and_status_2(hostile, wrong):
    """Nothing goes to standard output."""
    ran = run("report", *wrong, hostile)
    assert ran.status == 2
    assert ran.out == ""
    assert ran.err.strip()


def test_an_encoding_that_lacks_a_name_is_no_reason_to_fail(hostile):
    """With standard output in ASCII names are shown escaped and rules are dashes."""
    hostile.write_text(hostile.read_text().replace("alert(1)", "\\u65e5"))
    command = [sys.executable, "-m", "pimetrics", "report", str(hostile)]
    env = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    ran = subprocess.run(command, env=env, capture_output=True, check=True)
    assert b"<script>\\u65e5</script>" in ran.stdout
    assert b"-----" in ran.stdout


@pytest.mark.parametrize("width", [80, 200])
def test_a_real_terminal_of_that_width(width):
    """On a pseudo terminal the whole program prints no line that wraps."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    env = {k: v for k, v in os.environ.items() if k not in {"COLUMNS", "LINES"}} | {"TERM": "xterm", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "pimetrics", "report", "--top", "3", "--by", "model", str(STREAMS / "1.6.0")]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=env) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # Linux says so when the other end is closed
                break
            if not piece:
                break
            shown += piece
        process.communicate()
    os.close(ours)
    assert process.returncode == 0
    bare = b"".join(part.partition(b"m")[2] if at else part for at, part in enumerate(shown.split(b"\x1b[")))
    lines = bare.decode().splitlines()
    assert "Most expensive prompts" in lines
    assert max(cell_len(line) for line in lines) <= width


def test_strict_ends_with_1_when_a_line_was_rejected(tmp_path):
    """And without --strict bad lines are reported, with doctor as the next step, and not fatal."""
    path = Session().ask().answer().write(tmp_path / "s.jsonl")
    path.write_text(path.read_text() + "not json\n")
    ran = run("report", path)
    assert ran.status == 0
    assert "pimetrics doctor" in ran.err
    assert run("report", "--strict", "--by", "day", path).status == 1
    assert json.loads(run("report", "--json", path).out)["rejects"]["total"] == 1


def test_nothing_to_read_is_said(tmp_path):
    """Figures of 0 look like an answer, so where nothing was found stands beside them, and what to do."""
    ran = run("report", tmp_path)
    assert ran.status == 0
    assert f"nothing to read in {tmp_path}; run pi once" in ran.err
