"""How pi writes things down: one writer a dialect, with the key orders of the recordings.

A writer takes finished parts (messages as JSON text) and appends whole lines to `out`. It knows no totals and makes no
choices; `generate` does.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from tests.bench import parts

if TYPE_CHECKING:
    from collections.abc import Sequence


class Writer:
    """What all dialects share. Hooks that a dialect does not write do nothing.

    Attributes:
        out: Lines written since the caller last emptied it.
        types: Records by type.
        modern: False before 0.84: no durations, no system message, no usage of compactions.
    """

    modern = True

    def __init__(self) -> None:
        self.out: list[str] = []
        self.types: Counter[str] = Counter()
        self._entries = 0

    def put(self, kind: str, line: str) -> None:
        """Append one line."""
        self.types[kind] += 1
        self.out.append(line)

    def next_id(self) -> str:
        """An entry id: 8 hex digits, different within a file."""
        self._entries += 1
        return f"{self._entries * 2654435761 & 0xFFFFFFFF:08x}"

    def open_session(self, session_id: str, now: int, model: parts.Model) -> None:
        """The header; `model` is the one in force."""
        self.put(
            "session",
            f'{{"type":"session","version":3,"id":"{session_id}","timestamp":"{parts.iso(now)}","cwd":"/home/dev/shop"}}\n',
        )

    def message(self, message: str, now: int) -> None:
        """A system, user or toolResult message."""

    def answer(self, answer: parts.Answer, now: int) -> None:
        """An assistant message with the updates that led to it."""

    def failed_answer(self, message: str, now: int) -> None:
        """An assistant message that is only an error."""

    def run_start(self) -> None:
        """`agent_start`."""

    def turn_start(self) -> None:
        """`turn_start`."""

    def tools(self, ran: list[parts.Ran]) -> None:
        """The execution of the calls of one message."""

    def turn_end(self, message: str, results: list[str]) -> None:
        """`turn_end`."""

    def run_end(self, messages: list[str], *, will_retry: bool) -> None:
        """`agent_end`."""

    def retry_start(self, error: str, delay_ms: int, now: int) -> None:
        """What follows a failed run that is tried again."""

    def retry_end(self) -> None:
        """The retry went well."""

    def compaction(self, tokens_before: int, usage: str, now: int) -> None:
        """A compaction that went well."""

    def compaction_failed(self) -> None:
        """A compaction whose summary was refused; session files do not mention it."""

    def settled(self) -> None:
        """`agent_settled`."""


class SessionWriter(Writer):
    """Session files of 1.6: a tree of entries, here a line of them."""

    _parent = "null"

    def _entry(self, kind: str, body: str, now: int) -> None:
        entry = self.next_id()
        self.put(
            kind,
            f'{{"type":"{kind}","id":"{entry}","parentId":{self._parent},"timestamp":"{parts.iso(now)}",{body}}}\n',
        )
        self._parent = f'"{entry}"'

    def open_session(self, session_id: str, now: int, model: parts.Model) -> None:
        super().open_session(session_id, now, model)
        self._parent = "null"
        self._entry("model_change", f'"provider":"{model.provider}","modelId":"{model.name}"', now)
        self._entry("thinking_level_change", '"thinkingLevel":"low"', now)

    def message(self, message: str, now: int) -> None:
        self._entry("message", f'"message":{message}', now)

    def answer(self, answer: parts.Answer, now: int) -> None:
        self._entry("message", f'"message":{answer.message}', now)

    def failed_answer(self, message: str, now: int) -> None:
        self._entry("message", f'"message":{message}', now)

    def retry_start(self, error: str, delay_ms: int, now: int) -> None:
        self._entry("context_edit", f'"targetId":{self._parent},"replacement":null', now)

    def compaction(self, tokens_before: int, usage: str, now: int) -> None:
        self._entry(
            "compaction",
            f'"summary":"## Goal\\nKeep the list.\\n","firstKeptEntryId":{self._parent},"tokensBefore":{tokens_before},'
            f'"details":{{"readFiles":[],"modifiedFiles":[]}},"usage":{usage},"fromHook":false',
            now,
        )


class DeltaWriter(Writer):
    """`pi --mode json` of 1.6: an update holds the usage so far and one piece."""

    def message(self, message: str, now: int) -> None:
        self.put("message_start", f'{{"type":"message_start","message":{message}}}\n')
        self.put("message_end", f'{{"type":"message_end","message":{message}}}\n')

    def failed_answer(self, message: str, now: int) -> None:
        self.message(message, now)

    def answer(self, answer: parts.Answer, now: int) -> None:
        pending = "pending" if self.modern else "stop"
        self.put(
            "message_start",
            f'{{"type":"message_start","message":{{"role":"assistant","content":[],{answer.model.head},'
            f'"usage":{parts.NO_USAGE},"stopReason":"{pending}","timestamp":{answer.started}}}}}\n',
        )
        self.updates(answer.blocks, answer.usage, f'{answer.model.head},"usage":{answer.usage},{answer.tail}')
        self.put("message_end", f'{{"type":"message_end","message":{answer.message}}}\n')

    def updates(self, blocks: list[parts.Block], usage: str, tail: str) -> None:
        """The updates of one answer."""
        for index, block in enumerate(blocks):
            head = f'{{"type":"message_update","usage":{usage},"assistantMessageEvent":{{"type":"{block.kind}_'
            if block.kind == "toolcall":
                start = f'"id":"{block.call_id}","toolName":"{block.tool}"'
                end = f'"toolCall":{block.json}'
                pieces: Sequence[str] = parts.escaped_pieces(block.args)
            else:
                start = ""
                end = f'"content":"{block.text}"'
                pieces = block.pieces
            delta = f'{head}delta","contentIndex":{index},"delta":"'
            close = '"}}\n'
            self.types["message_update"] += len(pieces) + 2
            self.out.append(
                f'{head}start","contentIndex":{index}{"," if start else ""}{start}}}}}\n'
                f"{delta}{(close + delta).join(pieces)}{close}"
                f'{head}end","contentIndex":{index},{end}}}}}\n'
            )

    def run_start(self) -> None:
        self.put("agent_start", '{"type":"agent_start"}\n')

    def turn_start(self) -> None:
        self.put("turn_start", '{"type":"turn_start"}\n')

    def tools(self, ran: list[parts.Ran]) -> None:
        for call in ran:
            self.put(
                "tool_execution_start", f'{{"type":"tool_execution_start",{parts.named(call)},{parts.args(call)}}}\n'
            )
        for call in sorted(ran, key=lambda one: one.duration_ms):  # ends come in order of completion
            if call.block.tool == "bash":
                update = f'{{"type":"tool_execution_update",{parts.named(call)},{parts.args(call)},"partialResult":{{"content":['
                for shown in ("", parts.content(call.output)) + (
                    (parts.content(call.output),) if call.duration_ms > 200 else ()
                ):
                    details = ',"details":{}' if shown else ""
                    self.put("tool_execution_update", f"{update}{shown}]{details}}}}}\n")
            self.put("tool_execution_end", self._tool_end(call))

    def _tool_end(self, call: parts.Ran) -> str:
        more = ',"details":{}' if call.is_error else ""
        duration = f',"durationMs":{call.duration_ms}' if self.modern else ""
        if self.modern and not call.is_error:
            printed = f'"output":"{call.output}","truncated":false,"exit_code":0,"wall_time_seconds":0.1'
            data = f"{{{printed}}}" if call.block.tool == "bash" else f'"{call.output}"'
            more += f',"structuredContent":{data}'
        return (
            f'{{"type":"tool_execution_end",{parts.named(call)},"result":{{"content":[{parts.content(call.output)}]{more}}},'
            f'"isError":{"true" if call.is_error else "false"}{duration}}}\n'
        )

    def turn_end(self, message: str, results: list[str]) -> None:
        self.put("turn_end", f'{{"type":"turn_end","message":{message},"toolResults":[{",".join(results)}]}}\n')

    def run_end(self, messages: list[str], *, will_retry: bool) -> None:
        retry = (',"willRetry":true' if will_retry else ',"willRetry":false') if self.modern else ""
        self.put("agent_end", f'{{"type":"agent_end","messages":[{",".join(messages)}]{retry}}}\n')

    def retry_start(self, error: str, delay_ms: int, now: int) -> None:
        self.put(
            "auto_retry_start",
            f'{{"type":"auto_retry_start","attempt":1,"maxAttempts":3,"delayMs":{delay_ms},"errorMessage":"{error}"}}\n',
        )
        if self.modern:
            entry, parent = self.next_id(), self.next_id()
            self.put(
                "entry_appended",
                f'{{"type":"entry_appended","entry":{{"type":"context_edit","id":"{entry}","parentId":"{parent}",'
                f'"timestamp":"{parts.iso(now)}","targetId":"{parent}","replacement":null}}}}\n',
            )

    def retry_end(self) -> None:
        self.put("auto_retry_end", '{"type":"auto_retry_end","success":true,"attempt":1}\n')

    def compaction(self, tokens_before: int, usage: str, now: int) -> None:
        self.put("compaction_start", '{"type":"compaction_start","reason":"threshold"}\n')
        more = f',"estimatedTokensAfter":{tokens_before // 3},"usage":{usage}' if self.modern else ""
        self.put(
            "compaction_end",
            '{"type":"compaction_end","reason":"threshold","result":{"summary":"## Goal\\nKeep the list.\\n",'
            f'"firstKeptEntryId":"{self.next_id()}","tokensBefore":{tokens_before}{more},'
            '"details":{"readFiles":[],"modifiedFiles":[]}},"aborted":false,"willRetry":false}\n',
        )

    def compaction_failed(self) -> None:
        self.put("compaction_start", '{"type":"compaction_start","reason":"threshold"}\n')
        self.put(
            "compaction_end",
            '{"type":"compaction_end","reason":"threshold","aborted":false,"willRetry":false,'
            '"errorMessage":"Auto-compaction failed: 400: summary refused"}\n',
        )

    def settled(self) -> None:
        if self.modern:
            self.put("agent_settled", '{"type":"agent_settled","aborted":false}\n')


class CumulativeWriter(DeltaWriter):
    """`pi --mode json` of 0.73: an update repeats the whole message twice, so size is quadratic."""

    modern = False

    def updates(self, blocks: list[parts.Block], usage: str, tail: str) -> None:
        done = ""
        for index, block in enumerate(blocks):
            head = f'{{"type":"message_update","assistantMessageEvent":{{"type":"{block.kind}_'
            self.types["message_update"] += self._block(block, head, index, done, tail)
            done += block.json + ","

    def _block(self, block: parts.Block, head: str, index: int, done: str, tail: str) -> int:
        begin = '{"role":"assistant","content":[' + done
        pieces: Sequence[str]
        if block.kind == "toolcall":
            open_ = f'{{"type":"toolCall","id":"{block.call_id}","name":"{block.tool}","arguments":{{}},"partialJson":"'
            close = f'","index":{index}}}'
            end, pieces = f'"toolCall":{block.json}', parts.escaped_pieces(block.args)
        else:
            key = block.kind
            open_ = f'{{"type":"{key}","{key}":"'
            signature = "" if key == "text" else ',"thinkingSignature":""'
            close = f'"{signature},"index":{index}}}'
            end, pieces = f'"content":"{block.text}"', block.pieces
        finish = f"],{tail}}}"
        lines: list[str] = []
        sofar = ""
        message = f"{begin}{open_}{close}{finish}"
        lines.append(f'{head}start","contentIndex":{index},"partial":{message}}},"message":{message}}}\n')
        for piece in pieces:
            sofar += piece
            message = f"{begin}{open_}{sofar}{close}{finish}"
            lines.append(
                f'{head}delta","contentIndex":{index},"delta":"{piece}","partial":{message}}},"message":{message}}}\n'
            )
        message = f"{begin}{block.json}{finish}"
        lines.append(f'{head}end","contentIndex":{index},{end},"partial":{message}}},"message":{message}}}\n')
        self.out.append("".join(lines))
        return len(lines)


WRITERS: Final[dict[str, type[Writer]]] = {
    "delta": DeltaWriter,
    "cumulative": CumulativeWriter,
    "session": SessionWriter,
}
