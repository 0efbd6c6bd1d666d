"""Rows and their tables: COLUMNS is the one list that code, tests, README and Parquet share.

A row is one fact about pi with a key made of what pi copies verbatim. Two rows with equal keys are the same fact, seen
in two places.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

STRING: Final = "String"
INT: Final = "Int64"
FLOAT: Final = "Float64"
BOOL: Final = "Boolean"
TIME: Final = "Datetime(ms, UTC)"


class Column(NamedTuple):
    """One column: its polars type by name, and what it holds."""

    dtype: str
    help: str


def _table(help_text: str, **columns: tuple[str, str]) -> dict[str, Column]:
    common = {
        "row_id": Column(STRING, f"Stable hash of the key: the same {help_text} has the same id in every read"),
        "session_id": Column(STRING, "Session it belongs to (null when the source names none)"),
        "source": Column(STRING, "Source it was seen in; the smallest name where several hold it"),
        "time": Column(TIME, "When it began"),
        "time_source": Column(
            STRING, "message, entry, arrival, anchor (time of the message before it); null without any"
        ),
    }
    return common | {name: Column(*column) for name, column in columns.items()}


COLUMNS: Final[dict[str, dict[str, Column]]] = {
    "sessions": _table(
        "session",
        parent_session_id=(STRING, "Session it was forked from, or the file name where the id is not in it"),
        cwd=(STRING, "Working directory; with the id it names the session"),
        name=(STRING, "Name the user gave, the latest"),
        version=(INT, "Version of the session format"),
        origin=(STRING, "stream, rpc or session_file; the richest of those that hold it"),
        first_time=(TIME, "Header time, or the earliest time seen in it"),
        last_time=(TIME, "Latest time seen in it"),
    ),
    "prompts": _table(
        "prompt",
        outcome=(STRING, "ok, error, aborted, unfinished; null in session files, which do not say"),
        duration_s=(FLOAT, "User message to the end of the work, seconds"),
        duration_source=(STRING, "arrival or entry"),
        turns=(INT, "Turns that it took"),
        runs=(INT, "Agent runs that it took; null in session files"),
    ),
    "runs": _table(
        "run",
        prompt_id=(STRING, "row_id of its prompt"),
        outcome=(STRING, "ok, error, aborted, retried, unfinished"),
        duration_s=(FLOAT, "agent_start to agent_end, seconds"),
        duration_source=(STRING, "arrival"),
        turns=(INT, "Turns in it"),
    ),
    "turns": _table(
        "turn",
        prompt_id=(STRING, "row_id of its prompt"),
        provider=(STRING, "Provider of its assistant message"),
        model=(STRING, "Model that answered"),
        outcome=(STRING, "ok, error, aborted, retried, unfinished"),
        duration_s=(FLOAT, "turn_start to turn_end, seconds"),
        duration_source=(STRING, "arrival"),
        tools=(INT, "Tool calls that the model asked for"),
    ),
    "messages": _table(
        "message",
        prompt_id=(STRING, "row_id of its prompt"),
        role=(STRING, "user, assistant, toolResult, system, custom, bashExecution or what pi adds"),
        provider=(STRING, "Provider (assistant)"),
        model=(STRING, "Model that answered: response_model where the provider names one, else the requested one"),
        stop_reason=(STRING, "Why the answer ended (assistant)"),
        error_type=(STRING, "Class of the error (assistant, stop_reason error)"),
        content_bytes=(INT, "Size of its texts and images, UTF-8 bytes"),
        total_tokens=(INT, "Tokens of its usage; 0 when the provider reported zeros, null when it reported nothing"),
        settled=(BOOL, "False for an answer that was cut off before its end"),
    ),
    "usage": _table(
        "usage",
        prompt_id=(STRING, "row_id of its prompt"),
        operation=(STRING, "turn, tool, compaction, branch_summary, cache_warm, other"),
        tool=(STRING, "Tool that reported it (operation tool)"),
        turn_id=(STRING, "row_id of the turn that called the tool (operation tool)"),
        provider=(STRING, "Provider; for work without a message the one in force"),
        model=(STRING, "Requested model; for work without a message the one in force"),
        response_model=(STRING, "Model that answered, where the provider names one"),
        api=(STRING, "Wire protocol that pi spoke"),
        stop_reason=(STRING, "Why the answer ended"),
        thinking_level=(STRING, "Thinking level in force"),
        input_tokens=(INT, "Tokens sent, cached ones excluded"),
        output_tokens=(INT, "Tokens generated, reasoning included"),
        cache_read_tokens=(INT, "Tokens read from the cache"),
        cache_write_tokens=(INT, "Tokens written to the cache"),
        cache_write_1h_tokens=(INT, "Of cache_write_tokens, those kept for one hour"),
        reasoning_tokens=(INT, "Of output_tokens, those spent on reasoning"),
        cost_usd=(FLOAT, "cost.total as pi reports it; null when absent or impossible"),
        cost_input_usd=(FLOAT, "Part of it for input"),
        cost_output_usd=(FLOAT, "Part of it for output"),
        cost_cache_read_usd=(FLOAT, "Part of it for cache reads"),
        cost_cache_write_usd=(FLOAT, "Part of it for cache writes"),
        cost_reported_usd=(FLOAT, "cost.total as it stands in the record, also when it is negative"),
        duration_s=(FLOAT, "Length of the request, seconds (operation turn)"),
        duration_source=(STRING, "reported, arrival or entry"),
        time_to_first_token_s=(FLOAT, "Request to the first delta, seconds (stamped streams)"),
        error_type=(STRING, "Class of the error (stop_reason error)"),
        on_active_branch=(BOOL, "On the branch that its session ended on; null where no tree is known"),
        settled=(BOOL, "False for what a cut-off answer had reported: not in totals"),
    ),
    "tool_calls": _table(
        "tool call",
        prompt_id=(STRING, "row_id of its prompt"),
        turn_id=(STRING, "row_id of its turn"),
        tool=(STRING, "Name of the tool"),
        tool_call_id=(STRING, "Id the model gave; not unique"),
        parent_tool_call_id=(STRING, "The call that made this call"),
        outcome=(STRING, "ok, error, aborted, unfinished"),
        duration_s=(FLOAT, "Length of the execution, seconds"),
        duration_source=(STRING, "reported, arrival or entry"),
        args_bytes=(INT, "Size of the arguments as compact JSON, UTF-8 bytes"),
        result_bytes=(INT, "Size of the result's texts and images, UTF-8 bytes"),
    ),
    "retries": _table(
        "retry attempt",
        prompt_id=(STRING, "row_id of its prompt"),
        scope=(STRING, "turn, compaction or branch_summary"),
        attempt=(INT, "Number of the attempt, from 1"),
        max_attempts=(INT, "Attempts that pi allows"),
        delay_s=(FLOAT, "Back-off before it, seconds"),
        error_type=(STRING, "Class of the error that caused it"),
        outcome=(STRING, "failed (another followed), success, exhausted, aborted, unfinished"),
        provider=(STRING, "Provider of the answer that was thrown away (scope turn)"),
        model=(STRING, "Model of the answer that was thrown away (scope turn)"),
        discarded_tokens=(INT, "Tokens of the answer that was thrown away (scope turn)"),
        discarded_cost_usd=(FLOAT, "Cost of the answer that was thrown away (scope turn)"),
    ),
    "compactions": _table(
        "compaction",
        prompt_id=(STRING, "row_id of its prompt"),
        reason=(STRING, "manual, threshold, overflow; null in session files, which do not say"),
        outcome=(STRING, "ok, aborted, failed, unfinished"),
        tokens_before=(INT, "Context before it"),
        tokens_after=(INT, "Context after it, as pi estimates"),
        duration_s=(FLOAT, "Start to end, seconds"),
        duration_source=(STRING, "arrival"),
        will_retry=(BOOL, "pi tried the prompt again after it"),
        cost_usd=(FLOAT, "Cost of the summary (its usage row has the rest)"),
    ),
    "queue": _table(
        "queue change",
        queue=(STRING, "steering or follow_up"),
        depth=(INT, "Messages waiting after the change"),
    ),
    "rejects": _table(
        "reject",
        line_number=(INT, "Physical line, from 1"),
        offset_bytes=(INT, "Where the line starts"),
        size_bytes=(INT, "Length of the line"),
        reason=(STRING, "invalid_json, not_object, invalid_utf8, nul_padding, truncated, too_long"),
    ),
    "events": _table(
        "record",
        record=(STRING, "Type of the record; unknown for types outside pi's vocabulary"),
        line_number=(INT, "Physical line, from 1"),
        offset_bytes=(INT, "Where the line starts"),
        size_bytes=(INT, "Length of the line"),
    ),
}
"""Every table, every column, in order. Schemas never depend on the input."""

TABLES: Final = tuple(name for name in COLUMNS if name != "events")
"""The tables that every read gives; `events` (a row a record) only on request."""

UNFINISHED: Final = "unfinished"


class Part:
    """What follows one header of a source, or one session of RPC output: who its rows belong to.

    The session of RPC output is known only later, so rows point here instead of naming it.

    Attributes:
        source: Name of the source.
        number: Place among the parts of the source, from 0.
        session_id: From the header, or answered in RPC output; None until then.
        cwd: From the header.
        time: Time of the header, epoch ms; None without a header.
        parents: Entry id to parent id of a session file, in file order.
        ref: Number under which a ledger on disk knows it; None until it was written there.
    """

    __slots__ = (
        "_active",
        "_active_at",
        "branched",
        "cwd",
        "leaf",
        "number",
        "parents",
        "ref",
        "session_id",
        "source",
        "time",
    )

    def __init__(self, source: str, number: int = 0) -> None:
        self.source = source
        self.number = number
        self.session_id: str | None = None
        self.cwd: str | None = None
        self.time: int | None = None
        self.parents: dict[str, str | None] = {}
        self.leaf: str | None = None
        self.branched = False
        self.ref: int | None = None
        self._active: frozenset[str] = frozenset()
        self._active_at: str | None = None

    @property
    def name(self) -> tuple[str, int]:
        """Its place among all sources."""
        return (self.source, self.number)

    @property
    def rank(self) -> tuple[float, str, str, str, int]:
        """Order among those that hold a shared row: the earliest header owns it."""
        early = float("inf") if self.time is None else self.time
        return (early, self.session_id or "", self.cwd or "", self.source, self.number)

    def is_active(self, entry_id: str | None) -> bool | None:
        """Whether an entry is on the branch that the session ended on; None where no tree is known."""
        if entry_id is None or self.leaf is None:
            return None
        if not self.branched:
            return True
        return entry_id in self.active

    @property
    def active(self) -> frozenset[str]:
        """Entries on the branch that the session ended on."""
        if self._active_at != self.leaf:
            path = set()
            at: str | None = self.leaf
            while at is not None and at not in path:
                path.add(at)
                at = self.parents.get(at)
            self._active, self._active_at = frozenset(path), self.leaf
        return self._active


class Row(NamedTuple):
    """A fact on its way to the ledger.

    Attributes:
        table: One of COLUMNS.
        key: Its name (see `keys`).
        values: Column values that are known; durations in seconds, times in epoch ms. None means not known here.
        part: Where it was seen.
        entry_id: Entry of the session file that it came from; places it in the tree of its session.
    """

    table: str
    key: tuple[object, ...]
    values: dict[str, Any]
    part: Part
    entry_id: str | None = None
