"""Records in the forms that pi writes, cut to the values that are asked for.

A form is a pattern for the whole line. Its groups are the values, as slices; what stands between them is literal. The
slices of a line are joined to a JSON array, the arrays of many lines are decoded by ijson in one go, and events are
built from them by position: a third of the work of decoding objects with all their keys.

That ijson decodes every slice is the proof that the line is JSON and means what the form says: when each slice is one
complete value, the literals between them are structure, and the line is an object with these keys. A slice that is no
complete value (a marker was found inside a string, a line was torn or glued to another) is an error inside the array or
makes its length wrong; then the line is decoded in full. That holds because at most one slice of a line can be anything
but one token: two could make good each other's faults. Parts that are not cut out are matched strictly. Content is laid
flat (`contents`), without its long texts, but for those of a failed tool result, whose last words are asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from pimetrics.decoding import fields
from pimetrics.decoding.fields import MAX_COST_USD, STOP_REASONS, Unknown, time_iso
from pimetrics.decoding.shortcut import contents
from pimetrics.decoding.shortcut.grammar import DETAILS
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
"""Takes the decoded values, and what is unknown so far."""


class Form:
    """One form of a record.

    Attributes:
        kind: The type of the record.
        build: Makes its event from the decoded values; None when a value is odd and must be read in full.
        length: How many values there are.
    """

    __slots__ = ("_answer", "_content", "_failed", "_match", "build", "kind", "length")

    def __init__(self, kind: str, pattern: bytes, build: Build) -> None:
        for short, full in _PARTS.items():
            pattern = pattern.replace(short, full)
        compiled = re.compile(rb'\{"type":"%b"%b' % (kind.encode(), pattern), re.DOTALL)
        self.kind = kind
        self.build = build
        self.length = compiled.groups + (contents.VALUES - 1 if "content" in compiled.groupindex else 0)
        self._content = compiled.groupindex.get("content", 0) - 1
        self._failed = compiled.groupindex.get("failed", 0) - 1
        self._answer = b'"role":"assistant"' in pattern
        self._match = compiled.fullmatch

    def cut(self, line: bytes) -> Cut | None:
        """Return the values of a line; None when it has another form."""
        found = self._match(line)
        if found is None:
            return None
        at = self._content
        if at < 0:
            return self, b",".join(found.groups(b"null"))
        values = list(found.groups(b"null"))
        # Of an answer only sizes are asked for, and of a result that is none of a failed tool.
        sizes_only = self._answer or (self._failed >= 0 and values[self._failed] == b"false")
        values[at] = contents.lay_flat(values[at], answer=self._answer, sizes_only=sizes_only)
        return self, b",".join(values)


Cut = tuple[Form, bytes]
"""A form, and the values of a line in it (the inside of a JSON array)."""

_PARTS: Final = {
    b"<T>": rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")',
    b"<I>": rb'("[^"]*(?<!\\)")',
    b"<N>": rb"([0-9]{1,15})",
    b"<C>": rb"([0-9][0-9.eE+-]*)",
    b"<D>": rb"([0-9]{1,11}(?:\.[0-9]{1,9})?)",
    b"<M>": rb"([0-9]{13})",
    b"<STAMP>": rb'(?:,"receivedAt":([0-9]{13}))?',
}
"""How a pattern is written: <T> is a text, <I> a name without quotes in it, <N> a count, <C> a cost, <D> a duration,
<M> a time. The digits that they may have are those of a valid count, duration or time, so nothing is left to check."""

_ENTRY: Final = rb'"id":<I>,"parentId":(null|"[^"]*(?<!\\)"),"timestamp":<I>'
_USAGE: Final = (
    rb'\{"input":<N>,"output":<N>,"cacheRead":<N>,"cacheWrite":<N>,(?:"reasoning":<N>,)?"totalTokens":(?:0|[1-9][0-9]*),'
    rb'"cost":\{"input":<C>,"output":<C>,"cacheRead":<C>,"cacheWrite":<C>,"total":<C>'
    rb'(?:,"totalFromProvider":(?:true|false))?\}(?:,"cacheWrite1h":<N>)?(?:,"reasoning":<N>)?\}'
)
_BODIES: Final = {
    b"assistant": (
        rb',"content":(?P<content>\[.*\]),"api":<I>,"provider":<I>,"model":<I>,"usage":%b,"stopReason":<I>,"timestamp":<M>'
        rb'(?:,"responseId":<I>)?(?:,"errorMessage":<T>)?(?:,"rawStopReason":"[A-Za-z_]*")?(?:,"durationMs":<D>)?'
        rb'(?:,"thinkingLevel":<I>)?\}<STAMP>\}' % _USAGE
    ),
    b"toolResult": (
        rb',"toolCallId":<I>,"toolName":<I>,"content":(?P<content>\[.*\])(?:,"details":%b)?,"isError":(?P<failed>true|false)'
        rb'(?:,"durationMs":<D>)?,"timestamp":<M>\}<STAMP>\}' % DETAILS
    ),
    b"user": rb',"content":(?P<content>\[.*\]),"timestamp":<M>\}<STAMP>\}',
    b"system": (rb',"content":<T>,"sections":%b,"timestamp":<M>(?:,"toolsAdded":(\[.*\]))?\}<STAMP>\}' % DETAILS),
}
"""Role of a message to how it goes on after its role."""


_new: Final = tuple.__new__
"""Makes a named tuple of all its fields: a third of the time that its constructor takes, and one is made a line."""


def _assistant(values: Values, unknown: Unknown, entry: Entry | None = None) -> MessageEnd | None:
    (
        more, texts, calls, _, api, provider, model,
        read, output, cache_read, cache_write, reasoning, cost_input, cost_output, cost_read, cost_write, cost,
        cache_write_1h, reasoning_last,
        stop_reason, timestamp, response_id, error, duration_ms, thinking_level, received,
    ) = values  # fmt: skip
    if max(cost, cost_input, cost_output, cost_read, cost_write) > MAX_COST_USD:
        return None
    if stop_reason not in STOP_REASONS:
        unknown["stop_reason"] += 1
    content_bytes, _, made = contents.read(more, texts, calls)
    total = float(cost)
    usage = _new(
        Usage,
        (
            read, output, cache_read, cache_write, cache_write_1h,
            reasoning if reasoning_last is None else reasoning_last,
            total, float(cost_input), float(cost_output), float(cost_read), float(cost_write), total, False,
        ),
    )  # fmt: skip
    message = _new(
        Message,
        (
            "assistant", timestamp, provider, model, None, response_id, api, stop_reason, thinking_level, error,
            duration_ms, usage, made, None, None, False, "", content_bytes, None, None,
        ),
    )  # fmt: skip
    return _new(MessageEnd, (message, received, entry))


def _tool_result(values: Values, _unknown: Unknown, entry: Entry | None = None) -> MessageEnd:
    call_id, tool, more, texts, calls, _, is_error, duration_ms, timestamp, received = values
    content_bytes, last_text, _ = contents.read(more, texts, calls)
    message = _new(
        Message,
        (
            "toolResult", timestamp, None, None, None, None, None, None, None, None,
            duration_ms, None, (), call_id, tool, is_error, last_text if is_error else "",
            content_bytes, None, None,
        ),
    )  # fmt: skip
    return _new(MessageEnd, (message, received, entry))


def _user(values: Values, _unknown: Unknown, entry: Entry | None = None) -> MessageEnd:
    more, texts, calls, _, timestamp, received = values
    message = _new(
        Message,
        (
            "user", timestamp, None, None, None, None, None, None, None, None, None, None, (), None, None, False, "",
            contents.read(more, texts, calls)[0], None, contents.content_hash(more, texts),
        ),
    )  # fmt: skip
    return _new(MessageEnd, (message, received, entry))


def _system(values: Values, _unknown: Unknown, entry: Entry | None = None) -> MessageEnd:
    content, timestamp, _tools, received = values
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
        return build(values[3:], unknown, _new(Entry, (values[0], values[1], time_iso(values[2]))))

    return built


_ENDS: Final = {
    role: Form("message_end", rb',"message":\{"role":"%b"%b' % (role, body), _BUILDERS[role])
    for role, body in _BODIES.items()
}
_ENTRIES: Final = {
    role: Form("message", rb',%b,"message":\{"role":"%b"%b' % (_ENTRY, role, body), _in_entry(_BUILDERS[role]))
    for role, body in _BODIES.items()
}
_ROLE: Final = b',"message":{"role":"'


def message_end(line: bytes) -> Cut | None:
    """Cut a `message_end` record."""
    form = _ENDS.get(line[_ROLE_AT : line.find(b'"', _ROLE_AT, _ROLE_AT + 20)])
    return None if form is None else form.cut(line)


_ROLE_AT: Final = len(b'{"type":"message_end"' + _ROLE)


def message_entry(line: bytes) -> Cut | None:
    """Cut a `message` entry of a session file."""
    at = line.find(_ROLE, 20, 400) + len(_ROLE)
    form = _ENTRIES.get(line[at : line.find(b'"', at, at + 20)])
    return None if form is None else form.cut(line)


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
    return ToolEnd(call_id, tool, is_error, last if is_error else "", duration_ms, total, None, received)


FORMS: Final = {
    kind: Form(kind, rest, build)
    for kind, rest, build in (
        ("session", rb',"version":<N>,"id":<I>,"timestamp":<I>,"cwd":<T>(?:,"parentSession":<T>)?\}', _header),
        ("model_change", rb',%b,"provider":<I>,"modelId":<I>\}' % _ENTRY, _model_change),
        ("thinking_level_change", rb',%b,"thinkingLevel":<I>\}' % _ENTRY, _thinking),
        ("agent_start", rb"<STAMP>\}", lambda values, _unknown: RunStart(values[0])),
        ("turn_start", rb"<STAMP>\}", lambda values, _unknown: TurnStart(values[0])),
        ("tool_execution_start", rb',"toolCallId":<I>,"toolName":<I>,"args":(\{.*\})<STAMP>\}', _tool_start),
        (
            "tool_execution_end",
            rb',"toolCallId":<I>,"toolName":<I>,"result":(\{.*\}),"isError":(true|false)(?:,"durationMs":<D>)?<STAMP>\}',
            _tool_end,
        ),
    )
}
"""Type of a record to its form; messages have one a role."""
