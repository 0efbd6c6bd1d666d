"""Reads pi's objects into events' parts, and counts what it does not know or cannot take.

Nothing here raises on odd input: a value of the wrong type is counted as an unknown `field` and is absent from then on;
an unlisted role or stop reason is counted and kept as it is. Units stay pi's (ms, USD).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from datetime import UTC, datetime
from hashlib import blake2b
from json.encoder import encode_basestring
from sys import intern
from typing import Any, Final

from pimetrics.events import Call, Entry, Message, Usage

MAX_COUNT: Final = 2**53 - 1
"""Largest token count or size: JavaScript's safe integers. Anything above is no count."""

MAX_COST_USD: Final = 1e9
"""Largest cost of one call; anything above (or infinite) is a fault of the writer, not a bill."""

MAX_TIME_MS: Final = 253_402_300_799_999
"""9999-12-31, the last day that `datetime` and Parquet readers agree on."""

MIN_TIME_MS: Final = 946_684_800_000
"""2000-01-01. What lies before is no time of pi's: seconds where milliseconds belong, or a clock that was never set."""

MAX_DURATION_MS: Final = 10 * 365 * 86_400_000

ROLES: Final = frozenset(
    {
        "user", "assistant", "toolResult", "system", "custom", "bashExecution", "branchSummary", "compactionSummary",
        "hookMessage",
    }
)  # fmt: skip
STOP_REASONS: Final = frozenset({"pending", "stop", "length", "toolUse", "error", "aborted", "deferred"})

_MESSAGE_FIELDS: Final = frozenset(
    {
        "role", "content", "api", "provider", "model", "responseModel", "responseId", "providerThinkingLevel",
        "thinkingLevel", "diagnostics", "usage", "stopReason", "deferred", "errorMessage", "rawStopReason", "endTurn",
        "timestamp", "durationMs", "toolCallId", "toolName", "details", "nestedCalls", "isError", "customType",
        "display", "sections", "toolsAdded", "toolsRemoved", "toolsReplaced", "command", "output", "exitCode",
        "cancelled", "truncated", "fullOutputPath", "excludeFromContext", "summary", "fromId", "tokensBefore",
    }
)  # fmt: skip
_USAGE_FIELDS: Final = frozenset(
    {"input", "output", "cacheRead", "cacheWrite", "cacheWrite1h", "reasoning", "totalTokens", "cost"}
)
_COST_FIELDS: Final = frozenset({"input", "output", "cacheRead", "cacheWrite", "total", "totalFromProvider"})

Unknown = Counter[str]


def text(value: Any) -> str | None:
    """Return a string, or None for anything else."""
    return value if type(value) is str else None


def named(value: Any) -> str | None:
    """Return a string that many records share, kept once however many hold it; None for anything else."""
    return intern(value) if type(value) is str else None


def flag(value: Any) -> bool | None:
    """Return a boolean, or None for anything else."""
    return value if type(value) is bool else None


def count(value: Any, unknown: Unknown) -> int | None:
    """Return a non-negative whole number, or None (counted unless it was just absent)."""
    if type(value) is int and 0 <= value <= MAX_COUNT:
        return value
    if value is None:
        return None
    if type(value) is float and 0 <= value <= MAX_COUNT and value.is_integer():
        return int(value)
    unknown["field"] += 1
    return None


def duration(value: Any, unknown: Unknown) -> float | None:
    """Return a length of time in ms, or None (counted unless it was just absent)."""
    if (type(value) is int or type(value) is float) and 0 <= value <= MAX_DURATION_MS:
        return value
    if value is not None:
        unknown["field"] += 1
    return None


def time_ms(value: Any) -> int | None:
    """Return epoch ms from a number, or None for anything that is no time."""
    if (type(value) is int or type(value) is float) and MIN_TIME_MS <= value <= MAX_TIME_MS:
        return int(value)
    return None


def time_iso(value: Any) -> int | None:
    """Return epoch ms from an ISO 8601 text (session headers and entries), or None."""
    if type(value) is not str:
        return time_ms(value)
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    found = round(when.timestamp() * 1000)
    return found if MIN_TIME_MS <= found <= MAX_TIME_MS else None


def size(value: str) -> int:
    """Return the UTF-8 size of a text in bytes."""
    return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))


def entry(raw: dict[str, Any]) -> Entry:
    """Read the frame of a session-file entry."""
    return Entry(text(raw.get("id")), text(raw.get("parentId")), time_iso(raw.get("timestamp")))


def usage(raw: Any, unknown: Unknown) -> Usage | None:
    """Read a `usage` object; None when it is absent or holds no number at all."""
    if type(raw) is not dict:
        if raw is not None:
            unknown["field"] += 1
        return None
    if not raw.keys() <= _USAGE_FIELDS:
        unknown["field"] += len(raw.keys() - _USAGE_FIELDS)
    cost = raw.get("cost")
    if type(cost) is not dict:
        if cost is not None:
            unknown["field"] += 1
        cost = {}
    elif not cost.keys() <= _COST_FIELDS:
        unknown["field"] += len(cost.keys() - _COST_FIELDS)
    total, reported, invalid = _cost(cost.get("total"), unknown)
    found = Usage(
        count(raw.get("input"), unknown),
        count(raw.get("output"), unknown),
        count(raw.get("cacheRead"), unknown),
        count(raw.get("cacheWrite"), unknown),
        count(raw.get("cacheWrite1h"), unknown),
        count(raw.get("reasoning"), unknown),
        total,
        _cost(cost.get("input"), unknown)[0],
        _cost(cost.get("output"), unknown)[0],
        _cost(cost.get("cacheRead"), unknown)[0],
        _cost(cost.get("cacheWrite"), unknown)[0],
        reported,
        invalid,
    )
    if found[:12] == _NO_NUMBER and not invalid and not _holds_a_number(raw, cost):
        return None
    return found


_NO_NUMBER: Final = (None,) * 12


def _holds_a_number(raw: dict[str, Any], cost: dict[str, Any]) -> bool:
    """Whether a usage object without a valid part holds a number all the same (a negative one, a total)."""
    return any(type(value) is int or type(value) is float for value in (*raw.values(), *cost.values()))


def _cost(value: Any, unknown: Unknown) -> tuple[float | None, float | None, bool]:
    """Return (cost that counts, cost as reported, whether it is a number that cannot be a cost)."""
    if type(value) is float or type(value) is int:
        if 0 <= value <= MAX_COST_USD:
            return float(value), float(value), False
        try:
            reported = float(value)
        except OverflowError:
            reported = math.inf
        return None, reported if abs(reported) < 1e300 else None, True
    if value is not None:
        unknown["field"] += 1
    return None, None, False


def args_bytes(value: Any) -> int | None:
    """Return the UTF-8 size of a tool's arguments as compact JSON, or None when there are none."""
    if value is None:
        return None
    try:
        return _compact_size(value)
    except RecursionError:
        return None  # a thousand levels deep: nobody's arguments, and no reason to lose the call


def _compact_size(value: Any) -> int:
    # Most arguments are an object of a few texts: a fifth of the time of encoding it to measure it.
    if type(value) is str:
        return size(encode_basestring(value))
    if type(value) is dict and value:
        return 1 + sum([size(encode_basestring(key)) + 2 + _compact_size(each) for key, each in value.items()])
    if type(value) is list and value:
        return 1 + sum([1 + _compact_size(each) for each in value])
    return size(json.dumps(value))  # a number, a word, or empty: ASCII in any style


def content(raw: Any) -> tuple[int, str, tuple[Call, ...]]:
    """Read a message's or result's content: (bytes of texts and images, the last text, the tool calls in it)."""
    if type(raw) is str:
        return size(raw), raw, ()
    if type(raw) is not list:
        return 0, "", ()
    total = 0
    last = ""
    calls: tuple[Call, ...] = ()
    for block in raw:
        if type(block) is not dict:
            continue
        kind = block.get("type")
        if kind == "toolCall":
            call_id, name = block.get("id"), named(block.get("name"))
            if type(call_id) is str:
                calls += (Call(call_id, name or "", args_bytes(block.get("arguments"))),)
            continue
        body = block.get("text" if kind == "text" else "thinking" if kind == "thinking" else "data")
        if type(body) is str:
            total += len(body) if body.isascii() else size(body)
            if kind == "text":
                last = body
    return total, last[-200:], calls


def _odd(value: Any) -> str | None:
    """Return a timestamp that is no time as text, to tell messages apart by it; None when there is none."""
    return None if value is None or type(value) in {dict, list} else f"{value!r:.200}"


def message(raw: Any, unknown: Unknown) -> Message | None:
    """Read a message of any role; None when it is no object."""
    if type(raw) is not dict:
        unknown["field"] += 1
        return None
    role = named(raw.get("role"))
    if role is None or role not in ROLES:
        unknown["role"] += 1
        role = "unknown" if role is None else role
    if not raw.keys() <= _MESSAGE_FIELDS:
        unknown["field"] += len(raw.keys() - _MESSAGE_FIELDS)
    content_bytes, last_text, calls = content(raw.get("content"))
    timestamp = time_ms(raw.get("timestamp"))
    odd = None if timestamp is not None else _odd(raw.get("timestamp"))
    if role == "assistant":
        stop_reason = named(raw.get("stopReason"))
        if stop_reason is not None and stop_reason not in STOP_REASONS:
            unknown["stop_reason"] += 1
        return Message(
            role,
            timestamp,
            provider=named(raw.get("provider")),
            model=named(raw.get("model")),
            response_model=named(raw.get("responseModel")),
            response_id=text(raw.get("responseId")),
            api=named(raw.get("api")),
            stop_reason=stop_reason,
            thinking_level=named(raw.get("thinkingLevel")),
            error=text(raw.get("errorMessage")),
            duration_ms=duration(raw.get("durationMs"), unknown),
            usage=usage(raw.get("usage"), unknown),
            calls=calls,
            content_bytes=content_bytes,
            odd_timestamp=odd,
        )
    if role == "toolResult":
        return Message(
            role,
            timestamp,
            duration_ms=duration(raw.get("durationMs"), unknown),
            usage=usage(raw.get("usage"), unknown),
            calls=_nested(raw.get("nestedCalls"), unknown),
            tool_call_id=text(raw.get("toolCallId")),
            tool=named(raw.get("toolName")),
            is_error=raw.get("isError") is True,
            last_text=last_text if raw.get("isError") is True else "",
            content_bytes=content_bytes,
            odd_timestamp=odd,
        )
    return Message(
        role,
        timestamp,
        content_bytes=content_bytes,
        odd_timestamp=odd,
        content_hash=content_hash(raw.get("content")) if role == "user" else None,
    )


def content_hash(content: Any) -> str:
    """Return a stable hash of a message's texts, which themselves are never kept."""
    return blake2b(_texts(content).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _texts(content: Any) -> str:
    """Return the texts of a message's content, one after the other, however they are wrapped."""
    if type(content) is str:
        return content
    if type(content) is not list:
        return ""
    blocks = (block.get("text") for block in content if type(block) is dict)
    return "\n".join(each for each in blocks if type(each) is str)


def _nested(raw: Any, unknown: Unknown) -> tuple[Call, ...]:
    """Read `nestedCalls` of a tool result: calls that the tool itself made (from pi 1.5)."""
    calls = raw.get("calls") if type(raw) is dict else None
    if type(calls) is not list:
        return ()
    found = []
    for each in calls:
        call_id = text(each.get("id")) if type(each) is dict else None
        if call_id is None:
            unknown["field"] += 1
            continue
        given = each.get("argumentsBytes")
        found.append(
            Call(
                call_id,
                named(each.get("name")) or "",
                count(given, unknown) if given is not None else args_bytes(each.get("arguments")),
                text(each.get("status")),
                duration(each.get("durationMs"), unknown),
            )
        )
    return tuple(found)
