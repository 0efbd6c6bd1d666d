"""Cases 27 and 29: who a cost belongs to."""

from __future__ import annotations

import shutil

from tests.reporting import case, run


def test_one_session_id_in_two_projects_is_two_sessions(tmp_path):
    """Case 29: session ids are unique only within a project."""
    files, right = case("29")
    folder = tmp_path / "--work-a-b--"
    folder.mkdir()
    for number, file in enumerate(files):
        shutil.copy(file, folder / f"{number}.jsonl")
    ran = run("report", "--json", "--by", "project", "--by", "session", folder)
    assert ran.status == right["exit_status"]
    assert {each["project"]: each["cost_usd"] for each in ran.json["by"]["project"]} == right["cost_by_project"]
    assert len(ran.json["by"]["session"]) == ran.json["sessions"] == right["sessions"]
    assert len({each["session_id"] for each in ran.json["by"]["session"]}) == 1
    shown = run("report", "--by", "project", "--timezone", "UTC", folder).out
    assert all(project in shown for project in right["cost_by_project"])


def _family(tmp_path):
    (main, child, artifact), right = case("27")
    nested = tmp_path / "2026-11-10_main" / "ab12" / "run-0"
    transcripts = tmp_path / "2026-11-10_main" / "subagent-artifacts"
    nested.mkdir(parents=True)
    transcripts.mkdir()
    shutil.copy(main, tmp_path / "2026-11-10_main.jsonl")
    shutil.copy(child, nested / "session.jsonl")
    shutil.copy(artifact, transcripts / "ab12_worker_0_transcript.jsonl")
    return tmp_path, right


def test_sub_agents_count_once(tmp_path):
    """Case 27: the child three folders down counts, its transcript in another shape does not."""
    folder, right = _family(tmp_path)
    ran = run("report", "--json", "--by", "session", folder)
    assert ran.status == right["exit_status"]
    assert ran.json["usage"]["rows"] == right["usage_rows"]
    assert abs(ran.json["usage"]["cost_usd"] - right["cost_usd"]) < 1e-12
    assert {each["session_id"] for each in ran.json["by"]["session"]} >= set(right["parent_of"])
    assert len(ran.json["by"]["session"]) == right["sessions"]


def test_doctor_tells_of_the_transcript(tmp_path):
    """Case 27: the file that is no session is named, and only that."""
    folder, right = _family(tmp_path)
    ran = run("doctor", "--json", folder)
    foreign = [each["path"] for each in ran.json["files"] if each["kind"] == "not pi's"]
    assert len(foreign) == right["files_skipped_not_a_session"]
    assert foreign[0].endswith("transcript.jsonl")
    assert ran.status == 1
