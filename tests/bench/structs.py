"""Typed structs for the msgspec peer: only what is added up; msgspec skips every other field."""

from msgspec import Struct


class Cost(Struct):
    """`usage.cost`."""

    total: float


class Usage(Struct):
    """`usage`; field names as on the wire."""

    input: int
    output: int
    cacheRead: int
    cacheWrite: int
    cost: Cost


class Message(Struct):
    """`message` of a record or entry."""

    role: str
    usage: Usage | None = None


class Result(Struct):
    """`result` of `compaction_end`; tools have one too, without usage."""

    usage: Usage | None = None


class Record(Struct):
    """Any line."""

    type: str
    message: Message | None = None
    result: Result | None = None
    usage: Usage | None = None
