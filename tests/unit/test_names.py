"""Names from outside: labels, exemplars, what is shown, and error classes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimetrics import names

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=300)

ERRORS = {
    None: "unknown",
    "": "unknown",
    "529 overloaded_error": "overloaded",
    "429 Too Many Requests": "rate_limited",
    "prompt is too long: 7000 tokens > 6000 maximum": "context_overflow",
    "401 invalid api key": "authentication",
    "500 internal server error": "server_error",
    "fetch failed": "network",
    "fetch failed: connect ECONNREFUSED 127.0.0.1:8080": "network",
    "dial tcp: connection refused": "network",
    "400: the model refused to answer": "content_filter",
    "Request timed out": "timeout",
    "Something else": "other",
}


@pytest.mark.parametrize("text", ERRORS)
def test_error_types(text: str | None) -> None:
    """Error texts become one of a closed set, so no text is ever a label."""
    assert names.error_type(text) == ERRORS[text]


@given(ANY_TEXT)
def test_labels_can_be_encoded(text: str) -> None:
    """A label is never empty, never over its length, and always UTF-8."""
    label = names.label_value(text)
    assert 0 < len(label) <= names.MAX_LABEL_CHARS
    label.encode()
    assert names.error_type(text) in names.ERROR_TYPES


@given(ANY_TEXT)
def test_exemplars_stay_inside_the_limit(text: str) -> None:
    """An exemplar is printable ASCII of at most 64 characters: more, and every scrape fails."""
    value = names.exemplar_value(text)
    assert len(value) <= names.MAX_EXEMPLAR_CHARS
    assert value.isascii()
    assert value.isprintable() or not value


@given(ANY_TEXT)
def test_what_is_shown_cannot_move_the_cursor(text: str) -> None:
    """No control, bidi or line character and no surrogate gets through."""
    shown = names.printable(text)
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c in "\u2028\u2029\u202e\u2066\u200f" for c in shown)
    shown.encode()


@pytest.mark.parametrize("metric", names.METRICS)
def test_metrics_follow_the_conventions(metric: str) -> None:
    """Counters end in _total, no label is called `type`, closed labels are labels, buckets rise."""
    family = names.METRICS[metric]
    assert (family.kind == names.COUNTER) == metric.endswith("_total")
    assert "type" not in family.labels
    assert set(family.closed) <= set(family.labels)
    assert list(family.buckets) == sorted(set(family.buckets))
    assert bool(family.buckets) == (family.kind == names.HISTOGRAM)
    assert family.help
