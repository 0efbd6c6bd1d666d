"""The arrival stamp of a line, which stands last in it."""

from __future__ import annotations

import re
from typing import Final

from pimetrics.decoding.fields import time_ms

STAMPED: Final = re.compile(rb',"receivedAt":(0|[1-9][0-9]{0,14})\}$')


def stamp(line: bytes) -> int | None:
    """Return the arrival stamp of a record, epoch ms."""
    found = STAMPED.search(line, max(0, len(line) - 40))
    return time_ms(int(found.group(1))) if found else None
