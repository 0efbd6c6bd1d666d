"""Lines to JSON objects, by ijson: the only place that imports it.

A batch of whole lines is decoded in one go (three times as fast as a parser a line). When anything in a batch is odd,
the batch is decoded again line by line, so that a bad line costs only itself. That the batch gave one object a line
is proof that each line is one object: every line begins with `{` and ends with `}`, JSON allows no raw newline inside
a string and no `}` followed by `{` inside a value, so no object can reach over a line end, and a line with more than
one value makes the count too large.

What ijson's backends do differently (3.6, measured) is evened out here, so rows and reasons never depend on them:

- a lone surrogate escape (pi writes half emojis) is `?`, an error or a surrogate: it becomes U+FFFD before decoding;
- integers beyond 64 bits, floats out of range and integers of more than 4,300 digits are errors, or crash the process
  with `use_float=False`: a line that failed is tried again with such numbers as the nearest double, which is what pi's
  JavaScript reads;
- an open string or half a character behind the last value is overlooked: a line end is fed after it (`_Text`);
- the Python backend accepts `+1`, `-.5`, `1.e5` and exotic white space: it is checked for them.

A long string must reach ijson in one piece: fed in parts it costs quadratic time (64 MiB: 30 s against 0.05 s).

`ijson.items` keeps the path to each value that is open: 40 KB of nothing but `[` fill 1 GB, and a long name in front of
many values is copied for each. So values are built from events, which have no paths, wherever a line could do that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

import ijson

from pimetrics.records import INVALID_JSON, INVALID_UTF8, NOT_OBJECT, TRUNCATED, Record

Object = dict[str, Any]

BATCH_BYTES: Final = 1 << 20
"""Lines are joined up to this size; a longer line goes alone and is not copied."""

_PLAIN_BYTES: Final = 64 * 1024
_PLAIN_BRACKETS: Final = 256
"""A line with no more of both is given to `ijson.items`; its paths take 16 MiB at worst."""

_STRICT_BACKENDS: Final = frozenset({"yajl2_c"})


class Backend(Protocol):
    """What is used of an ijson backend module."""

    backend: str

    def items(self, source: Any, prefix: str, **config: Any) -> Iterator[Any]:
        """Yield the values below `prefix`."""

    def basic_parse(self, source: Any, **config: Any) -> Iterator[tuple[str, Any]]:
        """Yield what stands in a text, bracket by bracket and value by value."""


def find_backend(name: str | None = None) -> Backend:
    """Return an ijson backend by name; without one, the fastest that is installed (or `IJSON_BACKEND`)."""
    found: Backend = ijson.get_backend(name) if name else ijson.get_backend(ijson.backend)
    return found


def parse(records: Sequence[Record], backend: Backend) -> list[list[Object] | str]:
    """Decode lines.

    Returns:
        One item a record: its objects (more than one when whole objects are fused on a line), or the reject reason.
    """
    out: list[list[Object] | str] = []
    for batch in _batches(records):
        objects = _parse_batch(batch, backend)
        out += [[each] for each in objects] if objects is not None else [_parse_line(r, backend) for r in batch]
    return out


def parse_arrays(arrays: Sequence[bytes], backend: Backend) -> list[list[Any]]:
    """Decode what should be the insides of JSON arrays, one array a line; all are empty when one of them is not.

    (Or that one alone, where it is long or deep.)
    """
    plain = [_is_plain(array) for array in arrays]
    if all(plain):
        return _parse_arrays(arrays, backend)
    together = iter(_parse_arrays([array for array, is_plain in zip(arrays, plain, strict=True) if is_plain], backend))
    return [
        next(together) if is_plain else _parse_arrays([array], backend, paths=False)[0]
        for array, is_plain in zip(arrays, plain, strict=True)
    ]


def _parse_arrays(arrays: Sequence[bytes], backend: Backend, *, paths: bool = True) -> list[list[Any]]:
    joined = b"[" + b"]\n[".join(arrays) + b"]"
    if _HALF.search(joined):
        joined = _mend_surrogates(joined)
    try:
        found = _values(joined, backend, paths=paths)
    except (ijson.JSONError, UnicodeDecodeError, ValueError):
        found = []
    if len(found) != len(arrays) or not all(type(each) is list for each in found):
        return [[] for _ in arrays]
    return found


def _batches(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    batch: list[Record] = []
    size = 0
    for record in records:
        plain = _is_plain(record.data)
        if batch and not (plain and size + len(record.data) <= BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += len(record.data)
        if not plain:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _is_plain(line: bytes) -> bool:
    size = len(line)
    return size <= _PLAIN_BRACKETS or (size <= _PLAIN_BYTES and line.count(b"[") + line.count(b"{") <= _PLAIN_BRACKETS)


def _parse_batch(batch: Sequence[Record], backend: Backend) -> list[Object] | None:
    lines = [record.data for record in batch]
    if len(lines) == 1:
        return None
    if not all(line[:1] == b"{" and line[-1:] == b"}" for line in lines):
        return None
    joined = b"\n".join(lines)
    if _HALF.search(joined):
        joined = _mend_surrogates(joined)
    try:
        objects = _values(joined, backend)
    except (ijson.JSONError, UnicodeDecodeError, ValueError):
        return None
    if len(objects) != len(batch) or not all(type(each) is dict for each in objects):
        return None
    return objects


def _parse_line(record: Record, backend: Backend) -> list[Object] | str:
    line = record.data
    if _HALF.search(line):
        line = _mend_surrogates(line)
    plain = _is_plain(line)
    try:
        values = _values(line, backend, paths=plain)
    except (ijson.JSONError, UnicodeDecodeError, ValueError):
        mended = _mend_numbers(line)
        if mended == line:
            return _reason(record)
        try:
            values = _values(mended, backend, paths=plain)
        except (ijson.JSONError, UnicodeDecodeError, ValueError):
            return _reason(record)
    if values and all(type(each) is dict for each in values):
        return values
    if not record.ended:
        return TRUNCATED
    return NOT_OBJECT if len(values) == 1 else INVALID_JSON


def _reason(record: Record) -> str:
    if not record.ended:
        return TRUNCATED
    try:
        record.data.decode()
    except UnicodeDecodeError:
        return INVALID_UTF8
    return INVALID_JSON


def _values(data: bytes, backend: Backend, *, paths: bool = True) -> list[Any]:
    """Return the values in a text; without paths slower, in memory that grows only with the text."""
    if backend.backend not in _STRICT_BACKENDS:
        if not _is_strict(data):
            raise ijson.JSONError("not JSON, though this backend reads it")
        data = _mend_numbers(data)  # it keeps integers of any length, which the other cannot
    if not paths:
        return _build(backend.basic_parse(_Text(data), multiple_values=True, use_float=True, buf_size=len(data) + 1))
    found: Iterable[Any] = backend.items(_Text(data), "", multiple_values=True, use_float=True, buf_size=len(data) + 1)
    return list(found)


def _build(events: Iterable[tuple[str, Any]]) -> list[Any]:
    found = []
    builder = ijson.ObjectBuilder()
    depth = 0
    for event, value in events:
        builder.event(event, value)
        depth += _STEPS.get(event, 0)
        if not depth:
            found.append(builder.value)
            builder = ijson.ObjectBuilder()
    return found


_STEPS: Final = {"start_map": 1, "start_array": 1, "end_map": -1, "end_array": -1}


class _Text:
    """Whole lines as ijson reads them: in one piece, then a line end.

    Without the line end the C backend takes an open string behind the last value for nothing (`{}"a` is one object),
    and the Python one half a character; with it, each is an error.
    """

    def __init__(self, data: bytes) -> None:
        self._rest = [b"\n", data]

    def read(self, size: int = -1) -> bytes:
        """Return the next piece, empty at the end (and for the empty read with which ijson asks for the type)."""
        return self._rest.pop() if size and self._rest else b""


_HALF: Final = re.compile(rb"\\u[dD]")
_SURROGATES: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair: kept
    rb"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"  # a half without its other half
    rb"|\\."  # any other escape: kept, and never taken apart
)
# A string that is left open reaches to the end: looking for another behind each of its quotes takes quadratic time. And
# nothing is given back: to remember where it could be takes a hundred times the memory of a long text.
_STRINGS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+("?)', re.DOTALL)
_STRING_OR_NUMBER: Final = re.compile(
    rb'"(?:[^"\\]++|\\.)*+"?|(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)',
    re.DOTALL,
)
_OUTSIDE_STRINGS: Final = re.compile(rb"[ \t\n\r\v\f{}\[\]:,0-9eE.+\-a-z]*")
_NO_NUMBER: Final = re.compile(rb"(?:^|[^0-9eE])\+|(?<![0-9])[eE]\+|(?<![0-9])\.|\.(?![0-9])")
_INT64_CHARS: Final = 20
_LARGEST: Final = b"1.7976931348623157e308"


def _mend_surrogates(data: bytes) -> bytes:
    return _SURROGATES.sub(lambda m: b"\\ufffd" if m.group(1) else m.group(), data)


def _mend_numbers(line: bytes) -> bytes:
    return _STRING_OR_NUMBER.sub(lambda m: _nearest_double(m.group(1)) if m.group(1) else m.group(), line)


def _nearest_double(number: bytes) -> bytes:
    is_whole = number.lstrip(b"-").isdigit()
    if is_whole and len(number) <= _INT64_CHARS and -(2**63) <= int(number) < 2**63:
        return number
    value = float(number)
    if value in (float("inf"), float("-inf")):
        return _LARGEST if value > 0 else b"-" + _LARGEST
    return repr(value).encode() if is_whole else number


def _is_strict(data: bytes) -> bool:
    outside = _STRINGS.sub(rb'"\1', data).replace(b'""', b" ")
    return _OUTSIDE_STRINGS.fullmatch(outside) is not None and _NO_NUMBER.search(outside) is None
