"""Entries of session files (versions 1 to 3), and those that a stream shows in `entry_appended`, to events.

In a file every entry has its place in the tree. In a stream an entry is shown after the fact: its tree is not the
stream's, so only what stands nowhere else in the stream is taken from it (paid work without a message).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pimetrics.decoding import fields
from pimetrics.decoding.stream import summary_hash
from pimetrics.events import (
    CompactionEnd,
    CompactionShown,
    Event,
    Message,
    MessageEnd,
    ModelChanged,
    SessionNamed,
    ThinkingLevelChanged,
    TreeEntry,
    UsageEntry,
)

Raw = dict[str, Any]
Unknown = fields.Unknown
Reader = Callable[[Raw, Unknown, int | None], Event | None]


def _message(raw: Raw, unknown: Unknown, received: int | None) -> Event:
    body = fields.message(raw.get("message"), unknown)
    frame = fields.entry(raw)
    return TreeEntry(frame) if body is None else MessageEnd(body, received, frame)


def _custom_message(raw: Raw, _unknown: Unknown, received: int | None) -> Event:
    # In the stream it is a message of role custom whose timestamp is this entry's.
    frame = fields.entry(raw)
    total, _, _ = fields.content(raw.get("content"))
    return MessageEnd(Message("custom", frame.time, content_bytes=total), received, frame)


def _compaction(raw: Raw, unknown: Unknown, received: int | None) -> Event:
    return CompactionEnd(
        None,
        True,  # noqa: FBT003  only compactions that worked are written to files
        False,  # noqa: FBT003
        None,
        None,
        fields.count(raw.get("tokensBefore"), unknown),
        None,
        summary_hash(raw.get("summary")),
        fields.usage(raw.get("usage"), unknown),
        received,
        fields.entry(raw),
    )


def _branch_summary(raw: Raw, unknown: Unknown, received: int | None) -> Event:
    spent, frame = fields.usage(raw.get("usage"), unknown), fields.entry(raw)
    return UsageEntry("branch_summary", "branch_summary", None, None, spent, frame.time, received, frame)


def _usage(raw: Raw, unknown: Unknown, received: int | None) -> Event:
    kind = fields.text(raw.get("kind")) or "unknown"
    if kind != "cache_warm":
        unknown["usage_kind"] += 1
    frame = fields.entry(raw)
    return UsageEntry(
        "cache_warm" if kind == "cache_warm" else "other",
        kind,
        fields.text(raw.get("provider")),
        fields.text(raw.get("model")),
        fields.usage(raw.get("usage"), unknown),
        frame.time,
        received,
        frame,
    )


def _model_change(raw: Raw, _unknown: Unknown, _received: int | None) -> Event:
    return ModelChanged(fields.text(raw.get("provider")), fields.text(raw.get("modelId")), fields.entry(raw))


def _thinking(raw: Raw, _unknown: Unknown, _received: int | None) -> Event:
    return ThinkingLevelChanged(fields.text(raw.get("thinkingLevel")), fields.entry(raw))


def _session_info(raw: Raw, _unknown: Unknown, _received: int | None) -> Event:
    return SessionNamed(fields.text(raw.get("name")), fields.entry(raw))


def _place(raw: Raw, _unknown: Unknown, _received: int | None) -> Event:
    return TreeEntry(fields.entry(raw))


READERS: Final[dict[str, Reader]] = {
    "message": _message,
    "custom_message": _custom_message,
    "compaction": _compaction,
    "branch_summary": _branch_summary,
    "usage": _usage,
    "model_change": _model_change,
    "thinking_level_change": _thinking,
    "session_info": _session_info,
    "custom": _place,
    "label": _place,
    "context_edit": _place,
}
"""Entry type to what reads it."""

_PAID: Final = frozenset({"usage", "branch_summary", "compaction"})
"""Entries with usage; an extension's compaction has no `compaction_end` (pi 1.6, `_applyBoundaryDrafts`)."""


def appended(raw: Raw, unknown: Unknown, received: int | None) -> Event | None:
    """Read the entry inside an `entry_appended` record of a stream."""
    body = raw.get("entry")
    kind = body.get("type") if type(body) is dict else None
    if type(body) is not dict or type(kind) is not str:
        unknown["entry"] += 1
        return None
    if kind not in READERS:
        unknown["entry"] += 1
        return None
    event = READERS[kind](body, unknown, received) if kind in _PAID else None
    if isinstance(event, CompactionEnd):
        return CompactionShown(event._replace(entry=None))
    return event._replace(entry=None) if isinstance(event, UsageEntry) else None


def place(raw: Raw) -> Event:
    """Read an entry of a type that this version does not know: its place in the tree still counts."""
    return TreeEntry(fields.entry(raw))
