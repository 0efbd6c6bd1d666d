"""Names that the outside sees: METRICS, closed label sets, and the rules for names that come from outside.

METRICS is the one list that the collector, the README table and the dashboard tests share.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple

MAX_LABEL_CHARS: Final = 200
"""Longest label value; the longest real model names are under 100. A longer one is cut."""

LABEL_CAP: Final = 200
"""Distinct values of an open label (provider, model, tool) that become series; the rest is `other`. A team uses tens
of models and tools; 200 keeps the worst case of one exporter in the tens of thousands of series."""

MAX_EXEMPLAR_CHARS: Final = 64
"""OpenMetrics allows 128 for all labels of an exemplar together; more, and every scrape fails."""

OTHER: Final = "other"
UNKNOWN: Final = "unknown"

OPERATIONS: Final = ("turn", "tool", "compaction", "branch_summary", "cache_warm", "other")
TOKEN_TYPES: Final = ("input", "output", "cache_read", "cache_write")
STOP_REASONS: Final = ("stop", "length", "toolUse", "error", "aborted", "deferred", "pending", "other", "unknown")
TOOL_OUTCOMES: Final = ("ok", "error", "aborted", "unfinished")
RETRY_SCOPES: Final = ("turn", "compaction", "branch_summary")
SEQUENCE_OUTCOMES: Final = ("success", "exhausted", "aborted", "unfinished")
COMPACTION_REASONS: Final = ("manual", "threshold", "overflow", "unknown")
COMPACTION_OUTCOMES: Final = ("ok", "aborted", "failed", "unfinished")
WORK_OUTCOMES: Final = ("ok", "error", "aborted", "retried", "unfinished")
PROMPT_OUTCOMES: Final = ("ok", "error", "aborted", "unfinished", "unknown")
QUEUES: Final = ("steering", "follow_up")
REJECT_REASONS: Final = ("invalid_json", "not_object", "invalid_utf8", "nul_padding", "truncated", "too_long")
UNKNOWN_KINDS: Final = ("record", "entry", "role", "stop_reason", "usage_kind", "field")
SOURCE_STATES: Final = ("open", "done", "unreadable", "ignored")
RESET_REASONS: Final = ("truncated", "replaced", "rewritten")
DUPLICATE_REASONS: Final = ("other_source",)
COUNTED_TABLES: Final = ("messages", "usage", "turns", "runs", "prompts", "tool_calls", "retries", "compactions")
FLEET_LABELS: Final = ("team", "repo", "host")
OPEN_LABELS: Final = ("provider", "model", "tool", *FLEET_LABELS)
DELIVERY_ANSWERS: Final = (
    "taken", "asked", "unauthorized", "malformed", "too_large", "slow", "cut", "gap", "other_content",
    "other_receiver", "busy", "full",
)  # fmt: skip
FLEET_SERIES_CAP: Final = 1000
"""Combinations of team, repo and host that become series; of the rest each of the three is `other`."""


RECORD_TYPES: Final = (
    "session", "agent_start", "agent_end", "agent_settled", "turn_start", "turn_end", "message_start",
    "message_update", "message_end", "tool_execution_start", "tool_execution_update", "tool_execution_end",
    "auto_retry_start", "auto_retry_end", "summarization_retry_scheduled", "summarization_retry_attempt_start",
    "summarization_retry_finished", "compaction_start", "compaction_end", "auto_compaction_start",
    "auto_compaction_end", "queue_update", "entry_appended", "session_info_changed", "thinking_level_changed",
    "bash_execution_update", "extension_error", "extension_ui_request", "response",
    "message", "model_change", "thinking_level_change", "compaction", "branch_summary", "usage", "custom",
    "custom_message", "label", "session_info", "context_edit", "unknown",
)  # fmt: skip

ERROR_TYPES: Final = (
    "overloaded", "rate_limited", "server_error", "timeout", "network", "context_overflow", "authentication",
    "quota", "invalid_request", "content_filter", "aborted", "other", "unknown",
)  # fmt: skip

# The first pattern that fits wins, so the narrow ones stand first. The texts are those of the providers' SDKs and of
# pi's own `errorMessage`; numbers are HTTP statuses.
_ERROR_PATTERNS: Final = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in {
        "context_overflow": r"context.{0,20}(length|window|limit|overflow|exceed)|prompt is too long|maximum context"
        r"|too many tokens|exceeds.{0,30}(context|token)|input is too long",
        "overloaded": r"overloaded|\b529\b|at capacity|model.{0,12}busy",
        "quota": r"quota|billing|insufficient.{0,10}(credit|fund|balance)|\b402\b|credit balance",
        "rate_limited": r"rate.?limit|\b429\b|too many requests",
        "authentication": r"\b401\b|\b403\b|unauthori[sz]ed|forbidden|api.?key|authenticat|permission denied",
        "content_filter": r"content.?(filter|policy)|safety|moderation|(?<!connection )\brefus",  # not ECONNREFUSED
        "timeout": r"time.?out|timed out|\b408\b|\b504\b|deadline",
        "network": r"econn|socket|network|fetch failed|connection|terminated|stream ended|eof|enotfound|epipe|dns"
        r"|other side closed|premature|closed before",
        "server_error": r"\b5\d\d\b|internal.?server|server.?error|bad gateway|service.?unavailable|api_error",
        "invalid_request": r"\b4\d\d\b|invalid.?request|bad request|not.?found|invalid.?argument|validation",
        "aborted": r"abort|cancel",
    }.items()
)


def error_type(text: str | None) -> str:
    """Classify an error text into `ERROR_TYPES`; the text itself never becomes a label."""
    if not text:
        return UNKNOWN
    head = text[:2000]
    return next((kind for kind, pattern in _ERROR_PATTERNS if pattern.search(head)), OTHER)


def label_value(name: str | None) -> str:
    """Make a name from outside fit for a label: never empty, no lone surrogates, bounded length."""
    if not name:
        return UNKNOWN
    if not name.isascii():
        name = name.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return name if len(name) <= MAX_LABEL_CHARS else name[: MAX_LABEL_CHARS - 1] + "…"


def exemplar_value(name: str | None) -> str:
    """Make a session id fit for an exemplar: at most `MAX_EXEMPLAR_CHARS` of what parsers agree on."""
    return _NOT_IN_EXEMPLARS.sub("_", name or "")[:MAX_EXEMPLAR_CHARS]


# Quotes and braces are legal when escaped, and Python's own OpenMetrics parser still stumbles over them.
_NOT_IN_EXEMPLARS: Final = re.compile(r"[^A-Za-z0-9 ._:/@+-]")


def printable(text: str) -> str:
    """Make text from outside safe for a terminal, a log line, a page or a CSV cell.

    Control, format (bidi) and surrogate characters and line separators are shown escaped, so a name can neither move
    the cursor, nor turn the line round, nor pretend to be another line. Markup of the target (rich, HTML) is that
    writer's business.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c if unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn"} else _escaped(c) for c in text
    )


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"


class Metric(NamedTuple):
    """One metric family.

    Attributes:
        kind: counter, gauge or histogram.
        labels: Label names, in order.
        help: The HELP text.
        buckets: Upper bounds in the metric's unit, without +Inf (histograms).
        scale: Internal integer units to one exposed unit: tokens 1, money 10**12 (pico-dollars), time 10**6.
        closed: Values of the closed labels; every combination exists at 0 from the start when no label is open.
    """

    kind: str
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()
    scale: int = 1
    closed: dict[str, tuple[str, ...]] = {}  # noqa: RUF012  a NamedTuple default, never changed


PICO: Final = 10**12
MICRO: Final = 10**6


def _doubling(first: float, last: float) -> tuple[float, ...]:
    bounds = [first]
    while bounds[-1] < last:
        bounds.append(round(bounds[-1] * 2, 6))
    return tuple(bounds)


_PM: Final = ("provider", "model")

METRICS: Final[dict[str, Metric]] = {
    "pi_tokens_total": Metric(
        COUNTER, (*_PM, "operation", "token_type"),
        "Tokens as pi reports them; input excludes cached tokens, output includes reasoning",
        closed={"operation": OPERATIONS, "token_type": TOKEN_TYPES},
    ),
    "pi_reasoning_tokens_total": Metric(COUNTER, _PM, "Reasoning tokens, already inside output"),
    "pi_cache_write_1h_tokens_total": Metric(COUNTER, _PM, "Tokens cached for one hour, already inside cache_write"),
    "pi_cost_usd_total": Metric(
        COUNTER, (*_PM, "operation"), "Cost in USD as pi reports it (cost.total)", scale=PICO,
        closed={"operation": OPERATIONS},
    ),
    "pi_requests_total": Metric(
        COUNTER, (*_PM, "stop_reason"), "Assistant messages, with or without usage",
        closed={"stop_reason": STOP_REASONS},
    ),
    "pi_unpriced_requests_total": Metric(COUNTER, _PM, "Requests with tokens and a cost of 0: no price is known"),
    "pi_requests_without_usage_total": Metric(COUNTER, _PM, "Answers for which the provider reported no tokens"),
    "pi_request_duration_seconds": Metric(
        HISTOGRAM, _PM, "Length of a request, as pi reports it or from arrival stamps",
        buckets=_doubling(0.16, 655.36), scale=MICRO,
    ),
    "pi_time_to_first_token_seconds": Metric(
        HISTOGRAM, _PM, "Request to the arrival of the first delta", buckets=_doubling(0.08, 81.92), scale=MICRO
    ),
    "pi_request_context_tokens": Metric(
        HISTOGRAM, _PM, "Tokens in the context of a request: input, cache reads and cache writes",
        buckets=_doubling(1024, 4194304),
    ),
    "pi_timed_output_tokens_total": Metric(
        COUNTER, _PM, "Output tokens of the requests in pi_request_duration_seconds"
    ),
    "pi_tool_calls_total": Metric(
        COUNTER, ("tool", "outcome"), "Tool calls by how they ended", closed={"outcome": TOOL_OUTCOMES}
    ),
    "pi_tool_execution_duration_seconds": Metric(
        HISTOGRAM, ("tool",), "Length of a tool call, as pi reports it or from arrival stamps",
        buckets=_doubling(0.01, 5242.88), scale=MICRO,
    ),
    "pi_tool_executions_in_progress": Metric(GAUGE, ("tool",), "Tool calls running now"),
    "pi_retries_total": Metric(
        COUNTER, ("scope", "error_type"), "Retry attempts by what they retry and why",
        closed={"scope": RETRY_SCOPES, "error_type": ERROR_TYPES},
    ),
    "pi_retry_sequences_total": Metric(
        COUNTER, ("scope", "outcome"), "Series of retries by how they ended",
        closed={"scope": RETRY_SCOPES, "outcome": SEQUENCE_OUTCOMES},
    ),
    "pi_retry_backoff_seconds_total": Metric(
        COUNTER, ("scope",), "Time that pi announced to wait before retries", scale=MICRO,
        closed={"scope": RETRY_SCOPES},
    ),
    "pi_retry_discarded_tokens_total": Metric(COUNTER, _PM, "Tokens of answers that were thrown away and tried again"),
    "pi_retry_discarded_cost_usd_total": Metric(
        COUNTER, _PM, "Cost in USD of answers that were thrown away and tried again", scale=PICO
    ),
    "pi_compactions_total": Metric(
        COUNTER, ("reason", "outcome"), "Compactions by reason and outcome",
        closed={"reason": COMPACTION_REASONS, "outcome": COMPACTION_OUTCOMES},
    ),
    "pi_compaction_duration_seconds": Metric(
        HISTOGRAM, ("reason",), "Length of a compaction, from arrival stamps", buckets=_doubling(0.64, 655.36),
        scale=MICRO, closed={"reason": COMPACTION_REASONS},
    ),
    "pi_compaction_before_tokens": Metric(
        HISTOGRAM, ("reason",), "Context before a compaction", buckets=_doubling(8192, 2097152),
        closed={"reason": COMPACTION_REASONS},
    ),
    "pi_compaction_removed_tokens_total": Metric(
        COUNTER, ("reason",), "Tokens that compactions took out of the context, as pi estimates",
        closed={"reason": COMPACTION_REASONS},
    ),
    "pi_prompts_total": Metric(
        COUNTER, ("outcome",), "Prompts: a user message and all work on it", closed={"outcome": PROMPT_OUTCOMES}
    ),
    "pi_runs_total": Metric(COUNTER, ("outcome",), "Agent runs (streams only)", closed={"outcome": WORK_OUTCOMES}),
    "pi_turns_total": Metric(
        COUNTER, ("outcome",), "Turns: an answer and its tool calls", closed={"outcome": WORK_OUTCOMES}
    ),
    "pi_prompt_duration_seconds": Metric(
        HISTOGRAM, ("outcome",), "User message to the end of the work, from arrival stamps",
        buckets=_doubling(1.28, 10485.76), scale=MICRO, closed={"outcome": PROMPT_OUTCOMES},
    ),
    "pi_sessions_total": Metric(COUNTER, (), "Sessions seen"),
    "pi_fleet_tokens_total": Metric(
        COUNTER, (*FLEET_LABELS, "token_type"), "pi_tokens_total by who delivered it (serve --receive-label)",
        closed={"token_type": TOKEN_TYPES},
    ),
    "pi_fleet_cost_usd_total": Metric(
        COUNTER, FLEET_LABELS, "pi_cost_usd_total by who delivered it (serve --receive-label)", scale=PICO
    ),
    "pi_fleet_requests_total": Metric(
        COUNTER, FLEET_LABELS, "pi_requests_total by who delivered it (serve --receive-label)"
    ),
    "pi_fleet_sessions_total": Metric(
        COUNTER, FLEET_LABELS, "pi_sessions_total by who delivered it (serve --receive-label)"
    ),
    "pi_sessions_active": Metric(GAUGE, (), "Sessions with events within the idle time"),
    "pi_runs_active": Metric(GAUGE, (), "Agent runs in progress"),
    "pi_oldest_active_run_start_timestamp_seconds": Metric(
        GAUGE, (), "Start of the longest agent run in progress, Unix time; 0 without one"
    ),
    "pi_queue_depth": Metric(GAUGE, ("queue",), "Messages waiting for the agent", closed={"queue": QUEUES}),
    "pi_extension_errors_total": Metric(COUNTER, (), "Errors that extensions raised"),
    "pi_last_event_timestamp_seconds": Metric(GAUGE, (), "Time of the latest event, Unix time; 0 without one"),
    "pimetrics_build_info": Metric(GAUGE, ("version",), "1, with the version of pimetrics"),
    "pimetrics_ready": Metric(GAUGE, (), "1 once catch-up is done and pi_ metrics are served"),
    "pimetrics_records_total": Metric(
        COUNTER, ("record",), "Records read, by type", closed={"record": RECORD_TYPES}
    ),
    "pimetrics_rejects_total": Metric(
        COUNTER, ("reason",), "Lines that gave no record", closed={"reason": REJECT_REASONS}
    ),
    "pimetrics_unknown_total": Metric(
        COUNTER, ("kind",), "Things that this version does not know", closed={"kind": UNKNOWN_KINDS}
    ),
    "pimetrics_fused_lines_total": Metric(COUNTER, (), "Lines that held more than one whole record"),
    "pimetrics_duplicates_skipped_total": Metric(
        COUNTER, ("reason",), "Usage rows that another source had already brought",
        closed={"reason": DUPLICATE_REASONS},
    ),
    "pimetrics_late_revisions_total": Metric(
        COUNTER, ("table",), "Rows that became better known after their counter had moved",
        closed={"table": COUNTED_TABLES},
    ),
    "pimetrics_durations_missing_total": Metric(
        COUNTER, ("table",), "Finished rows without a reported or measured duration",
        closed={"table": ("usage", "tool_calls", "compactions")},
    ),
    "pimetrics_bytes_read_total": Metric(COUNTER, (), "Bytes read from sources, decompressed"),
    "pimetrics_sources": Metric(GAUGE, ("state",), "Sources by state", closed={"state": SOURCE_STATES}),
    "pimetrics_source_lag_bytes": Metric(GAUGE, (), "Bytes that are on disk and not yet read"),
    "pimetrics_source_resets_total": Metric(
        COUNTER, ("reason",), "Files that were read again from the start", closed={"reason": RESET_REASONS}
    ),
    "pimetrics_label_overflow_total": Metric(
        COUNTER, ("label",), "Values of a label that were folded into other", closed={"label": OPEN_LABELS}
    ),
    "pimetrics_deliveries_total": Metric(
        COUNTER, ("answer",), "Requests of shippers by how they were answered (serve --receive)",
        closed={"answer": DELIVERY_ANSWERS},
    ),
    "pimetrics_delivered_bytes_total": Metric(
        COUNTER, (), "Bytes of recordings that were delivered, decompressed (serve --receive)"
    ),
    "pimetrics_ledger_commits_total": Metric(COUNTER, (), "Batches committed to the ledger"),
    "pimetrics_ledger_commit_failures_total": Metric(COUNTER, (), "Batches that could not be committed and are kept"),
}  # fmt: skip
