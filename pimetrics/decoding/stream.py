"""Records of the event stream (`pi --mode json` and the events of RPC mode) to events."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Any, Final

from pimetrics.decoding import fields
from pimetrics.events import (
    Call,
    CompactionEnd,
    CompactionStart,
    Event,
    ExtensionError,
    Header,
    Message,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    QueueUpdate,
    RetryEnd,
    RetryStart,
    RunEnd,
    RunStart,
    SessionNamed,
    Settled,
    SummaryRetryFinished,
    SummaryRetryScheduled,
    SummaryRetryStart,
    ThinkingLevelChanged,
    ToolEnd,
    ToolStart,
    TurnEnd,
    TurnStart,
    Usage,
)

Raw = dict[str, Any]
Unknown = fields.Unknown
Reader = Callable[[Raw, Unknown, int | None], Event | None]


def _header(raw: Raw, unknown: Unknown, _received: int | None) -> Event:
    version = fields.count(raw.get("version"), unknown)
    return Header(
        fields.text(raw.get("id")),
        fields.text(raw.get("cwd")),
        fields.time_iso(raw.get("timestamp")),
        1 if version is None else version,  # version 1 files do not name theirs
        fields.text(raw.get("parentSession")),
    )


def _message_start(raw: Raw, _unknown: Unknown, received: int | None) -> Event | None:
    body = raw.get("message")
    if type(body) is not dict or body.get("role") != "assistant":
        return None
    return MessageStart(partial(fields.message, body, Unknown()), received)


def _message_update(raw: Raw, _unknown: Unknown, received: int | None) -> Event:
    step = raw.get("assistantMessageEvent")
    kind = step.get("type") if type(step) is dict else None
    return MessageUpdate(partial(update_usage, raw), type(kind) is str and kind.endswith("_delta"), received)


def update_usage(raw: Raw) -> Usage | None:
    """Return the usage that a `message_update` reports: its own field (from 0.84.2), or its message's before."""
    body = raw.get("usage")
    if body is None and type(raw.get("message")) is dict:
        body = raw["message"].get("usage")
    return fields.usage(body, Unknown())


def _message_end(raw: Raw, unknown: Unknown, received: int | None) -> Event | None:
    body = fields.message(raw.get("message"), unknown)
    return None if body is None else MessageEnd(body, received, None)


def _messages(raw: Any) -> tuple[Message, ...]:
    # Repeats of messages that `message_end` brought: what is unknown in them was counted there.
    if type(raw) is not list:
        return ()
    return tuple(found for each in raw if (found := fields.message(each, Unknown())) is not None)


def _turn_end(raw: Raw, _unknown: Unknown, received: int | None) -> Event:
    return TurnEnd(_messages([raw.get("message")]) + _messages(raw.get("toolResults")), received)


def _agent_end(raw: Raw, _unknown: Unknown, received: int | None) -> Event:
    return RunEnd(_messages(raw.get("messages")), fields.flag(raw.get("willRetry")), received)


def _tool_start(raw: Raw, unknown: Unknown, received: int | None) -> Event | None:
    call_id = fields.text(raw.get("toolCallId"))
    if call_id is None:
        unknown["field"] += 1
        return None
    call = Call(call_id, fields.text(raw.get("toolName")) or "", fields.args_bytes(raw.get("args")))
    return ToolStart(call, fields.text(raw.get("parentToolCallId")), received)


def _tool_end(raw: Raw, unknown: Unknown, received: int | None) -> Event | None:
    call_id = fields.text(raw.get("toolCallId"))
    if call_id is None:
        unknown["field"] += 1
        return None
    result = raw.get("result")
    total, last, _ = fields.content(result.get("content") if type(result) is dict else result)
    return ToolEnd(
        call_id,
        fields.text(raw.get("toolName")) or "",
        raw.get("isError") is True,
        last if raw.get("isError") is True else "",
        fields.duration(raw.get("durationMs"), unknown),
        total,
        fields.text(raw.get("parentToolCallId")),
        received,
    )


def _retry_start(raw: Raw, unknown: Unknown, received: int | None) -> Event:
    return RetryStart(
        fields.count(raw.get("attempt"), unknown),
        fields.count(raw.get("maxAttempts"), unknown),
        fields.duration(raw.get("delayMs"), unknown),
        fields.text(raw.get("errorMessage")),
        received,
    )


def _retry_end(raw: Raw, _unknown: Unknown, received: int | None) -> Event:
    return RetryEnd(raw.get("success") is True, fields.text(raw.get("finalError")), received)


def _summary_retry(raw: Raw, unknown: Unknown, received: int | None) -> Event:
    return SummaryRetryScheduled(
        fields.count(raw.get("attempt"), unknown),
        fields.count(raw.get("maxAttempts"), unknown),
        fields.duration(raw.get("delayMs"), unknown),
        fields.text(raw.get("errorMessage")),
        received,
    )


def _summary_retry_start(raw: Raw, _unknown: Unknown, _received: int | None) -> Event:
    source = raw.get("source")
    return SummaryRetryStart({"compaction": "compaction", "branchSummary": "branch_summary"}.get(str(source)))


def _compaction_start(raw: Raw, _unknown: Unknown, received: int | None) -> Event:
    return CompactionStart(fields.text(raw.get("reason")), received)


def summary_hash(summary: Any) -> str | None:
    """Return a stable hash of a summary, which is content and is never kept."""
    if type(summary) is not str:
        return None
    return blake2b(summary.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _compaction_end(raw: Raw, unknown: Unknown, received: int | None) -> Event:
    result = raw.get("result")
    done = type(result) is dict
    body: Raw = result if type(result) is dict else {}
    return CompactionEnd(
        fields.text(raw.get("reason")),
        done,
        raw.get("aborted") is True,
        fields.flag(raw.get("willRetry")),
        fields.text(raw.get("errorMessage")),
        fields.count(body.get("tokensBefore"), unknown),
        fields.count(body.get("estimatedTokensAfter"), unknown),
        summary_hash(body.get("summary")),
        fields.usage(body.get("usage"), unknown),
        received,
        None,
    )


def _queue_update(raw: Raw, _unknown: Unknown, received: int | None) -> Event:
    steering, follow_up = raw.get("steering"), raw.get("followUp")
    return QueueUpdate(
        len(steering) if type(steering) is list else 0, len(follow_up) if type(follow_up) is list else 0, received
    )


READERS: Final[dict[str, Reader]] = {
    "session": _header,
    "message_start": _message_start,
    "message_update": _message_update,
    "message_end": _message_end,
    "agent_start": lambda _raw, _unknown, received: RunStart(received),
    "turn_start": lambda _raw, _unknown, received: TurnStart(received),
    "turn_end": _turn_end,
    "agent_end": _agent_end,
    "agent_settled": lambda raw, _unknown, received: Settled(raw.get("aborted") is True, received),
    "tool_execution_start": _tool_start,
    "tool_execution_update": lambda _raw, _unknown, _received: None,
    "tool_execution_end": _tool_end,
    "auto_retry_start": _retry_start,
    "auto_retry_end": _retry_end,
    "summarization_retry_scheduled": _summary_retry,
    "summarization_retry_attempt_start": _summary_retry_start,
    "summarization_retry_finished": lambda _raw, _unknown, _received: SummaryRetryFinished(),
    "compaction_start": _compaction_start,
    "compaction_end": _compaction_end,
    "auto_compaction_start": _compaction_start,
    "auto_compaction_end": _compaction_end,
    "queue_update": _queue_update,
    "session_info_changed": lambda raw, _unknown, _received: SessionNamed(fields.text(raw.get("name")), None),
    "thinking_level_changed": lambda raw, _unknown, _received: ThinkingLevelChanged(
        fields.text(raw.get("level")), None
    ),
    "bash_execution_update": lambda _raw, _unknown, _received: None,
    "extension_error": lambda _raw, _unknown, _received: ExtensionError(),
}
"""Record type to what reads it; None as a result means: counted, and nothing else to say."""
