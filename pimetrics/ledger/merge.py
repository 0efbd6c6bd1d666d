"""What several sources know of one fact, made one.

Sources know different things: a session file has no reason of a compaction and no time to first token; a stream has no
entry time and no branch. The merge goes column by column and is commutative, associative and idempotent, so reading
order never matters:

- what is known beats null;
- columns that belong together (a duration and its source) go together, the better source first;
- an outcome that is known beats `unfinished`; `retried` beats the `error` that a file shows for the same turn;
- between two different values that are equally good, the smaller one. (Taking the value and not the source's name keeps
  the result the same when files are renamed or copied.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Values = dict[str, Any]
Rank = Callable[[tuple[Any, ...]], tuple[Any, ...]]


def _order(*best_first: str | None) -> dict[Any, int]:
    return {name: index for index, name in enumerate(best_first)}


_TIME: Final = _order("message", "entry", "arrival", "anchor", None)
_DURATION: Final = _order("reported", "arrival", "entry", None)
_OUTCOME: Final = _order("retried", "aborted", "exhausted", "failed", "success", "ok", "error", "unfinished", None)
_ORIGIN: Final = _order("session_file", "rpc", "stream", None)


def _sortable(value: Any) -> tuple[Any, ...]:
    return (value is None, "" if value is None else value)


def _largest(value: float | None) -> tuple[Any, ...]:
    return (value is None, -(value or 0))


def _length(value: float | None, source: str | None) -> tuple[Any, ...]:
    # A prompt in a file lasts until its last entry so far, so a file that has grown (or that was forked) knows more.
    return _largest(value) if source == "entry" else _sortable(value)


_TOGETHER: Final[dict[str, tuple[tuple[str, ...], Rank]]] = {
    "time": (("time", "time_source"), lambda v: (_TIME.get(v[1], 9), _sortable(v[0]))),
    "duration_s": (("duration_s", "duration_source"), lambda v: (_DURATION.get(v[1], 9), _length(*v))),
    "provider": (("provider", "model", "response_model"), lambda v: tuple(_sortable(each) for each in v)),
    "outcome": (("outcome",), lambda v: (_OUTCOME.get(v[0], 9),)),
    "origin": (("origin",), lambda v: (_ORIGIN.get(v[0], 9),)),
    "named_at": (("named_at", "name"), lambda v: (*_largest(v[0]), *_sortable(v[1]))),
    "first_time": (("first_time",), lambda v: _sortable(v[0])),
    "last_time": (("last_time",), lambda v: _largest(v[0])),
    "turns": (("turns",), lambda v: _largest(v[0])),
    "runs": (("runs",), lambda v: _largest(v[0])),
}
"""First column of a group to (the columns that go together, smaller is better)."""

# Of two views of an answer that was cut off, the later one reports more. (Of settled ones all views are equal.)
_GROWING: Final = frozenset(
    {
        "total_tokens", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens",
        "cache_write_1h_tokens", "cost_usd", "cost_input_usd", "cost_output_usd", "cost_cache_read_usd",
        "cost_cache_write_usd", "cost_reported_usd",
    }
)  # fmt: skip

_MEMBERS: Final = frozenset(name for first, (names, _) in _TOGETHER.items() for name in names if name != first)


def merge(known: Values, news: Values) -> bool:
    """Add what `news` knows to `known`; return whether that changed anything."""
    if known == news:
        return False
    changed = False
    for name, value in news.items():
        if name in _MEMBERS:
            continue
        group = _TOGETHER.get(name)
        if group is None:
            old = known.get(name)
            if old is None or (value is not None and (value > old if name in _GROWING else value < old)):
                changed = changed or value is not None
                known[name] = value
            continue
        names, rank = group
        ours = tuple(known.get(each) for each in names)
        theirs = tuple(news.get(each) for each in names)
        if ours != theirs and rank(theirs) < rank(ours):
            known.update(zip(names, theirs, strict=True))
            changed = True
    return changed
