"""`doctor`: what is found, what is read, what is wrong."""

from __future__ import annotations

import gzip
import json
import os
import shutil

import pytest

from tests.reporting import START, STREAMS, Session, run

GOOD = STREAMS / "1.6.0" / "basic_text"


@pytest.fixture
def folder(tmp_path):
    """A folder with the stream and the session file of one run."""
    for end in (".jsonl", ".session.jsonl"):
        shutil.copy(f"{GOOD}{end}", tmp_path)
    return tmp_path


def test_all_is_well(folder):
    """Kinds, dialect and versions, and exit status 0; a session in two files is worth knowing and not wrong."""
    ran = run("doctor", folder, COLUMNS="80")
    assert ran.status == 0
    assert "Nothing is wrong." in ran.out
    assert "event stream" in ran.out
    assert "session file" in ran.out
    assert "1.5.0 or newer" in ran.out
    assert "sessions in several files" in ran.out
    found = run("doctor", "--json", folder).json
    assert found["ok"] is True
    assert found["usage_rows_in_several_files"] == 1


def test_rejects_have_file_and_line(folder):
    """A bad line is named as an editor takes it."""
    path = folder / "bad.jsonl"
    path.write_text(GOOD.with_suffix(".jsonl").read_text() + "oops\n[1]\n")
    last = len(path.read_text().split("\n")) - 1
    ran = run("doctor", folder)
    assert ran.status == 1
    assert f"{path}:{last - 1}: no JSON (invalid_json)" in ran.out
    assert f"{path}:{last}: JSON, but no object (not_object)" in ran.out


def test_a_file_that_cannot_be_read_is_a_finding(folder):
    """The others are read all the same."""
    (folder / "a.jsonl").symlink_to("/proc/self/mem")
    ran = run("doctor", "--json", folder)
    assert ran.status == 1
    unreadable = [each for each in ran.json["files"] if each["unreadable"]]
    assert [os.path.basename(each["path"]) for each in unreadable] == ["a.jsonl"]
    assert len(ran.json["files"]) == 3
    assert "cannot be read" in run("doctor", folder).out


def test_copies_are_named_also_under_another_compression(folder):
    """Same content, another name: counted once, and not wrong."""
    with gzip.open(folder / "z.jsonl.gz", "wb") as copy:
        copy.write((folder / "basic_text.jsonl").read_bytes())
    ran = run("doctor", folder)
    assert ran.status == 0
    assert f"{folder / 'z.jsonl.gz'} is a copy of {folder / 'basic_text.jsonl'}" in ran.out


def test_odd_clocks_are_told(tmp_path):
    """A message a day off its entry, one in the future, one before its session; a fork's old messages are none."""
    odd = Session().ask().answer(timestamp=START - 3 * 86_400_000)
    odd.answer().entries[-1]["timestamp"] = "2199-01-01T00:00:00.000Z"
    odd.entries[-1]["message"]["timestamp"] = 7_226_582_400_000
    odd.write(tmp_path / "odd.jsonl")
    fork = Session("s-2", start=START, parent="old.jsonl").ask()
    fork.entries[-1]["timestamp"] = "2026-01-01T00:00:00.000Z"
    fork.entries[-1]["message"]["timestamp"] = 1_767_225_600_000
    fork.write(tmp_path / "fork.jsonl")
    early = Session("s-3", start=START)
    early.now -= 3_600_000
    early.ask().write(tmp_path / "early.jsonl")
    ran = run("doctor", "--json", tmp_path)
    assert ran.status == 1
    clocks = {os.path.basename(each["path"]): each["clock"] for each in ran.json["files"]}
    assert clocks == {
        "odd.jsonl": {
            "messages in the future": 1,
            "messages whose own time is missing or over a day off their entry's": 1,
        },
        "fork.jsonl": {},
        "early.jsonl": {"messages before the start of their session": 1},
    }


def test_unknown_things_are_named_and_not_wrong(tmp_path):
    """pi changes often: a record type that is new is worth knowing, with its name."""
    session = Session().ask().answer()
    session.entries.append({"type": "mood_change", "mood": "\u202egood"})
    ran = run("doctor", session.write(tmp_path / "s.jsonl"))
    assert ran.status == 0
    assert "record 1; record types mood_change" in ran.out


def test_default_folders_say_how_they_were_chosen(tmp_path):
    """Environment, setting or default; nothing to read ends with 1 and says what to do."""
    env = {
        "HOME": str(tmp_path),
        "PI_CODING_AGENT_DIR": "",
        "PI_CODING_AGENT_SESSION_DIR": "",
        "PIMETRICS_RECORDINGS": "",
        "XDG_DATA_HOME": "",
    }
    ran = run("doctor", **env)
    assert ran.status == 1
    assert "pi's default" in ran.out
    assert "There is nothing to read" in ran.out
    agent = tmp_path / ".pi" / "agent"
    agent.mkdir(parents=True)
    (agent / "settings.json").write_text(json.dumps({"sessionDir": str(tmp_path / "mine")}))
    (tmp_path / "mine").mkdir()
    Session().ask().answer().write(tmp_path / "mine" / "s.jsonl")
    found = run("doctor", "--json", **env)
    assert found.status == 0
    assert found.json["folders"][0] == {
        "path": str(tmp_path / "mine"), "chosen_by": f"sessionDir in {agent / 'settings.json'}", "exists": True,
    }  # fmt: skip
    by_env = run("doctor", "--json", **env | {"PI_CODING_AGENT_SESSION_DIR": str(tmp_path / "mine")})
    assert by_env.json["folders"][0]["chosen_by"] == "PI_CODING_AGENT_SESSION_DIR"


def test_hostile_file_names_are_escaped(tmp_path):
    """A name can neither move the cursor nor look like markup."""
    Session().ask().write(tmp_path / "[bold]\x1b[2J\u202e.jsonl")
    (tmp_path / "[x]\n.jsonl").write_text("no\n")
    out = run("doctor", tmp_path).out
    assert all(line.isprintable() for line in out.splitlines())
    assert "[x]\\x0a.jsonl" in out


def test_a_path_that_does_not_exist_is_wrong_use(tmp_path):
    """Status 2, one sentence."""
    ran = run("doctor", tmp_path / "nowhere")
    assert (ran.status, ran.out) == (2, "")
    assert "does not exist" in ran.err
