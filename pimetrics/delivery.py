"""What a shipper and a receiver agree on: names of headers, of streams and of labels, and the sizes of a delivery.

The exchange, in the manner of the IETF's resumable uploads, below the path of the receiver:

    GET   /receive             200, JSON: who the receiver is, which labels it takes
    HEAD  /receive/STREAM      204, Upload-Offset: bytes of that stream that are on its disk, whole lines
    PATCH /receive/STREAM      body: the next whole lines, gzip, from Upload-Offset on; 200, the new Upload-Offset

A delivery is taken whole or not at all, and answered when it is on the disk. Told again it writes nothing, since the
receiver compares what it has and keeps only what is new; other bytes under the same name are refused (409).

A stream belongs to one receiver for good, since only that one can know whether a delivery whose answer was lost has
been taken. So every request names the receiver it is meant for, and any other refuses it (421).
"""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import blake2b
from typing import Final

PATH: Final = "/receive"

OFFSET: Final = "Upload-Offset"
COMPLETE: Final = "Upload-Complete"
"""`?1`: nothing will follow; the last line need not have its LF."""

BEFORE: Final = "Pimetrics-Before"
"""Fingerprint of the bytes before the offset, see `fingerprint`."""

RECEIVER: Final = "Pimetrics-Receiver"
"""The receiver that is meant, and in an answer the one that answers."""

AGE: Final = "Pimetrics-Age"
"""How long ago the file of the stream was last written, seconds. No time, since clocks of machines differ."""

LABEL: Final = "Pimetrics-Label-"
"""Beginning of a header that holds a label, percent-encoded."""

DIGEST: Final = "Content-Digest"
"""Of the body as it is sent (RFC 9530, sha-256)."""

LABELS: Final = ("team", "repo", "host")
"""Labels that an operator can allow; the metrics `pi_fleet_*` have these."""

MAX_LABEL_CHARS: Final = 64

BATCH_BYTES: Final = 1 << 20
"""How much of a stream one delivery holds, uncompressed, unless a line is longer."""

MAX_BODY_BYTES: Final = 144 << 20
"""Longest body, compressed and not: the longest line that is read (128 MiB) with some room."""

STREAM: Final = re.compile(r"[0-9a-z]{16,64}")
"""Names of streams: nothing that could be a path."""

_EDGE: Final = 4096


class InboxFullError(Exception):
    """The disk of the receiver has no room; nothing of the delivery was kept."""


class OtherContentError(Exception):
    """Under this name the receiver holds other bytes."""


class GapError(Exception):
    """The delivery begins beyond what is there.

    Attributes:
        offset: Bytes that are there.
    """

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


def fingerprint(head: bytes, tail: bytes) -> str:
    """Name what stands before an offset by its first and last bytes; see `edges`."""
    return blake2b(head + b"\n" + tail, digest_size=16).hexdigest()


def edges(offset: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return (position, length) of the first and the last bytes before an offset, for `fingerprint`."""
    length = min(_EDGE, offset)
    return (0, length), (offset - length, length)


def digest_of(hashed: bytes) -> str:
    """Return the header that goes with a body, from its SHA-256."""
    return f"sha-256=:{b64encode(hashed).decode()}:"
