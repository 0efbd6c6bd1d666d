"""JSON as pi writes it, in regular expressions: only what can be checked without decoding it.

The patterns are strict: what they match is JSON in UTF-8. They cover what pi writes most; the rest is decoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import Final

_Match = Callable[..., re.Match[bytes] | None]


class Pattern:
    """A regular expression that is compiled when it is first used.

    Those that hold the grammar of a whole value take up to 20 ms each: together a third of the time that a report of
    session files, which needs none of them, takes to start.
    """

    def __init__(self, pattern: bytes) -> None:
        self._pattern = pattern

    @cached_property
    def match(self) -> _Match:
        """As that of `re.Pattern`; so is the other one."""
        return re.compile(self._pattern).match

    @cached_property
    def fullmatch(self) -> _Match:
        """See `match`."""
        return re.compile(self._pattern).fullmatch


_ESCAPE: Final = rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'
_BEYOND_ASCII: Final = (
    rb"[\xc2-\xdf][\x80-\xbf]|(?:\xe0[\xa0-\xbf]|\xed[\x80-\x9f]|[\xe1-\xec\xee\xef][\x80-\xbf])[\x80-\xbf]"
    rb"|(?:\xf0[\x90-\xbf]|[\xf1-\xf3][\x80-\xbf]|\xf4[\x80-\x8f])[\x80-\xbf]{2}"
)

CHARACTERS: Final = rb"(?:[ !#-\[\]-\x7f]++|%b|%b)*+" % (_ESCAPE, _BEYOND_ASCII)
"""The inside of a string: no raw control character, no unknown escape, whole characters."""

STRING: Final = b'"%b"' % CHARACTERS

_ASCII_STRING: Final = rb'"(?:[ !#-\[\]-\x7f]++|%b)*+"' % _ESCAPE

_NUMBER: Final = rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"

SCALAR: Final = rb"(?:%b|%b|true|false|null)" % (STRING, _NUMBER)

USAGE: Final = (
    rb'\{"input":N,"output":N,"cacheRead":N,"cacheWrite":N,(?:"reasoning":N,)?"totalTokens":N,"cost":\{"input":N,'
    rb'"output":N,"cacheRead":N,"cacheWrite":N,"total":N(?:,"totalFromProvider":(?:true|false))?\}'
    rb'(?:,"cacheWrite1h":N)?(?:,"reasoning":N)?\}'
).replace(b"N", _NUMBER)
"""A usage object of any version."""

STAMP: Final = rb'(?:,"receivedAt":(0|[1-9][0-9]{0,14}))?'
"""An arrival stamp, as it stands last in a record that has one."""


def _list(item: bytes) -> bytes:
    return rb"(?:%b(?:,(?![\]}])|(?=[\]}])))*+" % item


def _value(depth: int) -> bytes:
    """A value at most so deep: 1 is an array or object of scalars. A level more doubles the pattern."""
    scalar = rb"%b|%b|true|false|null" % (_ASCII_STRING, _NUMBER)
    if not depth:
        return b"(?:%b)" % scalar
    inner = _value(depth - 1)
    return rb"(?:%b|\[%b\]|\{%b\})" % (scalar, _list(inner), _list(_ASCII_STRING + b":" + inner))


OBJECT: Final = rb"\{%b\}" % _list(_ASCII_STRING + b":" + _value(3))
"""An ASCII object at most four deep, as the blocks of a message with the arguments of a tool are."""

DETAILS: Final = rb"\{%b\}" % _list(b"%b:(?:%b|%b)" % (STRING, STRING, _value(2)))
"""What a tool says of its result beside the content: texts, and ASCII values at most two deep."""

BLOCKS: Final = rb"\[%b\]" % _list(rb'(?:\{"type":"[a-z]++"(?:,"[A-Za-z]++":%b)*+\}|%b)' % (SCALAR, OBJECT))
"""The content of a message or result."""

MESSAGE: Final = rb'\{"role":"assistant","content":%b(?:,"(?!usage")[A-Za-z]++":%b|,"usage":%b)*+\}' % (
    BLOCKS,
    SCALAR,
    USAGE,
)
"""An assistant message."""
