"""The range of versions that the marks of a source allow."""

from __future__ import annotations

import pytest

from pimetrics.decoding.dialect import EMPTY, FOREIGN, HEADER_ONLY, RPC, SESSION, STREAM, Marks, kind_of
from pimetrics.examination import examine
from tests.reporting import STREAMS

FILES = sorted(path for path in STREAMS.glob("*/*.jsonl*") if ".commands." not in path.name)
DIALECTS = {"0.58.4": "auto-compaction", "0.84.0": "delta-bare", "0.87.1": "delta", "1.3.0": "delta", "1.6.0": "delta"}


@pytest.fixture(scope="module")
def examined():
    """All recordings, by name."""
    return {each.path: each for each in examine(FILES, 2_000_000_000_000).files}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_recording_is_what_it_is(examined, path):
    """Kind, dialect and range of every recording hold the version that wrote it."""
    found = examined[str(path)]
    is_session = ".session" in path.name
    assert found.kind == (SESSION if is_session else RPC if path.name.startswith("rpc_") else STREAM)
    version = path.parent.name
    if found.dialect is not None:
        assert found.dialect in {DIALECTS.get(version, "cumulative"), "cumulative" if version == "0.58.4" else ""}
    assert fits(found.versions, version)


def fits(said: str, version: str) -> bool:
    """Read a range as a person would."""

    def parsed(text: str, last: int) -> tuple[int, ...]:
        return tuple(last if part == "x" else int(part) for part in text.split("."))

    own = parsed(version, 0)
    if said.startswith("up to "):
        return own <= parsed(said.removeprefix("up to "), 99)
    if said.endswith(" or newer"):
        return parsed(said.removesuffix(" or newer"), 0) <= own
    if " to " in said:
        since, until = said.split(" to ")
        return parsed(since, 0) <= own <= parsed(until, 99)
    return said == "unknown"


def test_marks_that_exclude_each_other_mean_several_versions():
    """A session that an old pi began and a new one went on with."""
    marks = Marks()
    old = b'{"type":"message","id":"a","message":{"role":"assistant","content":[],"usage":{},"stopReason":"stop","timestamp":1}}'
    new = old.replace(b'"timestamp":1}', b'"timestamp":1,"durationMs":5}')
    marks.feed(old, old)
    assert marks.versions == "up to 1.0.x"
    marks.feed(new, new)
    assert marks.versions == "several, from 1.0.x or older to 1.1.0 or newer"


def test_types_outside_the_vocabulary_are_named():
    """At most twenty of them."""
    marks = Marks()
    for number in range(50):
        line = b'{"type":"new_thing_%d"}' % number
        marks.feed(line, line)
    assert len(marks.unknown_types) == 20
    assert "new_thing_0" in marks.unknown_types


@pytest.mark.parametrize(
    ("records", "rejects", "kind"),
    [
        ({}, 0, EMPTY),
        ({}, 3, FOREIGN),
        ({"unknown": 2}, 0, FOREIGN),
        ({"session": 1}, 0, HEADER_ONLY),
        ({"session": 1, "agent_start": 1}, 0, STREAM),
    ],
)
def test_kinds(records, rejects, kind):
    """What a source is follows from the types in it."""
    assert kind_of(records, rejects) == kind
