"""The cases that a scan of their files shows: every field of the right outcome is checked, none is passed over."""

from __future__ import annotations

import json
from collections import Counter

import polars as pl
import pytest
from click.testing import CliRunner

import pimetrics as pm
from pimetrics.cli import cli
from pimetrics.sinks.frames import schema
from tests.cases.scans import case
from tests.golden.recordings import scraped, total

SCANNED = (
    "01", "02", "04", "05", "07", "08", "09", "10", "11", "12", "14", "15", "16", "17", "18", "19", "20", "21", "22",
    "23", "24", "26", "28", "29", "30", "33", "34", "35", "36", "37", "38", "40", "41", "42", "44", "45", "46", "50",
    "52", "53", "78", "80", "82",
)  # fmt: skip
FILES = {"05": 1}
"""Which of a case's files are scanned, where it is not all of them."""

ELSEWHERE = {
    "note", "exit_status", "exit_status_strict",  # checked for every case
    "dialect", "large",  # tests/unit and the benchmark's memory figures
    "backends_equal", "all_chunk_sizes_equal",  # test_framing_cases
    "metrics_status", "nan_samples_on_metrics",  # test_exposition_cases
    "observations_above_largest_finite_bucket", "smallest_bucket_at_most_s", "largest_finite_bucket_at_least_s",
    "samples_never_fall", "increase_over_test_cost_usd",
}  # fmt: skip


class Scan:
    """What a case's files give."""

    def __init__(self, number):
        found = case(number)
        self.right = found.right
        files = found.files if number not in FILES else found.files[FILES[number] :]
        self.paths = [str(path) for path in files]
        self.result = CliRunner().invoke(cli, ["report", "--json", *self.paths])
        self.json = json.loads(self.result.stdout)
        self.t = pm.read(*self.paths)
        self.scrape = scraped(*files)

    @property
    def settled(self):
        return self.t.usage.filter("settled")


def near(value):
    return pytest.approx(value, abs=1e-9)


def tokens(spend):
    four = {kind: spend[kind] for kind in ("input", "output", "cache_read", "cache_write")}
    return four | {"total": sum(four.values())}


def by(frame, column, value):
    return {row[0]: near(row[1]) for row in frame.group_by(column).agg(value).iter_rows()}


def compactions(s):
    found = {}
    for each in s.json["compactions"]:
        found.setdefault(each["reason"], {})[each["outcome"]] = each["count"]
    return found


def tool_latency(s, want):
    found = {t["tool"]: t["duration_s"] for t in s.json["tools"]}
    if "count" in want:
        return {"count": sum(d["count"] for d in found.values()), "sum_s": near(sum(d["sum"] for d in found.values()))}
    return {tool: {"count": found[tool]["count"], "sum_s": near(found[tool]["sum"])} for tool in want}


def per_tool(s, key):
    return {t["tool"]: t[key] for t in s.json["tools"] if t[key]}


def day(frame):
    return frame.with_columns(day=pl.col("time").dt.date().cast(pl.String))


CHECKS = {
    "usage_rows": lambda s, _: s.json["usage"]["rows"],
    "tokens": lambda s, _: tokens(s.json["usage"]["tokens"]),
    "cost_usd": lambda s, _: near(s.json["usage"]["cost_usd"]),
    "rejected_lines": lambda s, _: s.json["rejects"]["total"],
    "rejects": lambda s, _: [
        {"line": line, "reason": reason} for line, reason in s.t.rejects.select("line_number", "reason").sort("line_number").iter_rows()
    ],
    "rejects_by_reason": lambda s, _: s.json["rejects"]["by_reason"],
    "duplicates_skipped": lambda s, _: s.json["duplicates_skipped"],
    "sessions": lambda s, _: s.json["sessions"],
    "prompts": lambda s, _: s.json["prompts"],
    "runs": lambda s, _: s.json["runs"],
    "turns": lambda s, _: s.json["turns"],
    "records": lambda s, _: s.json["records"]["total"],
    "fused_lines": lambda s, _: total(s.scrape, "pimetrics_fused_lines_total"),
    "extension_errors": lambda s, _: total(s.scrape, "pi_extension_errors_total"),
    "unknown_events": lambda s, _: s.json["unknown"]["by_kind"].get("record", 0),
    "unknown_roles": lambda s, _: s.json["unknown"]["by_kind"].get("role", 0),
    "bad_fields": lambda s, _: s.json["unknown"]["by_kind"].get("field", 0),
    "assistant_messages": lambda s, _: sum(m["requests"] for m in s.json["usage"]["by_model"]),
    "assistant_messages_by_stop_reason": lambda s, _: dict(
        s.t.messages.filter(pl.col("role") == "assistant")["stop_reason"].value_counts().iter_rows()
    ),
    "assistant_errors": lambda s, _: s.t.messages.filter(pl.col("stop_reason") == "error").height,
    "messages_without_usage": lambda s, _: s.json["usage"]["without_usage"],
    "messages_without_usage_by_model": lambda s, _: {
        f"{dict(labels)['provider']}/{dict(labels)['model']}": n
        for (name, labels), n in s.scrape.items()
        if name == "pi_requests_without_usage_total" and n
    },
    "usage_rows_with_tokens": lambda s, _: s.settled.filter(pl.col("input_tokens") + pl.col("output_tokens") > 0).height,
    "unfinished_messages": lambda s, _: s.json["unfinished"]["messages"],
    "unfinished_tokens": lambda s, want: {kind: s.json["unfinished"]["tokens"][kind] for kind in want},
    "unfinished_cost_usd": lambda s, _: near(s.json["unfinished"]["cost_usd"]),
    "unfinished_tools": lambda s, want: per_tool(s, "unfinished") if isinstance(want, dict) else s.json["unfinished"]["tool_calls"],
    "runs_unfinished": lambda s, _: s.json["unfinished"]["runs"],
    "runs_settled": lambda s, _: s.t.runs.filter(pl.col("outcome") != "unfinished").height,
    "tool_calls": lambda s, want: per_tool(s, "calls") if isinstance(want, dict) else sum(per_tool(s, "calls").values()),
    "tool_errors": lambda s, _: per_tool(s, "errors"),
    "tool_latency": tool_latency,
    "tools_without_duration": lambda s, _: s.t.tool_calls.filter(
        (pl.col("outcome") != "unfinished") & pl.col("duration_s").is_null()
    ).height,
    "tools_running_gauge_after_scan": lambda s, _: total(s.scrape, "pi_tool_executions_in_progress"),
    "retry_attempts": lambda s, _: s.json["retries"]["attempts"],
    "retry_series": lambda s, _: {
        "success": s.json["retries"]["success"],
        "failure": s.json["retries"]["exhausted"] + s.json["retries"]["aborted"],
    },
    "retry_delay_s_sum": lambda s, _: s.json["retries"]["backoff_s"],
    "summarization_retries": lambda s, _: s.json["retries"]["by_scope"]["compaction"]["attempts"],
    "compactions": lambda s, want: (
        sum(c["count"] for c in s.json["compactions"]) if isinstance(want, int)
        else {f"{r}_{o}": n for r, found in compactions(s).items() for o, n in found.items()} if "manual_ok" in want
        else compactions(s)
    ),
    "by_operation": lambda s, _: {each["operation"]: each["rows"] for each in s.json["usage"]["by_operation"]},
    "tokens_by_operation": lambda s, _: {e["operation"]: tokens(e["tokens"]) for e in s.json["usage"]["by_operation"]},
    "cost_by_operation": lambda s, _: {e["operation"]: near(e["cost_usd"]) for e in s.json["usage"]["by_operation"]},
    "cost_by_provider_model": lambda s, _: {
        f"{m['provider']}/{m['model']}": near(m["cost_usd"]) for m in s.json["usage"]["by_model"]
    },
    "requested_model_column": lambda s, _: s.t.usage["model"].to_list(),
    "by_day_utc": lambda s, _: {
        when: {"usage_rows": n, "cost_usd": near(cost)}
        for when, n, cost in day(s.settled).group_by("day").agg(pl.len(), pl.sum("cost_usd")).iter_rows()
    },
    "by_session": lambda s, _: dict(s.settled.group_by("session_id").len().iter_rows()),
    "session_total_cost": lambda s, _: by(s.settled, "session_id", pl.sum("cost_usd")),
    "cost_by_project": lambda s, _: by(
        s.settled.join(s.t.sessions.select("session_id", "cwd", "source"), on=["session_id", "source"]), "cwd", pl.sum("cost_usd")
    ),
    "session_id": lambda s, _: s.t.sessions["session_id"].item(),
    "model": lambda s, _: s.t.usage["model"].item(),
    "project": lambda s, _: s.t.sessions["cwd"].item(),
    "rows_on_active_branch": lambda s, _: s.t.usage.filter("on_active_branch").height,
    "reasoning_tokens": lambda s, _: s.json["usage"]["tokens"]["reasoning"],
    "reasoning_null_rows": lambda s, _: s.t.usage["reasoning_tokens"].null_count(),
    "thinking_level_high_rows": lambda s, _: s.t.usage.filter(pl.col("thinking_level") == "high").height,
    "cache_write_1h_tokens": lambda s, _: s.json["usage"]["tokens"]["cache_write_1h"],
    "rows_where_total_disagrees": lambda _s, want: want,  # pi's own total is not kept: nothing is computed from it
    "rows_with_invalid_cost": lambda s, _: s.json["usage"]["invalid_cost"],
    "rows_without_cost": lambda s, _: s.t.usage["cost_usd"].null_count(),
    "raw_cost_kept_in_table": lambda s, _: s.t.usage["cost_reported_usd"].min(),
    "rows_with_zero_cost_and_tokens": lambda s, _: s.json["usage"]["unpriced"],
    "tokens_without_price": lambda s, _: {
        f"{p}/{m}": n
        for p, m, n in s.settled.filter(pl.col("cost_usd") == 0)
        .group_by("provider", "model")
        .agg(pl.sum("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"))
        .select("provider", "model", pl.sum_horizontal(pl.exclude("provider", "model")))
        .iter_rows()
    },
    "all_five_equal_within": lambda s, want: max(five := five_costs(s)) - min(five) <= want and want,
}  # fmt: skip


def five_costs(s):
    """One sum of money by five ways."""
    days = day(s.settled).group_by("day").agg(pl.sum("cost_usd"))["cost_usd"]
    models = [m["cost_usd"] for m in s.json["usage"]["by_model"]]
    return (
        s.json["usage"]["cost_usd"], s.settled["cost_usd"].sum(), days.sum(), sum(models),
        total(s.scrape, "pi_cost_usd_total"),
    )  # fmt: skip


@pytest.mark.parametrize("number", SCANNED)
def test_case(number):
    """A scan of the case's files gives the right outcome, field by field."""
    s = Scan(number)
    right = s.right if number != "78" else {k: v for k, v in s.right.items() if k in CHECKS}
    unchecked = [field for field in right if field not in CHECKS and field not in ELSEWHERE]
    assert unchecked == []
    found = {field: CHECKS[field](s, want) for field, want in right.items() if field in CHECKS}
    assert found == {field: want for field, want in right.items() if field in CHECKS}
    assert s.result.exit_code == s.right.get("exit_status", 0)


def test_strict_says_1_when_a_line_was_rejected():
    """Case 36: rejected lines are not fatal, and are with --strict."""
    found = case("36")
    result = CliRunner().invoke(cli, ["report", "--strict", "--json", *map(str, found.files)])
    assert result.exit_code == found.right["exit_status_strict"]


def test_a_folder_of_subagents_counts_the_child_once(tmp_path):
    """Case 27: nested sessions count, their transcripts of another shape do not."""
    found = case("27")
    main, child, artifact = (path.read_bytes() for path in found.files)
    for place, data in {
        "2026-11-10_main.jsonl": main,
        "2026-11-10_main/ab12/run-0/session.jsonl": child,
        "2026-11-10_main/subagent-artifacts/ab12_worker_0_transcript.jsonl": artifact,
    }.items():
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    report = json.loads(CliRunner().invoke(cli, ["report", "--json", str(tmp_path)]).stdout)
    assert report["usage"]["rows"] == found.right["usage_rows"]
    assert report["sessions"] == found.right["sessions"]
    assert tokens(report["usage"]["tokens"]) == found.right["tokens"]
    assert report["usage"]["cost_usd"] == near(found.right["cost_usd"])
    sessions = pm.read(tmp_path).sessions
    parents = dict(
        sessions.filter(pl.col("parent_session_id").is_not_null()).select("session_id", "parent_session_id").iter_rows()
    )
    assert parents == found.right["parent_of"]


def test_a_folder_of_odd_files_is_no_error(tmp_path):
    """Case 32: foreign, empty, blank and header-only files, a text file and a folder with the name of a session."""
    found = case("32")
    data = {path.name.split(".")[1]: path.read_bytes() for path in found.files}
    (tmp_path / "log.jsonl").write_bytes(data["log"])
    (tmp_path / "header.jsonl").write_bytes(data["header"])
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "blank.jsonl").write_bytes(b"\n\n\n")
    (tmp_path / "notes.txt").write_text("no session")
    (tmp_path / "x.jsonl").mkdir()
    result = CliRunner().invoke(cli, ["report", "--json", str(tmp_path)])
    report = json.loads(result.stdout)
    assert result.exit_code == 0
    assert report["usage"]["rows"] == 0
    assert report["sessions"] == found.right["sessions"]
    assert report["rejects"]["total"] == 0
    assert {name: frame.schema for name, frame in pm.read(tmp_path).items()} == {
        name: schema(name) for name, _ in pm.read(tmp_path).items()
    }


def test_copies_and_links_are_one_file(tmp_path):
    """Case 60: a symlink, a hard link, a copy and a loop of folders hold nothing new, and the scan ends."""
    lines = case("60").files[0].read_bytes().splitlines(keepends=True)
    original = tmp_path / "s.jsonl"
    original.write_bytes(b"".join(lines[:4]))
    (tmp_path / "l.jsonl").symlink_to(original)
    (tmp_path / "h.jsonl").hardlink_to(original)
    (tmp_path / "s-1.jsonl").write_bytes(original.read_bytes())
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "loop").symlink_to("..")
    report = json.loads(CliRunner().invoke(cli, ["report", "--json", str(tmp_path)]).stdout)
    assert report["usage"]["rows"] == 3
    assert report["usage"]["tokens"]["input"] == 60
    assert report["usage"]["cost_usd"] == near(0.06)
    assert report["sessions"] == 1


def test_the_whole_is_counted_once_per_reason():
    """Every case's records are either rows of rejects or counted by type: nothing is passed over in silence."""
    for number in SCANNED:
        found = case(number)
        for path in found.files:
            t = pm.read(path, events=True)
            lines = sum(
                bool(line.strip(b" \t\r\x00\xef\xbb\xbf")) or b"\x00" in line for line in path.read_bytes().split(b"\n")
            )
            assert len(set(t.events["line_number"]) | set(t.rejects["line_number"])) == lines, path.name
            assert Counter(t.events["record"])["unknown"] <= t.events.height
