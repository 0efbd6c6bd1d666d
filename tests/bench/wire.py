"""How pi writes things down: one writer a dialect, with the key orders of the recordings.

A writer takes finished parts (messages as JSON text) and appends whole lines to `out`. It knows no totals and makes no
choices; `generate` does.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Model(NamedTuple):
    """A model of the recordings; prices are nano-dollars a token, so that sums are exact integers."""

    provider: str
    name: str
    api: str
    prices: tuple[int, int, int, int]  # input, output, cacheRead, cacheWrite

    @property
    def head(self) -> str:
        """The fields that name the model in an assistant message."""
        return f'"api":"{self.api}","provider":"{self.provider}","model":"{self.name}"'


class Block(NamedTuple):
    """A content block: text or thinking with the pieces it came in, or a tool call."""

    kind: str  # text, thinking, toolcall
    json: str  # the block as it stands in the settled message
    text: str = ""
    pieces: Sequence[str] = ()
    call_id: str = ""
    tool: str = ""
    args: str = ""


class Ran(NamedTuple):
    """A tool call that ran."""

    block: Block
    is_error: bool
    duration_ms: int
    output: str


class Answer(NamedTuple):
    """An assistant message; `tail` is what old updates of it end with, `started` its timestamp."""

    message: str
    model: Model
    blocks: list[Block]
    usage: str
    tail: str
    started: int


NO_USAGE: Final = (
    '{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,'
    '"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}'
)
"""The usage of a message that has none yet."""


def dollars(nano: int) -> str:
    """Nano-dollars as JavaScript prints the same double, but never with an exponent."""
    if not nano:
        return "0"
    if nano < 100_000:
        return f"{nano / 1e9:.9f}".rstrip("0")
    return repr(nano / 1e9).removesuffix(".0")


_SECONDS: dict[int, str] = {}


def iso(ms: int) -> str:
    """Epoch ms as pi writes times of entries."""
    second, rest = divmod(ms, 1000)
    if second not in _SECONDS:
        if len(_SECONDS) > 1000:
            _SECONDS.clear()
        _SECONDS[second] = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
    return f"{_SECONDS[second]}.{rest:03d}Z"


_TOOLS_ADDED: Final = ",".join(
    f'{{"name":"{name}","description":"(description removed)","parameters":{{"type":"object"}},'
    '"constrainedSampling":{"type":"json_schema","strict":"prefer"}}'
    for name in ("read", "bash", "edit", "write")
)


def system_message(now: int) -> str:
    """The system message that opens a session from 0.86 on."""
    return (
        '{"role":"system","content":"","sections":{"preamble":"Help in the shop. Answer briefly.","cwd":"(section text '
        f'removed)"}},"timestamp":{now},"toolsAdded":[{_TOOLS_ADDED}]}}'
    )


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

    def open_session(self, session_id: str, now: int, model: Model) -> None:
        """The header; `model` is the one in force."""
        self.put(
            "session",
            f'{{"type":"session","version":3,"id":"{session_id}","timestamp":"{iso(now)}","cwd":"/home/dev/shop"}}\n',
        )

    def message(self, message: str, now: int) -> None:
        """A system, user or toolResult message."""

    def answer(self, answer: Answer, now: int) -> None:
        """An assistant message with the updates that led to it."""

    def failed_answer(self, message: str, now: int) -> None:
        """An assistant message that is only an error."""

    def run_start(self) -> None:
        """`agent_start`."""

    def turn_start(self) -> None:
        """`turn_start`."""

    def tools(self, ran: list[Ran]) -> None:
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
            kind, f'{{"type":"{kind}","id":"{entry}","parentId":{self._parent},"timestamp":"{iso(now)}",{body}}}\n'
        )
        self._parent = f'"{entry}"'

    def open_session(self, session_id: str, now: int, model: Model) -> None:
        super().open_session(session_id, now, model)
        self._parent = "null"
        self._entry("model_change", f'"provider":"{model.provider}","modelId":"{model.name}"', now)
        self._entry("thinking_level_change", '"thinkingLevel":"low"', now)

    def message(self, message: str, now: int) -> None:
        self._entry("message", f'"message":{message}', now)

    def answer(self, answer: Answer, now: int) -> None:
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

    def answer(self, answer: Answer, now: int) -> None:
        pending = "pending" if self.modern else "stop"
        self.put(
            "message_start",
            f'{{"type":"message_start","message":{{"role":"assistant","content":[],{answer.model.head},'
            f'"usage":{NO_USAGE},"stopReason":"{pending}","timestamp":{answer.started}}}}}\n',
        )
        self.updates(answer.blocks, answer.usage, f'{answer.model.head},"usage":{answer.usage},{answer.tail}')
        self.put("message_end", f'{{"type":"message_end","message":{answer.message}}}\n')

    def updates(self, blocks: list[Block], usage: str, tail: str) -> None:
        """The updates of one answer."""
        for index, block in enumerate(blocks):
            head = f'{{"type":"message_update","usage":{usage},"assistantMessageEvent":{{"type":"{block.kind}_'
            if block.kind == "toolcall":
                start = f'"id":"{block.call_id}","toolName":"{block.tool}"'
                end = f'"toolCall":{block.json}'
                pieces: Sequence[str] = _escaped_pieces(block.args)
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

    def tools(self, ran: list[Ran]) -> None:
        for call in ran:
            self.put("tool_execution_start", f'{{"type":"tool_execution_start",{_named(call)},{_args(call)}}}\n')
        for call in sorted(ran, key=lambda one: one.duration_ms):  # ends come in order of completion
            if call.block.tool == "bash":
                update = f'{{"type":"tool_execution_update",{_named(call)},{_args(call)},"partialResult":{{"content":['
                for shown in ("", _content(call.output)) + ((_content(call.output),) if call.duration_ms > 200 else ()):
                    details = ',"details":{}' if shown else ""
                    self.put("tool_execution_update", f"{update}{shown}]{details}}}}}\n")
            self.put("tool_execution_end", self._tool_end(call))

    def _tool_end(self, call: Ran) -> str:
        more = ',"details":{}' if call.is_error else ""
        duration = f',"durationMs":{call.duration_ms}' if self.modern else ""
        if self.modern and not call.is_error:
            printed = f'"output":"{call.output}","truncated":false,"exit_code":0,"wall_time_seconds":0.1'
            data = f"{{{printed}}}" if call.block.tool == "bash" else f'"{call.output}"'
            more += f',"structuredContent":{data}'
        return (
            f'{{"type":"tool_execution_end",{_named(call)},"result":{{"content":[{_content(call.output)}]{more}}},'
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
                f'"timestamp":"{iso(now)}","targetId":"{parent}","replacement":null}}}}\n',
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

    def updates(self, blocks: list[Block], usage: str, tail: str) -> None:
        done = ""
        for index, block in enumerate(blocks):
            head = f'{{"type":"message_update","assistantMessageEvent":{{"type":"{block.kind}_'
            self.types["message_update"] += self._block(block, head, index, done, tail)
            done += block.json + ","

    def _block(self, block: Block, head: str, index: int, done: str, tail: str) -> int:
        begin = '{"role":"assistant","content":[' + done
        pieces: Sequence[str]
        if block.kind == "toolcall":
            open_ = f'{{"type":"toolCall","id":"{block.call_id}","name":"{block.tool}","arguments":{{}},"partialJson":"'
            close = f'","index":{index}}}'
            end, pieces = f'"toolCall":{block.json}', _escaped_pieces(block.args)
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


def joined(pieces: Sequence[str]) -> str:
    """The whole text of its pieces; two halves that meet become the raw emoji, as in JavaScript."""
    return "".join(pieces).replace("\\ud83c\\udf4b", "\U0001f34b")


def text_block(pieces: Sequence[str]) -> Block:
    """A text block."""
    text = joined(pieces)
    return Block("text", f'{{"type":"text","text":"{text}"}}', text, pieces)


def thinking_block(pieces: Sequence[str], signature: str) -> Block:
    """A thinking block."""
    text = joined(pieces)
    json = f'{{"type":"thinking","thinking":"{text}","thinkingSignature":"{signature}"}}'
    return Block("thinking", json, text, pieces)


def call_block(call_id: str, tool: str, args: str) -> Block:
    """A tool call; `args` is a JSON object."""
    json = f'{{"type":"toolCall","id":"{call_id}","name":"{tool}","arguments":{args}}}'
    return Block("toolcall", json, call_id=call_id, tool=tool, args=args)


def result_message(call: Ran, ended: int, *, modern: bool) -> str:
    """The toolResult message of a call."""
    details = ',"details":{}' if call.is_error else ""
    duration = f',"durationMs":{call.duration_ms}' if modern else ""
    return (
        f'{{"role":"toolResult",{_named(call)},"content":[{_content(call.output)}]{details},'
        f'"isError":{"true" if call.is_error else "false"}{duration},"timestamp":{ended}}}'
    )


def _named(call: Ran) -> str:
    return f'"toolCallId":"{call.block.call_id}","toolName":"{call.block.tool}"'


def _args(call: Ran) -> str:
    return f'"args":{call.block.args}'


def _content(text: str) -> str:
    return f'{{"type":"text","text":"{text}"}}'


def _escaped_pieces(args: str) -> list[str]:
    """Arguments as the pieces of a JSON string in which a model sends them, at most 60 of them."""
    step = max(16, len(args) // 60)
    return [args[i : i + step].replace("\\", "\\\\").replace('"', '\\"') for i in range(0, len(args), step)]
