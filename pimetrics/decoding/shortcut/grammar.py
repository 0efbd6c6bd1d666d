"""JSON as pi writes it, in regular expressions: only what can be checked without decoding it.

The patterns are strict: what they match is JSON. (They take bytes; that these are UTF-8 is checked apart.)
"""

from __future__ import annotations

from typing import Final

STRING: Final = rb'"(?:[ !#-\[\]-\xff]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
"""A string with its quotes; no raw control character, no unknown escape."""

_NUMBER: Final = rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"

USAGE: Final = (
    rb'\{"input":N,"output":N,"cacheRead":N,"cacheWrite":N,(?:"reasoning":N,)?"totalTokens":N,"cost":\{"input":N,'
    rb'"output":N,"cacheRead":N,"cacheWrite":N,"total":N(?:,"totalFromProvider":(?:true|false))?\}'
    rb'(?:,"cacheWrite1h":N)?(?:,"reasoning":N)?\}'
).replace(b"N", _NUMBER)
"""A usage object of any version."""
