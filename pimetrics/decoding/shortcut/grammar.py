"""JSON as pi writes it, in regular expressions: only what can be checked without decoding it.

The patterns are strict: what they match is JSON. (They take bytes; that these are UTF-8 is checked apart.)
"""

from __future__ import annotations

from typing import Final

_ESCAPE: Final = rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'

CHARACTERS: Final = rb"(?:[ !#-\[\]-\xff]++|%b)*+" % _ESCAPE
"""The inside of a string: no raw control character, no unknown escape."""

ASCII_CHARACTERS: Final = rb"(?:[ !#-\[\]-\x7f]++|%b)*+" % _ESCAPE
"""The same without characters beyond ASCII."""

_NUMBER: Final = rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"

USAGE: Final = (
    rb'\{"input":N,"output":N,"cacheRead":N,"cacheWrite":N,(?:"reasoning":N,)?"totalTokens":N,"cost":\{"input":N,'
    rb'"output":N,"cacheRead":N,"cacheWrite":N,"total":N(?:,"totalFromProvider":(?:true|false))?\}'
    rb'(?:,"cacheWrite1h":N)?(?:,"reasoning":N)?\}'
).replace(b"N", _NUMBER)
"""A usage object of any version."""

_SCALAR: Final = rb"(?:S|N|true|false|null)"
_FLAT: Final = rb"(?:S|N|true|false|null|\[(?:V(?:,V)*+)?+\]|\{(?:S:V(?:,S:V)*+)?+\})".replace(b"V", _SCALAR)
_NESTED: Final = rb"(?:S|N|true|false|null|\[(?:V(?:,V)*+)?+\]|\{(?:S:V(?:,S:V)*+)?+\})".replace(b"V", _FLAT)

OBJECT: Final = (
    rb"\{(?:S:V(?:,S:V)*+)?+\}".replace(b"V", _NESTED).replace(b"N", _NUMBER).replace(b"S", b'"%b"' % CHARACTERS)
)
"""An object at most three deep, as the arguments of tools are."""
