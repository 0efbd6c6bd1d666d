"""What messages are made of, as JSON text: models, usage figures, content blocks, tool calls, times."""

from __future__ import annotations

import time
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
        f'{{"role":"toolResult",{named(call)},"content":[{content(call.output)}]{details},'
        f'"isError":{"true" if call.is_error else "false"}{duration},"timestamp":{ended}}}'
    )


def named(call: Ran) -> str:
    return f'"toolCallId":"{call.block.call_id}","toolName":"{call.block.tool}"'


def args(call: Ran) -> str:
    return f'"args":{call.block.args}'


def content(text: str) -> str:
    return f'{{"type":"text","text":"{text}"}}'


def escaped_pieces(args: str) -> list[str]:
    """Arguments as the pieces of a JSON string in which a model sends them, at most 60 of them."""
    step = max(16, len(args) // 60)
    return [args[i : i + step].replace("\\", "\\\\").replace('"', '\\"') for i in range(0, len(args), step)]
