"""Hypothesis strategies: plans of sessions in every dialect, garbage between lines, splits of bytes.

What they leave out is what `scribe` leaves out, and: records whose keys stand in another order than pi's, a `receivedAt`
that is not the last field. (`test_forms_and_runs` makes these, and faults inside records.)
"""

from __future__ import annotations

from hypothesis import strategies as st

from tests.scribe import DIALECTS, Answer, Call, Compaction, Plan, Prompt

TEXTS = st.sampled_from(
    (
        "Tea and bread.",
        "",
        'He said "no", then {"type":"agent_end","messages":[]} and left: {',
        "line\u2028line\u2029\u0085",
        "half \ud83d emoji",
        "\u00e9\u4e2d\U0001f600",
        "nul \x00 bell \x07 tab \t new\nline \\ back",
        ':{"usage":{"input":9},[{"',
        "}]}",
    )
) | st.text(max_size=12)

_TOKENS = st.integers(0, 300_000)
_COSTS = st.sampled_from((0.0, 0.00045599999999999997, 0.1, 1e-12, 3.3333333, 250.0)) | st.floats(0, 10)

CALLS = st.builds(
    Call,
    tool=st.sampled_from(("bash", "read", "[/]")),
    outcome=st.sampled_from(("ok", "ok", "error", "aborted")),
    ms=st.integers(0, 40),
)


def _answers(*, last: bool) -> st.SearchStrategy[Answer]:
    return st.builds(
        Answer,
        text=TEXTS,
        tokens=st.tuples(_TOKENS, _TOKENS, _TOKENS, _TOKENS) | st.just((0, 0, 0, 0)),
        cost=_COSTS,
        calls=st.just(()) if last else st.lists(CALLS, min_size=1, max_size=3).map(tuple),
        backwards=st.booleans(),
        updates=st.integers(0, 3),
        tries=st.sampled_from((0, 0, 0, 1, 2)),
        stop=st.sampled_from(("stop", "length", "aborted", "error")) if last else st.just("toolUse"),
        step_ms=st.integers(0, 9),
        model=st.sampled_from(("quill-small", "ember-1")),
    )


COMPACTIONS = st.builds(
    Compaction,
    reason=st.sampled_from(("threshold", "overflow", "manual")),
    outcome=st.sampled_from(("ok", "failed", "aborted")),
    tries=st.integers(0, 2),
)

PROMPTS = st.builds(
    Prompt,
    text=TEXTS,
    answers=st.builds(lambda some, end: (*some, end), st.lists(_answers(last=False), max_size=2), _answers(last=True)),
    compaction=st.none() | COMPACTIONS,
    warm=st.booleans(),
    queued=st.integers(0, 2),
    branch=st.sampled_from((False, False, True)),
)

PLANS = st.builds(
    Plan,
    dialect=st.sampled_from(DIALECTS),
    prompts=st.lists(PROMPTS, min_size=1, max_size=3).map(tuple),
    stamps=st.booleans(),
    rpc=st.booleans(),
)

GARBAGE = st.sampled_from(
    (
        (b"npm warn deprecated", "invalid_json"),
        (b"{", "invalid_json"),
        (
            b'{"type":"message_update","usage":{"input":1},"assistantMessageEvent":{"type":"text_delta","delta":"x',
            "invalid_json",
        ),
        (b'{"type":"agent_start"}}', "invalid_json"),
        (b'{"type":"agent_start"} trailing', "invalid_json"),
        (b"[1,2]", "not_object"),
        (b'"text"', "not_object"),
        (b"12", "not_object"),
        (b"null", "not_object"),
        (b'{"type":"custom","text":"\xff\xfe"}', "invalid_utf8"),
        (b"\xc3\x28 warning", "invalid_utf8"),
        (b"\x00\x00\x00", "nul_padding"),
        (b'{"type":"message_end","message":{"role":"assistant","usage":{"input":NaN}}}', "invalid_json"),
        (b'{"type":"turn_end","message":{"role":"assistant"', "invalid_json"),
        (b'{"type":"agent_end","messages":[{"role":"user","content":"tr', "invalid_json"),
    )
)
"""(a line that gives no record, the reason of its reject)."""

HARMLESS = st.sampled_from((b"", b"  ", b"\t", b"\r"))
"""Lines that pass without a trace."""


def splits(data: bytes, most: int = 12) -> st.SearchStrategy[list[bytes]]:
    """Return ways to cut bytes into chunks, empty ones included."""
    places = st.lists(st.integers(0, len(data)), max_size=most).map(sorted)
    return places.map(lambda cuts: [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)])
