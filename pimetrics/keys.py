"""How facts are named: identity is content, not place.

The same call reaches us from the stream, the session file, a fork's copied prefix, a resumed session, a re-read or
copied file. So a key is made only of what pi copies verbatim. Not in any key:

- entry ids: eight hex digits collide between files, and pi invents new ones when it migrates an old file in place;
- `responseId` or `toolCallId` alone: some providers reuse them;
- file names, offsets, session ids (a fork has its own) - except where nothing else is there (`root_key`).

A key ends with an occurrence number, because two equal keys inside one source are two facts; so the union over sources
keeps the larger count.

A fact that was cut off before its end cannot have its full key yet. It gets an `open_key`: the part that was known
already (its *alias*) and its ordinal among all facts of that alias in its source, the settled ones first. It gives way
as soon as that many settled facts of the alias are known from anywhere: replaced, never added (`gives_way`).
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from pimetrics.events import Message, Usage

Key = tuple[object, ...]

_OPEN: Final = "open"
_DONE_PARTS: Final = 5  # of the key of a done compaction: sort, anchor, tokens before, summary, occurrence
_EPOCH_MS: Final = (10**11, 10**14)
"""Numbers that are times: 1973 to 5138 in epoch ms. Nothing else in a key is that large."""
_ALIASED: Final = frozenset({"sessions", "messages", "usage", "turns", "runs", "compactions"})


def message_key(identity: Key, occurrence: int) -> Key:
    """Name a settled message by `Message.identity`; its `messages`, `usage` and `turns` rows share the name."""
    return (identity, occurrence)


def message_alias(message: Message) -> Key:
    """Name what is known of a message from its first byte on."""
    return (message.role, message.timestamp, message.provider, message.model)


def root_key(session_id: str | None, first_record: str | None) -> Key:
    """Stand in for an anchor or a parent where a source has none before it."""
    return ("session", session_id) if session_id else ("record", first_record)


def session_key(session_id: str, cwd: str | None) -> Key:
    """Name a session: its id is unique only within a working directory.

    RPC output does not tell the directory; its session gets an open key with the id as alias, and gives way to the
    one of the session file.
    """
    return (session_id, cwd)


def usage_entry_key(kind: str, time: int | None, model: Key, usage: Usage, occurrence: int) -> Key:
    """Name paid work that stands in an entry of its own; `model` is (provider, model) as the entry has them."""
    return ("entry", kind, time, model, usage, occurrence)


def compaction_key(anchor: Key, *fields: object) -> Key:
    """Name a compaction; the anchor is the last settled message before it."""
    return ("compaction", anchor, *fields)


def is_done_compaction(key: Key) -> bool:
    """Whether the key names a compaction that was done, or what it cost."""
    return key[0] == "compaction" and len(key) == _DONE_PARTS


def is_unanchored(key: Key) -> bool:
    """Whether a done compaction is named without the message before it.

    A stream that resumes, forks or switches to a session shows nothing of what stands before; when pi compacts before
    the first message, the stream cannot know the anchor that the session file has.
    """
    anchor = key[1]
    return isinstance(anchor, tuple) and anchor[0] in {"session", "record"}


def content_name(key: Key, session_id: str | None) -> Key:
    """Name a done compaction by its session and its content, which tell it from others all the same.

    Anchored and unanchored names of it are told apart: two that are anchored differently are two.
    """
    return ("unanchored" if is_unanchored(key) else "anchored", session_id, *key[2:4])


def counterpart(name: Key) -> Key:
    """Return the other one of the two names by content."""
    return ("anchored" if name[0] == "unanchored" else "unanchored", *name[1:])


def open_key(alias: Key, ordinal: int) -> Key:
    """Name a fact that was cut off; `ordinal` counts the facts of its alias in its source, from 1."""
    return (_OPEN, alias, ordinal)


def is_open(key: Key) -> bool:
    """Whether the key names a cut-off fact that a settled one may replace."""
    return key[0] == _OPEN


def open_alias(key: Key) -> Key:
    """Return the alias in an open key."""
    alias = key[1]
    assert isinstance(alias, tuple)
    return alias


def ordinal_of(key: Key) -> int:
    """Return the ordinal in an open key: how many settled facts of its alias it takes to replace it."""
    ordinal = key[2]
    assert isinstance(ordinal, int)
    return ordinal


def alias_of(table: str, key: Key) -> Key | None:
    """Return the alias under which an open key of the same table would have named the fact; None without one."""
    if table not in _ALIASED or key[0] == _OPEN:
        return None
    if table == "sessions":
        return key[:1]
    if key[0] == "compaction":
        return key[1] if table == "compactions" and isinstance(key[1], tuple) else None
    identity = key[0]
    return identity[:4] if isinstance(identity, tuple) else None


def gives_way(key: Key, settled: Mapping[Key, int]) -> bool:
    """Whether a cut-off fact is replaced, given how many settled facts each alias has."""
    return settled.get(open_alias(key), 0) >= ordinal_of(key)


def row_id(table: str, key: Key) -> str:
    """Return the public name of a fact: a stable hash of its key, 24 hex digits."""
    return digest(table, key).hex()


def digest(table: str, key: Key) -> bytes:
    """Return the hash behind `row_id`, 12 bytes."""
    return blake2b(f"{table}:{key!r}".encode("utf-8", "surrogatepass"), digest_size=12).digest()


def place(table: str, key: Key) -> int:
    """Return where a ledger on disk keeps a fact: near others of its time, and where its alias would be.

    The first epoch time inside the key, ms; so new facts go to the end of the primary key and the cost of a row stays
    flat, where bare hashes would touch a random page each. A key without a time is placed, below zero, by its hash.
    """
    subject = open_alias(key) if is_open(key) else alias_of(table, key) or key
    time = _first_time(subject)
    if time is not None:
        return time
    return -1 - int.from_bytes(blake2b(f"{subject!r}".encode("utf-8", "surrogatepass"), digest_size=7).digest(), "big")


def _first_time(key: Key) -> int | None:
    for part in key:
        if type(part) is int and _EPOCH_MS[0] <= part < _EPOCH_MS[1]:
            return part
        if isinstance(part, tuple) and (found := _first_time(part)) is not None:
            return found
    return None
