"""A stamped recording played again, as if it happened now.

Times are moved to the present and session ids are made new, so each playing is work of its own. The pace is that of the
arrival stamps. No clock and no sleep here: whoever plays asks for `plan` and waits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

_STAMP: Final = re.compile(rb',"receivedAt":([0-9]{13})\}$')
_TIME: Final = re.compile(rb'"(timestamp|receivedAt)":([0-9]{13})(?=[,}])')
_ISO_TIME: Final = re.compile(rb'"timestamp":"([0-9-]{10}T[0-9:.]{12}Z)"')
_UUID: Final = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})")


def plan(recording: bytes, start_ms: int, playing: int, speed: float = 1.0) -> Iterator[tuple[float, bytes]]:
    """Yield the records of a recording with the moment at which each is due.

    Args:
        recording: A whole stamped recording, one record a line.
        start_ms: When the playing starts, epoch ms.
        playing: Number of the playing; makes its session ids differ from those of the others.
        speed: How much faster than recorded. All times move closer together, and with them what is measured by
            arrival; the durations that pi reported itself stay as they are.

    Yields:
        (seconds after `start_ms`, the line with its LF).

    Raises:
        ValueError: A record has no stamp.
    """
    first: int | None = None
    for line in recording.splitlines():
        stamped = _STAMP.search(line)
        if stamped is None:
            raise ValueError("a record of the recording has no stamp")
        received = int(stamped.group(1))
        if first is None:
            first = received
        yield (received - first) / 1000 / speed, _moved(line, _Clock(first, start_ms, speed), playing) + b"\n"


class _Clock(NamedTuple):
    """Maps recorded times to played ones, epoch ms."""

    first: int
    start: int
    speed: float

    def __call__(self, recorded: int) -> int:
        return self.start + round((recorded - self.first) / self.speed)


def _moved(line: bytes, clock: _Clock, playing: int) -> bytes:
    line = _TIME.sub(lambda m: b'"%s":%d' % (m.group(1), clock(int(m.group(2)))), line)
    line = _ISO_TIME.sub(lambda m: b'"timestamp":"%s"' % _iso(clock(_ms(m.group(1)))), line)
    return _UUID.sub(lambda m: b"%08x%s" % (playing, m.group(1)), line)


def _ms(text: bytes) -> int:
    return round(datetime.fromisoformat(text.decode()).timestamp() * 1000)


def _iso(ms: int) -> bytes:
    when = datetime.fromtimestamp(ms / 1000, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z").encode()
