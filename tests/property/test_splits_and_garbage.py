"""How bytes arrive, and what stands between good lines, changes nothing else."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pimetrics import framing
from tests.scribe import Answer, Plan, Prompt, play
from tests.strategies import GARBAGE, HARMLESS, PLANS, splits
from tests.support import Recording, assert_same, read, recordings

SMALL = [each for each in recordings("0.58.4|0.84.0|1.6.0") if each.stream_path.stat().st_size < 40_000]


@given(st.data())
def test_any_split_of_a_recording_gives_the_same(data: st.DataObject) -> None:
    """Rows of every table, totals and counts do not depend on where the bytes of a recording were cut."""
    recording = data.draw(st.sampled_from(SMALL))
    whole = recording.stamped() if data.draw(st.booleans()) else recording.stream()
    assert_same(read(data.draw(splits(whole)), events=True), read(whole, events=True))


@given(st.data())
def test_any_split_of_a_generated_session_gives_the_same(data: st.DataObject) -> None:
    """The same for generated streams and session files, CRLF and a torn end included."""
    session = play(data.draw(PLANS))
    whole = session.stream_bytes if data.draw(st.booleans()) else session.file_bytes
    if data.draw(st.booleans()):
        whole = whole.replace(b"\n", b"\r\n")
    whole = whole[: data.draw(st.integers(0, len(whole)))]
    assert_same(read(data.draw(splits(whole)), events=True), read(whole, events=True))


@pytest.mark.parametrize(
    "recording", recordings(r"1\.6\.0/(unicode_text|rpc_errors)|0\.58\.4/killed9"), ids=lambda r: r.id
)
def test_byte_by_byte_gives_the_same(recording: Recording) -> None:
    """One byte a chunk is the hardest split: every character and escape is cut."""
    whole = recording.stream()[:60_000]
    assert_same(read([whole[i : i + 1] for i in range(len(whole))]), read(whole))


@given(st.data())
def test_long_lines_do_not_depend_on_the_split(data: st.DataObject) -> None:
    """A line that framing may drop while it grows gives the same as one that came whole, shortcut on or off."""
    plan = data.draw(PLANS)
    session = play(plan)
    whole = session.stream_bytes
    if data.draw(st.booleans()):
        whole = whole.replace(b"\n", b"\r\n")
    cut = data.draw(st.sampled_from([i for i, line in enumerate(session.stream) if b"_update" in line] or [0]))
    if data.draw(st.booleans()):  # cut in an answer: what was reported last must not depend on the split
        whole = b"".join(line + b"\n" for line in session.stream[: cut + 1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "HEAD_BYTES", 300)
        chunks = read(data.draw(splits(whole)), events=True)
        assert_same(chunks, read(whole, events=True))
        assert_same(chunks, read(whole, events=True, shortcut=False))


def test_a_long_update_keeps_its_usage() -> None:
    """The last usage that a cut-off answer reported counts as unfinished, also when its update was over 64 KiB."""
    from tests.scribe import DIALECTS

    for dialect in DIALECTS:
        if not (dialect.cumulative or dialect.update_usage):
            continue
        answer = Answer(text="word " * 20_000, tokens=(11, 7, 0, 0), updates=2)
        session = play(Plan(dialect=dialect, prompts=(Prompt(answers=(answer,)),)))
        last = max(i for i, line in enumerate(session.stream) if b'"message_update"' in line)
        whole = b"".join(line + b"\n" for line in session.stream[: last + 1])
        for given_as in (whole, [whole[i : i + 50_000] for i in range(0, len(whole), 50_000)]):
            (row,) = read(given_as).rows["usage"]
            assert (row["input_tokens"], row["output_tokens"], row["settled"]) == (11, 7, False), dialect.name


def _between(good: list[bytes], places: list[int], bad: list[bytes]) -> list[bytes]:
    out: list[bytes] = []
    at = sorted(zip(places, bad, strict=True), key=lambda pair: pair[0])
    for (start, junk), (end, _) in pairwise([(0, None), *at, (len(good), None)]):
        if junk is not None:
            out.append(junk)
        out += good[start:end]
    return out


def _no_place(rows: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    return {table: found for table, found in rows.items() if table not in {"rejects", "events"}}


@given(st.data())
def test_garbage_costs_only_itself(data: st.DataObject) -> None:
    """Bad lines between good ones are one reject each, with their reason and place, and nothing else changes."""
    session = play(data.draw(PLANS))
    good = session.stream if data.draw(st.booleans()) else session.file
    junk = data.draw(st.lists(GARBAGE, min_size=1, max_size=6))
    # The first record names the session; garbage before it is tried in a test of its own.
    places = data.draw(st.lists(st.integers(1, len(good)), min_size=len(junk), max_size=len(junk)))
    mixed = _between(good, places, [line for line, _ in junk])
    found, clean = read(b"".join(line + b"\n" for line in mixed)), read(b"".join(line + b"\n" for line in good))
    assert _no_place(found.rows) == _no_place(clean.rows)
    assert found.counters == clean.counters
    assert found.stats.records == clean.stats.records
    assert found.stats.rejects == Counter(reason for _, reason in junk)
    rejects = sorted(found.rows["rejects"], key=lambda row: row["line_number"])
    bad = {line for line, _ in junk}
    numbers = [number for number, line in enumerate(mixed, 1) if line in bad]
    assert [row["line_number"] for row in rejects] == numbers
    assert [row["offset_bytes"] for row in rejects] == [sum(len(line) + 1 for line in mixed[: n - 1]) for n in numbers]
    assert [row["size_bytes"] for row in rejects] == [len(mixed[n - 1]) for n in numbers]


@given(st.data())
def test_blank_lines_and_a_bom_pass(data: st.DataObject) -> None:
    """Blank lines, CRs and a BOM in front leave no trace at all."""
    good = play(data.draw(PLANS)).stream
    blanks = data.draw(st.lists(HARMLESS, max_size=5))
    places = data.draw(st.lists(st.integers(0, len(good)), min_size=len(blanks), max_size=len(blanks)))
    mixed = data.draw(st.sampled_from((b"", b"\xef\xbb\xbf"))) + b"".join(
        line + b"\n" for line in _between(good, places, blanks)
    )
    found, clean = read(mixed), read(b"".join(line + b"\n" for line in good))
    assert found.rows == clean.rows
    assert found.stats.records == clean.stats.records


@given(st.lists(GARBAGE, min_size=1, max_size=4))
def test_garbage_before_the_first_record_changes_no_row_of_a_session(junk: list[tuple[bytes, str]]) -> None:
    """Stray output before the header is rejected; the session that follows is named as ever."""
    good = play(Plan()).stream_bytes
    found = read(b"".join(line + b"\n" for line, _ in junk) + good)
    assert _no_place(found.rows) == _no_place(read(good).rows)
    assert found.stats.rejects == Counter(reason for _, reason in junk)


@settings(max_examples=30)
@given(st.lists(st.binary(max_size=40), max_size=12))
def test_no_bytes_at_all_raise(junk: list[bytes]) -> None:
    """Whatever bytes come, each physical line is records, a reject or blank, and nothing raises."""
    data = b"\n".join(junk)
    found = read(data)
    physical = data.split(b"\n")
    assert sum(found.stats.rejects.values()) <= len(physical)
    assert len(found.rows["rejects"]) == sum(found.stats.rejects.values())
