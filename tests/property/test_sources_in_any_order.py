"""Several sources that know the same session: order and repetition never matter, cut-off facts are replaced."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimetrics.names import METRICS
from tests.scribe import Plan, play
from tests.strategies import PLANS
from tests.support import Recording, Result, assert_agree, assert_same, content, read, recordings, sums, tally

WITH_FILES = [each for each in recordings() if each.session_paths and not each.name.startswith(("long_", "big_"))]


@given(PLANS, st.data())
def test_any_order_and_repetition_of_sources(plan: Plan, data: st.DataObject) -> None:
    """Stream, file, a copy and a fork's file give the same tables and totals in any order, and twice is once."""
    session = play(plan)
    fork = session.fork(data.draw(st.integers(0, len(session.file) - 1)), "01a22ddd-0000-7000-8000-00000000000f")
    sources = [("a", session.stream_bytes), ("b", session.file_bytes), ("c", fork), ("d", session.file_bytes)]
    want = read(*sources)
    shuffled = data.draw(st.permutations(sources)) + data.draw(st.lists(st.sampled_from(sources), max_size=3))
    found = read(*shuffled)
    assert_agree(found, want)
    truth = session.truth
    assert len([r for r in found.rows["messages"] if r["role"] == "assistant"]) == truth.requests
    assert sum(r["input_tokens"] for r in found.rows["usage"]) == sum(
        n for (_, k), n in truth.tokens.items() if k == "input"
    )


@given(PLANS, st.data())
def test_a_cut_off_stream_gives_way_to_the_file(plan: Plan, data: st.DataObject) -> None:
    """A stream cut at any byte, with the session file beside it, adds nothing and hides nothing."""
    session = play(plan)
    whole = session.stream_bytes
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    file = session.file_bytes
    want, one, two = read(file), read(("s", cut), ("f", file)), read(("f", file), ("s", cut))
    assert_agree(one, two)
    for table in ("usage", "messages", "tool_calls"):
        assert [r["row_id"] for r in one.rows[table]] == [r["row_id"] for r in want.rows[table]], table
        assert not any(r.get("settled") is False for r in one.rows[table])
    assert not tally(one.rows["tool_calls"], "outcome")["unfinished"]
    assert {r["row_id"] for r in want.rows["turns"]} <= {r["row_id"] for r in one.rows["turns"]}
    assert {r["row_id"] for r in want.rows["compactions"]} <= {r["row_id"] for r in one.rows["compactions"]}
    for metric in ("pi_tokens_total", "pi_cost_usd_total", "pi_requests_total"):
        assert sums(one)[metric] == sums(want)[metric] == sums(two)[metric]


@given(PLANS, st.data())
def test_a_cut_off_stream_gives_way_to_the_whole_one(plan: Plan, data: st.DataObject) -> None:
    """The same stream cut and whole, in either order, gives what the whole one gives, but for work without an answer."""
    session = play(plan)
    whole = session.stream_bytes
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    want, one, two = read(("w", whole)), read(("c", cut), ("w", whole)), read(("w", whole), ("c", cut))
    for table in ("usage", "messages", "tool_calls", "retries"):
        ours = [{k: v for k, v in r.items() if k != "source"} for r in one.rows[table]]
        assert ours == [{k: v for k, v in r.items() if k != "source"} for r in want.rows[table]], table
    assert one.rows == two.rows


@given(PLANS, st.data())
def test_a_growing_file_counts_once(plan: Plan, data: st.DataObject) -> None:
    """Reading a file again after it has grown, under its name or another, gives what reading it once gives."""
    session = play(plan)
    cut = data.draw(st.integers(0, len(session.file)))
    early = b"".join(line + b"\n" for line in session.file[:cut])
    want = read(("f", session.file_bytes))
    found = read(("f", early), ("f", session.file_bytes))
    assert found.rows == want.rows or assert_same(found, want) is None
    assert sums(found) == sums(want)


@pytest.mark.parametrize("recording", WITH_FILES, ids=lambda r: r.id)
def test_recordings_in_any_order(recording: Recording) -> None:
    """A recording and its session files: stream first, files first, and everything twice are one answer."""
    stream = ("s", recording.stamped())
    files = [(path.name, content(path)) for path in recording.session_paths]
    want = read(stream, *files)
    assert_agree(read(*files, stream), want)
    assert_agree(read(stream, *reversed(files), *files, stream), want)


@pytest.mark.parametrize("recording", WITH_FILES, ids=lambda r: r.id)
def test_stream_and_files_of_a_recording_are_one_session(recording: Recording) -> None:
    """Every settled usage row of a stream is in its files; the files hold more only where the stream was cut or shared."""
    stream, files = read(recording.stream()), read(*(content(path) for path in recording.session_paths))
    ours = {r["row_id"] for r in stream.rows["usage"] if r["settled"]}
    theirs = {r["row_id"] for r in files.rows["usage"]}
    assert ours <= theirs
    more = {r["operation"] for r in files.rows["usage"] if r["row_id"] not in ours}
    cut = recording.name.startswith(("killed", "sigterm", "continued", "resumed", "sigint"))
    assert more <= ({"turn", "tool", "compaction", "branch_summary"} if cut else {"branch_summary"})


SUMS = {
    "usage": {
        "pi_tokens_total": ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
        "pi_reasoning_tokens_total": ("reasoning_tokens",),
        "pi_cache_write_1h_tokens_total": ("cache_write_1h_tokens",),
    },
}


@pytest.mark.parametrize("recording", recordings(), ids=lambda r: r.id)
def test_sums_over_tables_are_the_counters(recording: Recording) -> None:
    """For each recording, with its files or alone, every counter is what its table adds up to."""
    sources = [recording.stamped(), *(content(path) for path in recording.session_paths)]
    for found in (read(sources[0]), read(*sources)):
        assert_sums(found)


@given(PLANS, st.data())
def test_sums_over_generated_tables_are_the_counters(plan: Plan, data: st.DataObject) -> None:
    """The same for generated sessions, streams cut anywhere included."""
    session = play(plan)
    whole = session.stream_bytes
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    assert_sums(read(*data.draw(st.permutations([cut, session.file_bytes]))))
    assert_sums(read(cut))


def assert_sums(found: Result) -> None:
    usage = [r for r in found.rows["usage"] if r["settled"]]
    for metric, columns in SUMS["usage"].items():
        assert found.total(metric) == sum(r[c] or 0 for r in usage for c in columns), metric
    assert found.total("pi_cost_usd_total") == sum(round((r["cost_usd"] or 0) * 10**12) for r in usage)
    answers = [r for r in found.rows["messages"] if r["role"] == "assistant" and r["settled"]]
    assert found.total("pi_requests_total") == len(answers)
    for (metric, labels), amount in found.counters.items():
        if metric == "pi_requests_total":
            named = dict(zip(METRICS[metric].labels, labels, strict=True))
            fits = [r for r in answers if (r["provider"], r["model"]) == (named["provider"], named["model"])]
            assert amount == sum((r["stop_reason"] or "unknown") == named["stop_reason"] for r in fits)
    assert found.total("pi_tool_calls_total") == len(found.rows["tool_calls"])
    assert found.total("pi_retries_total") == len(found.rows["retries"])
    assert found.total("pi_compactions_total") == len([r for r in found.rows["compactions"] if r["outcome"]])
    assert found.total("pi_turns_total") == len(found.rows["turns"])
    assert found.total("pi_runs_total") == len(found.rows["runs"])
    assert found.total("pi_prompts_total") == len(found.rows["prompts"])
    assert found.total("pi_sessions_total") == len(found.rows["sessions"])
    for metric, table, column in (
        ("pi_request_duration_seconds", "usage", "duration_s"),
        ("pi_tool_execution_duration_seconds", "tool_calls", "duration_s"),
    ):
        if found.late:
            continue  # a duration that became better known moved no histogram again
        rows = [
            r
            for r in found.rows[table]
            if r["duration_source"] in {"reported", "arrival"} and r.get("operation", "turn") == "turn"
        ]
        seen = [each for (name, _), each in found.histograms.items() if name == metric]
        assert sum(sum(counts) for counts, _ in seen) == len([r for r in rows if r.get("settled", True)])
        assert sum(total for _, total in seen) == sum(round(r[column] * 10**6) for r in rows if r.get("settled", True))
