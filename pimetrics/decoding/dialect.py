"""What the wire tells of the pi that wrote a source: its kind, its dialect, and the range of versions that fits.

pi writes its version nowhere. What it writes changed from version to version, so each mark seen narrows the range from
below (a thing that did not exist before) or from above (a thing that is no longer so). A source with marks that
exclude each other was written by several versions: a session that was resumed after an update.

Pure: lines in, marks out. Only the ends of a line are looked at; an unescaped quote never stands inside a JSON string,
so a pattern with quotes is a key, and the keys looked for stand where only pi writes.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from pimetrics.names import RECORD_TYPES

Version = tuple[int, ...]

HEAD_BYTES: Final = 2048
TAIL_BYTES: Final = 1024

STREAM: Final = "event stream"
RPC: Final = "RPC output"
SESSION: Final = "session file"
HEADER_ONLY: Final = "header only"
EMPTY: Final = "empty"
FOREIGN: Final = "not pi's"

_SESSION_TYPES: Final = frozenset({
    "message", "model_change", "thinking_level_change", "compaction", "branch_summary", "usage", "custom",
    "custom_message", "label", "session_info", "context_edit",
})  # fmt: skip
_RPC_TYPES: Final = frozenset({"response", "extension_ui_request"})

_SINCE: Final[dict[str, Version]] = {
    "compaction_start": (0, 63, 1), "compaction_end": (0, 63, 1), "queue_update": (0, 64, 0),
    "agent_settled": (0, 80, 4), "entry_appended": (0, 80, 6), "summarization_retry_scheduled": (0, 81, 1),
    "summarization_retry_attempt_start": (0, 81, 1), "summarization_retry_finished": (0, 81, 1),
    "bash_execution_update": (0, 82, 0), "context_edit": (0, 87, 0),
}  # fmt: skip
"""Record type to the first version that writes it."""

_UNTIL: Final[dict[str, Version]] = {"auto_compaction_start": (0, 63, 0), "auto_compaction_end": (0, 63, 0)}
"""Record type to the last version that writes it."""

_MOST_TYPES: Final = 20
_TYPE: Final = re.compile(rb'"type":"([A-Za-z0-9_.-]{1,60})"')
_COST: Final = re.compile(rb'"total":(?!0[,}])[0-9.e+-]+\}')
_SYSTEM: Final = re.compile(rb'"message":\{"role":"system"')
_ANSWER: Final = re.compile(rb'"message":\{"role":"assistant"')


class Marks:
    """The marks of one source."""

    def __init__(self) -> None:
        self._since: Version = (0,)
        self._until: Version | None = None
        self._updates: Counter[str] = Counter()
        self.unknown_types: set[str] = set()
        """Record types outside pi's vocabulary, the first twenty."""

    def feed(self, head: bytes, tail: bytes) -> None:
        """Look at one line: its first `HEAD_BYTES` and last `TAIL_BYTES` (they may overlap)."""
        found = _TYPE.search(head[:200])
        kind = found[1].decode() if found else ""
        if found and found.start() == 1 and kind not in RECORD_TYPES and len(self.unknown_types) < _MOST_TYPES:
            self.unknown_types.add(kind)
        if kind in _SINCE:
            self._from(_SINCE[kind])
        elif kind in _UNTIL:
            self._to(_UNTIL[kind])
        elif kind == "message_update":
            self._update(head)
        elif kind in {"message_end", "message"}:
            self._message(head, tail)
        elif kind == "agent_end":
            if b'],"willRetry":' in tail:
                self._from((0, 75, 4))
            else:
                self._to((0, 75, 3))
        elif kind == "tool_execution_end" and b',"durationMs":' in tail:
            self._from((1, 1, 0))
        elif kind == "response" and b'"disposition":' in tail:
            self._from((0, 99, 0))
        if kind == "compaction_end" and b'"estimatedTokensAfter":' in head + tail:
            self._from((0, 79, 8))

    def _update(self, head: bytes) -> None:
        if head.startswith(b'{"type":"message_update","usage":'):
            self._updates["delta"] += 1
            self._from((0, 84, 2))
        elif b'"partial":{"role":' in head or b'},"message":{"role":"assistant"' in head:
            self._updates["cumulative"] += 1
            self._to((0, 83, 99))
        elif b'"partial":' not in head and len(head) < HEAD_BYTES:  # of a longer line it may come later
            self._updates["delta-bare"] += 1
            self._from((0, 84, 0))
            self._to((0, 84, 1))

    def _message(self, head: bytes, tail: bytes) -> None:
        if _SYSTEM.search(head):
            self._from((0, 86, 0))
        elif _ANSWER.search(head):
            if b',"durationMs":' in tail:
                self._from((1, 1, 0))
            else:
                self._to((1, 0, 99))
            if b',"totalFromProvider":' in tail:
                self._from((1, 5, 0))
            elif _COST.search(tail):
                self._to((1, 4, 99))

    def _from(self, version: Version) -> None:
        self._since = max(self._since, version)

    def _to(self, version: Version) -> None:
        self._until = version if self._until is None else min(self._until, version)

    @property
    def dialect(self) -> str | None:
        """The dialect of its updates; None when it has none and the range of versions spans several."""
        if self.is_mixed:
            return "several"
        if self._until is not None and self._until <= (0, 63, 0):
            return "auto-compaction"
        if self._updates:
            return self._updates.most_common(1)[0][0]
        if self._since >= (0, 84, 2):
            return "delta"
        return None

    @property
    def is_mixed(self) -> bool:
        """Whether several versions wrote it."""
        return self._until is not None and self._since > self._until

    @property
    def versions(self) -> str:
        """The range of versions that fits, in words."""
        since, until = _written(self._since), self._until
        if self.is_mixed:
            assert until is not None
            return f"several, from {_written(until)} or older to {since} or newer"
        if until is None:
            return f"{since} or newer" if self._since > (0,) else "unknown"
        return f"{since} to {_written(until)}" if self._since > (0,) else f"up to {_written(until)}"

    def fits(self, version: Version) -> bool:
        """Whether a version lies in the range."""
        return self._since <= version and (self._until is None or version <= self._until)


def _written(version: Version) -> str:
    return ".".join("x" if part == 99 else str(part) for part in version)


def kind_of(records: dict[str, int], rejects: int) -> str:
    """Return what a source is, from how many records of each type it has."""
    known = {kind for kind, number in records.items() if number and kind != "unknown"}
    if known & _RPC_TYPES:
        return RPC
    if known & _SESSION_TYPES:
        return SESSION
    if known - {"session"}:
        return STREAM
    if known:
        return HEADER_ONLY
    return FOREIGN if records.get("unknown") or rejects else EMPTY
