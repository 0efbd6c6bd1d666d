"""Lengths of time as options: `60`, `60s`, `1.5m`, `500ms`."""

from __future__ import annotations

import re
import threading
from typing import Final

import click

from pimetrics.names import printable

_UNITS: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LENGTH: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|)")


class Seconds(click.ParamType[float]):
    """A length of time, as seconds."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds that a text or number means."""
        if isinstance(value, (int, float)):
            return float(value)
        found = _LENGTH.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no length of time; give for example 60, 60s, 5m or 500ms", param, ctx)
        seconds = float(found.group(1)) * _UNITS[found.group(2)]
        if seconds > threading.TIMEOUT_MAX:
            self.fail(f"{printable(str(value))} is longer than this machine can wait", param, ctx)
        return seconds
