"""One vocabulary for what pi writes, whatever the dialect, the mode or the version.

Decoding makes these from records; reducing makes rows from these. Nothing here does any work. Times are epoch
milliseconds as pi writes them, sizes are bytes, money is USD as the double that pi printed. `received_ms` is the
arrival stamp (`receivedAt`) of the record, None where the source was not stamped.

The record types behind each event are those of pi 0.58 to 1.6 (`AgentSessionEvent` in pi's `core/agent-session`,
`SessionEntry` in `core/session-manager`, `Message` in pi-ai's `types`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pimetrics.records import Record, Reject


class Usage(NamedTuple):
    """A `usage` object that held at least one number. A part that is absent or no valid count is None.

    Attributes:
        input: Tokens sent and not cached; pi's `input` excludes cache reads and writes.
        output: Tokens generated, `reasoning` inside.
        cache_write: Tokens written to the cache, `cache_write_1h` inside.
        cost: `cost.total` in USD; None when absent, negative, not finite or beyond any bill.
        cost_reported: `cost.total` as it stands in the record (finite), for the table only.
        cost_invalid: True when `cost.total` is a number that cannot be a cost.
    """

    input: int | None
    output: int | None
    cache_read: int | None
    cache_write: int | None
    cache_write_1h: int | None
    reasoning: int | None
    cost: float | None
    cost_input: float | None
    cost_output: float | None
    cost_cache_read: float | None
    cost_cache_write: float | None
    cost_reported: float | None
    cost_invalid: bool

    @property
    def tokens(self) -> int:
        """The four parts added, absent ones as 0: pi's own total."""
        return (self.input or 0) + (self.output or 0) + (self.cache_read or 0) + (self.cache_write or 0)


class Call(NamedTuple):
    """A `toolCall` block of an assistant message, or a record of `nestedCalls` on a tool result."""

    id: str
    tool: str
    args_bytes: int | None
    status: str | None = None
    duration_ms: float | None = None


class Message(NamedTuple):
    """A message of any role. Fields that its role does not have are None or empty.

    Attributes:
        odd_timestamp: `timestamp` as it stands when it is no time: no use as a time, and still what copies share.
        last_text: The last words of a failed tool result, which say whether it was aborted.
        content_hash: Of a user message, which has nothing but its time to tell it from one sent in the same ms.
    """

    role: str
    timestamp: int | None
    provider: str | None = None
    model: str | None = None
    response_model: str | None = None
    response_id: str | None = None
    api: str | None = None
    stop_reason: str | None = None
    thinking_level: str | None = None
    error: str | None = None
    duration_ms: float | None = None
    usage: Usage | None = None
    calls: tuple[Call, ...] = ()
    tool_call_id: str | None = None
    tool: str | None = None
    is_error: bool = False
    last_text: str = ""
    content_bytes: int = 0
    odd_timestamp: str | None = None
    content_hash: str | None = None

    @property
    def identity(self) -> tuple[object, ...]:
        """What every copy of the message holds verbatim; the name of the message in all keys.

        Not a part of it: entry ids (pi invents new ones when it migrates a file) and the place it stands in.
        """
        return (
            self.role, self.odd_timestamp if self.timestamp is None else self.timestamp, self.provider, self.model,
            self.response_id, self.tool_call_id, self.usage and self.usage[:7], self.content_hash,
        )  # fmt: skip


class Entry(NamedTuple):
    """The frame of a session-file entry. `id` and `parent_id` are None in version 1 files."""

    id: str | None
    parent_id: str | None
    time: int | None


# --- sessions -------------------------------------------------------------------------------------------------------


class Header(NamedTuple):
    """A `session` record: the first line of a stream or session file, and the start of a source."""

    session_id: str | None
    cwd: str | None
    time: int | None
    version: int | None
    parent_session: str | None


class SessionSwitched(NamedTuple):
    """RPC: a fork, clone, new_session or switch_session was answered; the id of the new session comes later."""


class SessionAnswered(NamedTuple):
    """RPC: a response named the current session."""

    session_id: str


class SessionNamed(NamedTuple):
    """`session_info_changed` or a `session_info` entry."""

    name: str | None
    entry: Entry | None


# --- messages -------------------------------------------------------------------------------------------------------


class MessageStart(NamedTuple):
    """An assistant message began; `load` decodes what was known then, when somebody needs it."""

    load: Callable[[], Message | None]
    received_ms: int | None


class MessageUpdate(NamedTuple):
    """A part of an assistant message arrived; `load` decodes the usage that it reported, when somebody needs it."""

    load: Callable[[], Usage | None]
    is_delta: bool
    received_ms: int | None


class MessageEnd(NamedTuple):
    """A message is settled: `message_end` of a stream, or a `message` / `custom_message` entry of a file."""

    message: Message
    received_ms: int | None
    entry: Entry | None


# --- runs and turns -------------------------------------------------------------------------------------------------


class RunStart(NamedTuple):
    """`agent_start`."""

    received_ms: int | None


class TurnStart(NamedTuple):
    """`turn_start`."""

    received_ms: int | None


class TurnEnd(NamedTuple):
    """`turn_end`. `messages` holds those that the decoder could not prove to be repeats."""

    messages: tuple[Message, ...]
    received_ms: int | None


class RunEnd(NamedTuple):
    """`agent_end`. `will_retry` is None before 0.75.4. `messages` as in `TurnEnd`."""

    messages: tuple[Message, ...]
    will_retry: bool | None
    received_ms: int | None


class Settled(NamedTuple):
    """`agent_settled` (from 0.80.4): the prompt is done, retries and compactions included."""

    aborted: bool
    received_ms: int | None


# --- tools ----------------------------------------------------------------------------------------------------------


class ToolStart(NamedTuple):
    """`tool_execution_start`."""

    call: Call
    parent_call_id: str | None
    received_ms: int | None


class ToolEnd(NamedTuple):
    """`tool_execution_end`."""

    call_id: str
    tool: str
    is_error: bool
    error_text: str
    duration_ms: float | None
    result_bytes: int
    parent_call_id: str | None
    received_ms: int | None


# --- retries and compactions ----------------------------------------------------------------------------------------


class RetryStart(NamedTuple):
    """`auto_retry_start`."""

    attempt: int | None
    max_attempts: int | None
    delay_ms: float | None
    error: str | None
    received_ms: int | None


class RetryEnd(NamedTuple):
    """`auto_retry_end`."""

    success: bool
    final_error: str | None
    received_ms: int | None


class SummaryRetryScheduled(NamedTuple):
    """`summarization_retry_scheduled`: the scope is not known yet."""

    attempt: int | None
    max_attempts: int | None
    delay_ms: float | None
    error: str | None
    received_ms: int | None


class SummaryRetryStart(NamedTuple):
    """`summarization_retry_attempt_start`; `scope` is compaction, branch_summary or None."""

    scope: str | None


class SummaryRetryFinished(NamedTuple):
    """`summarization_retry_finished`: says that it is over, not how."""


class CompactionStart(NamedTuple):
    """`compaction_start` or `auto_compaction_start`."""

    reason: str | None
    received_ms: int | None


class CompactionEnd(NamedTuple):
    """`compaction_end`, `auto_compaction_end`, or the `compaction` entry of a file (then `entry` is set).

    Attributes:
        done: A result was there.
        summary_hash: Stable hash of the summary text, which itself is never kept.
    """

    reason: str | None
    done: bool
    aborted: bool
    will_retry: bool | None
    error: str | None
    tokens_before: int | None
    tokens_after: int | None
    summary_hash: str | None
    usage: Usage | None
    received_ms: int | None
    entry: Entry | None


class CompactionShown(NamedTuple):
    """A stream shows the entry of a compaction (`entry_appended`), whose end it may have told as well."""

    compaction: CompactionEnd


# --- the rest -------------------------------------------------------------------------------------------------------


class UsageEntry(NamedTuple):
    """Paid work without a message: a `usage` or `branch_summary` entry.

    `entry` is its place in the tree of a session file; None where a stream shows it (`entry_appended`).
    """

    operation: str
    kind: str
    provider: str | None
    model: str | None
    usage: Usage | None
    time: int | None
    received_ms: int | None
    entry: Entry | None


class ModelChanged(NamedTuple):
    """A `model_change` entry, or the answer to `set_model` in RPC output."""

    provider: str | None
    model: str | None
    entry: Entry | None


class ThinkingLevelChanged(NamedTuple):
    """A `thinking_level_change` entry or `thinking_level_changed`."""

    level: str | None
    entry: Entry | None


class TreeEntry(NamedTuple):
    """Any other entry of a session file: only its place in the tree matters."""

    entry: Entry


class QueueUpdate(NamedTuple):
    """`queue_update`: how many messages wait."""

    steering: int
    follow_up: int
    received_ms: int | None


class ExtensionError(NamedTuple):
    """`extension_error`."""


class Unknown(NamedTuple):
    """Something that this version does not know; normal input, counted by `kind`."""

    kind: str


Event = (
    Header | SessionSwitched | SessionAnswered | SessionNamed
    | MessageStart | MessageUpdate | MessageEnd
    | RunStart | TurnStart | TurnEnd | RunEnd | Settled
    | ToolStart | ToolEnd
    | RetryStart | RetryEnd | SummaryRetryScheduled | SummaryRetryStart | SummaryRetryFinished
    | CompactionStart | CompactionEnd | CompactionShown
    | UsageEntry | ModelChanged | ThinkingLevelChanged | TreeEntry | QueueUpdate | ExtensionError
)  # fmt: skip
"""What a reducer may be fed."""


class Decoded(NamedTuple):
    """What decoding made of some records.

    Attributes:
        events: In the order of the records.
        rejects: Lines that gave no record.
        records: (record type, how many), types outside pi's vocabulary folded into `unknown`.
        unknown: (kind, how many) of unknown things met on the way.
        fused: Lines that held more than one whole record.
        log: (record type, its line, arrival stamp) of every record, when that was asked for.
    """

    events: list[Event]
    rejects: list[Reject]
    records: dict[str, int]
    unknown: dict[str, int]
    fused: int
    log: list[tuple[str, Record, int | None]] = []  # noqa: RUF012  never changed
