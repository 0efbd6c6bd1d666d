"""The content of a message or result, laid flat: of its blocks only texts, sizes and tool calls are asked for.

A block costs ijson ten times as much as the strings in it, so only these are handed to it, and long texts of which only
the size is asked for are left out. What is laid flat is taken apart at the ends of its strings, as JSON itself is, and
every string is decoded, or proved to be one by its bytes: it holds no control character, is UTF-8, and has no escape
but the common ones of one character. Content in any other form is decoded whole.
"""

from __future__ import annotations

import re
from typing import Any, Final

from pimetrics.decoding import fields
from pimetrics.events import Call

LONG_BYTES: Final = 512
"""Below this a text costs no more when it is decoded."""

LONG_CONTENT: Final = 1024
"""Below this taking apart several blocks costs more than decoding them."""

_TEXT: Final = b'{"type":"text","text":"'
_TEXT_FIRST: Final = b"[" + _TEXT
_TEXT_AT: Final = len(_TEXT)
_THINKING: Final = b'{"type":"thinking","thinking":"'
_SIGNATURE: Final = b',"thinkingSignature":"'
_CALL: Final = re.compile(
    rb'\{"type":"toolCall","id":("[^"]*(?<!\\)"),"name":("[^"]*(?<!\\)"),"arguments":\{(?="[A-Za-z_]+":")'
)
_KEY: Final = re.compile(rb'"([A-Za-z_]+)":"')

_OTHER_ESCAPE: Final = re.compile(rb'\\[^n](?<![t"])')  # twice as fast as [^nt"], since most are \n
_CONTROL: Final = range(0x20)
_BACKSLASH: Final = ord("\\")


VALUES: Final = 4
"""How many values content becomes."""


def lay_flat(content: bytes, *, answer: bool, sizes_only: bool) -> bytes:
    """Return the values, for `read`, that stand for a content: bytes of texts left out, texts, calls, what is not read.

    Args:
        content: What should be a JSON array of blocks: it begins and ends as one.
        answer: It is that of an assistant message, which may think and call tools.
        sizes_only: Long texts may be left out.
    """
    if _is_one_text(content):
        if sizes_only and len(content) > LONG_BYTES and (size := _size(content[_TEXT_AT + 1 : -3])) is not None:
            return b"%d,[],null,null" % size
        return b"0,[%b],null,null" % content[_TEXT_AT:-2]
    flat = _flat(content, answer=answer, sizes_only=sizes_only) if len(content) > LONG_CONTENT else None
    return flat or b"null,%b,null,null" % content


def _is_one_text(content: bytes) -> bool:
    """Whether it is one block of text without an escaped quote, as most content is."""
    return (
        content.startswith(_TEXT_FIRST)
        and content.find(b'"', _TEXT_AT + 1) == len(content) - 3
        and content[-4] != _BACKSLASH
        and content.endswith(b"}]")
    )


def _flat(content: bytes, *, answer: bool, sizes_only: bool) -> bytes | None:
    texts: list[bytes] = []
    calls: list[bytes] = []
    unread: list[bytes] = []
    more = 0
    at = 1
    last = len(content) - 1
    while at < last:
        if content.startswith(_TEXT, at):
            start = at + len(_TEXT) - 1
        elif not answer:
            return None
        elif content.startswith(_THINKING, at):
            start = at + len(_THINKING) - 1
        else:
            call = _CALL.match(content, at)
            if call is None:
                return None
            start, at = 0, _arguments(content, call.end(), unread)
            if not at:
                return None
            calls += (call[1], call[2], b"%d" % (at - call.end() + 1))
        if start:
            at = _end(content, start + 1) + 1
            if sizes_only and at - start > LONG_BYTES and (size := _size(content[start + 1 : at - 1])) is not None:
                more += size
            else:
                texts.append(content[start:at])
            if answer and content.startswith(_SIGNATURE, at):
                start = at + len(_SIGNATURE) - 1
                at = _end(content, start + 1) + 1
                text = content[start:at]
                if at - start <= LONG_BYTES or _size(text[1:-1]) is None:
                    unread.append(text)
        if not at or content[at : at + 2] not in {b"},", b"}]"}:
            return None
        at += 2
    if at != last + 1 and content != b"[]":
        return None
    return b"%d,[%b],[%b],[%b]" % (more, b",".join(texts), b",".join(calls), b",".join(unread))


def read(more: Any, texts: Any, calls: Any) -> tuple[int, str, tuple[Call, ...]]:
    """Do as `fields.content`, with what `lay_flat` made."""
    if more is None:
        return fields.content(texts)
    for text in texts:
        more += len(text) if text.isascii() else fields.size(text)
    last = texts[-1][-200:] if texts else ""
    if not calls:
        return more, last, ()
    return more, last, tuple([Call(calls[at], calls[at + 1], calls[at + 2]) for at in range(0, len(calls), 3)])


def content_hash(more: Any, texts: Any) -> str:
    """Do as `fields.content_hash`, with what `lay_flat` made of the content of a user."""
    return fields.content_hash(texts if more is None else "\n".join(texts))


def _arguments(content: bytes, at: int, unread: list[bytes]) -> int:
    """Return where arguments end that are texts and whose size as compact JSON is that of their bytes; 0 for others."""
    keys: set[bytes] = set()
    while (key := _KEY.match(content, at)) is not None and key[1] not in keys:
        keys.add(key[1])
        start = key.end() - 1
        at = _end(content, start + 1) + 1
        text = content[start:at]
        if at - start <= LONG_BYTES or _size(text[1:-1]) is None:
            if _BACKSLASH in text and _OTHER_ESCAPE.search(text):
                return 0
            unread.append(text)
        if not content.startswith(b",", at):
            return at + 1 if at and content.startswith(b"}", at) else 0
        at += 1
    return 0


def _end(content: bytes, start: int) -> int:
    """Return where the string whose inside begins at `start` ends, or -1."""
    end = content.find(b'"', start)
    while end > start and content[end - 1] == _BACKSLASH:
        first = end - 1
        while first > start and content[first - 1] == _BACKSLASH:
            first -= 1
        if (end - first) % 2 == 0:
            break
        end = content.find(b'"', end + 1)
    return end


def _size(text: bytes) -> int | None:
    """Return the bytes of the text that the inside of a JSON string stands for; None when only decoding can tell."""
    if any(map(text.__contains__, _CONTROL)) or not _is_utf8(text):
        return None
    if _BACKSLASH not in text:
        return len(text)
    return None if _OTHER_ESCAPE.search(text) else len(text) - text.count(b"\\")


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
