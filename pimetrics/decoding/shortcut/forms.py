"""Records in the forms that pi writes, cut to the values that are asked for.

A form is a pattern for the whole line. Its groups are the values, as slices; what stands between them is literal. The
slices of a line are joined to a JSON array, the arrays of many lines are decoded by ijson in one go, and events are
built from them by position: a third of the work of decoding objects with all their keys.

That ijson decodes every slice is the proof that the line is JSON and means what the form says: when each slice is one
complete value, the literals between them are structure, and the line is an object with these keys. A slice that is no
complete value (a marker was found inside a string, a line was torn or glued to another) is an error inside the array or
makes its length wrong; then the line is decoded in full. Parts that are not cut out are matched strictly (`grammar`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from pimetrics.decoding import fields
from pimetrics.decoding.fields import MAX_COST_USD, STOP_REASONS, Unknown, time_iso
from pimetrics.events import Call as ToolCall
from pimetrics.events import (
    Entry,
    Event,
    Header,
    Message,
    MessageEnd,
    ModelChanged,
    RunStart,
    ThinkingLevelChanged,
    ToolEnd,
    ToolStart,
    TurnStart,
    Usage,
)

Values = list[Any]
Build = Callable[[Values, Unknown], Event | None]


class Form:
    """One form of a record.

    Attributes:
        kind: The type of the record.
        build: Makes its event from the decoded values; None when a value is odd and must be read in full.
        length: How many values there are.
    """

    __slots__ = ("_match", "build", "kind", "length")

    def __init__(self, kind: str, pattern: bytes, build: Build, before: int = 0) -> None:
        compiled = re.compile(_written(pattern), re.DOTALL)
        self.kind = kind
        self.build = build
        self.length = compiled.groups + before
        self._match = compiled.fullmatch

    def cut(self, line: bytes, at: int = 0, before: tuple[bytes, ...] = ()) -> Cut | None:
        """Return the line as a JSON array of its values (those in `before` first); None when it has another form."""
        found = self._match(line, at)
        return None if found is None else (self, b"[" + b",".join(before + found.groups(b"null")) + b"]")


Cut = tuple[Form, bytes]
"""A form, and the values of a line in it as a JSON array."""


def _written(pattern: bytes) -> bytes:
    """Spell out a pattern: <T> is a text, <N> a count, <C> a cost, <D> a duration, <M> a time."""
    for short, full in _PARTS.items():
        pattern = pattern.replace(short, full)
    return pattern


_PARTS: Final = {
    b"<T>": rb'("[^"]*(?:(?<=\\)"[^"]*)*")',
    b"<N>": rb"([0-9]{1,15})",
    b"<C>": rb"([0-9][0-9.eE+-]*)",
    b"<D>": rb"([0-9]{1,11}(?:\.[0-9]{1,9})?)",
    b"<M>": rb"([0-9]{13})",
    b"<STAMP>": rb'(?:,"receivedAt":([0-9]{13}))?',
}
"""What has its full range of digits is a valid count, cost part, duration or time, so nothing is left to check."""

_ENTRY: Final = rb'"id":<T>,"parentId":(null|"[^"]*"),"timestamp":<T>'
_USAGE: Final = (
    rb'\{"input":<N>,"output":<N>,"cacheRead":<N>,"cacheWrite":<N>,(?:"reasoning":<N>,)?"totalTokens":(?:0|[1-9][0-9]*),'
    rb'"cost":\{"input":<C>,"output":<C>,"cacheRead":<C>,"cacheWrite":<C>,"total":<C>'
    rb'(?:,"totalFromProvider":(?:true|false))?\}(?:,"cacheWrite1h":<N>)?(?:,"reasoning":<N>)?\}'
)
_BODIES: Final = {
    b"assistant": (
        rb',"content":(\[.*\]),"api":<T>,"provider":<T>,"model":<T>,"usage":%b,"stopReason":<T>,"timestamp":<M>'
        rb'(?:,"responseId":<T>)?(?:,"errorMessage":<T>)?(?:,"rawStopReason":"[A-Za-z_]*")?(?:,"durationMs":<D>)?'
        rb'(?:,"thinkingLevel":<T>)?\}<STAMP>\}' % _USAGE
    ),
    b"toolResult": (
        rb',"toolCallId":<T>,"toolName":<T>,"content":(\[.*\])(?:,"details":(\{.*\}))?,"isError":(true|false)'
        rb'(?:,"durationMs":<D>)?,"timestamp":<M>\}<STAMP>\}'
    ),
    b"user": rb',"content":(\[.*\]),"timestamp":<M>\}<STAMP>\}',
    b"system": (rb',"content":<T>,"sections":(\{.*\}),"timestamp":<M>(?:,"toolsAdded":(\[.*\]))?\}<STAMP>\}'),
}
"""Role of a message to how it goes on after its role."""


def _assistant(values: Values, unknown: Unknown, entry: Entry | None = None) -> MessageEnd | None:
    (
        content, api, provider, model,
        read, output, cache_read, cache_write, reasoning, cost_input, cost_output, cost_read, cost_write, cost,
        cache_write_1h, reasoning_last,
        stop_reason, timestamp, response_id, error, duration_ms, thinking_level, received,
    ) = values  # fmt: skip
    if max(cost, cost_input, cost_output, cost_read, cost_write) > MAX_COST_USD:
        return None
    total = float(cost)
    usage = Usage(
        read,
        output,
        cache_read,
        cache_write,
        cache_write_1h,
        reasoning if reasoning_last is None else reasoning_last,
        total,
        float(cost_input),
        float(cost_output),
        float(cost_read),
        float(cost_write),
        total,
        False,  # noqa: FBT003  a valid cost
    )
    content_bytes, _, calls = fields.content(content)
    if stop_reason not in STOP_REASONS:
        unknown["stop_reason"] += 1
    return MessageEnd(
        Message(
            "assistant",
            timestamp,
            provider,
            model,
            None,
            response_id,
            api,
            stop_reason,
            thinking_level,
            error,
            duration_ms,
            usage,
            calls,
            None,
            None,
            False,  # noqa: FBT003  no tool result
            "",
            content_bytes,
        ),
        received,
        entry,
    )


def _tool_result(values: Values, _unknown: Unknown, entry: Entry | None = None) -> MessageEnd:
    call_id, tool, content, _details, is_error, duration_ms, timestamp, received = values
    content_bytes, last_text, _ = fields.content(content)
    return MessageEnd(
        Message(
            "toolResult",
            timestamp,
            duration_ms=duration_ms,
            tool_call_id=call_id,
            tool=tool,
            is_error=is_error,
            last_text=last_text,
            content_bytes=content_bytes,
        ),
        received,
        entry,
    )


def _user(values: Values, _unknown: Unknown, entry: Entry | None = None) -> MessageEnd:
    content, timestamp, received = values
    size = fields.content(content)[0]
    return MessageEnd(
        Message("user", timestamp, content_bytes=size, content_hash=fields.content_hash(content)), received, entry
    )


def _system(values: Values, _unknown: Unknown, entry: Entry | None = None) -> MessageEnd:
    content, _sections, timestamp, _tools, received = values
    return MessageEnd(Message("system", timestamp, content_bytes=fields.size(content)), received, entry)


_BUILDERS: Final[dict[bytes, Callable[..., MessageEnd | None]]] = {
    b"assistant": _assistant,
    b"toolResult": _tool_result,
    b"user": _user,
    b"system": _system,
}


def _in_entry(build: Callable[..., MessageEnd | None]) -> Build:
    """Build a message whose values stand behind those of its entry."""

    def built(values: Values, unknown: Unknown) -> Event | None:
        return build(values[3:], unknown, Entry(values[0], values[1], time_iso(values[2])))

    return built


_END_START: Final = b'{"type":"message_end","message":{"role":"'
_ENDS: Final = {role: Form("message_end", body, _BUILDERS[role]) for role, body in _BODIES.items()}
_ENTRY_START: Final = re.compile(_written(rb'\{"type":"message",%b,"message":\{"role":"([a-zA-Z]+)"' % _ENTRY))
_ENTRIES: Final = {role: Form("message", body, _in_entry(_BUILDERS[role]), before=3) for role, body in _BODIES.items()}


def message_end(line: bytes) -> Cut | None:
    """Cut a `message_end` record."""
    at = len(_END_START)
    end = line.find(b'"', at, at + 20) if line.startswith(_END_START) else -1
    form = _ENDS.get(line[at:end]) if end > 0 else None
    return None if form is None else form.cut(line, end + 1)


def entry_message(line: bytes) -> Cut | None:
    """Cut a `message` entry of a session file."""
    start = _ENTRY_START.match(line)
    if start is None:
        return None
    *entry, role = start.groups()
    form = _ENTRIES.get(role)
    return None if form is None else form.cut(line, start.end(), tuple(entry))


def _header(values: Values, _unknown: Unknown) -> Event:
    version, session_id, when, cwd, parent = values
    return Header(session_id, cwd, time_iso(when), version, parent)


def _model_change(values: Values, _unknown: Unknown) -> Event:
    entry_id, parent, when, provider, model = values
    return ModelChanged(provider, model, Entry(entry_id, parent, time_iso(when)))


def _thinking(values: Values, _unknown: Unknown) -> Event:
    entry_id, parent, when, level = values
    return ThinkingLevelChanged(level, Entry(entry_id, parent, time_iso(when)))


def _tool_start(values: Values, _unknown: Unknown) -> Event:
    call_id, tool, args, received = values
    return ToolStart(ToolCall(call_id, tool, fields.args_bytes(args)), None, received)


def _tool_end(values: Values, _unknown: Unknown) -> Event:
    call_id, tool, result, is_error, duration_ms, received = values
    total, last, _ = fields.content(result.get("content"))
    return ToolEnd(call_id, tool, is_error, last, duration_ms, total, None, received)


FORMS: Final = {
    kind.encode(): Form(kind, rb'\{"type":"%b"' % kind.encode() + rest, build)
    for kind, rest, build in (
        ("session", rb',"version":<N>,"id":<T>,"timestamp":<T>,"cwd":<T>(?:,"parentSession":<T>)?\}', _header),
        ("model_change", rb',%b,"provider":<T>,"modelId":<T>\}' % _ENTRY, _model_change),
        ("thinking_level_change", rb',%b,"thinkingLevel":<T>\}' % _ENTRY, _thinking),
        ("agent_start", rb"<STAMP>\}", lambda values, _unknown: RunStart(values[0])),
        ("turn_start", rb"<STAMP>\}", lambda values, _unknown: TurnStart(values[0])),
        ("tool_execution_start", rb',"toolCallId":<T>,"toolName":<T>,"args":(\{.*\})<STAMP>\}', _tool_start),
        (
            "tool_execution_end",
            rb',"toolCallId":<T>,"toolName":<T>,"result":(\{.*\}),"isError":(true|false)(?:,"durationMs":<D>)?<STAMP>\}',
            _tool_end,
        ),
    )
}
"""Type of a record to its form; messages have one a role."""
