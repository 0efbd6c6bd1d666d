"""Which facts a report is about: a range of time in the user's zone.

Facts hold UTC; only here do they meet a zone. Days are cut by the zone's own rules (zoneinfo), so a day has 23 or 25
hours when the clocks change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, Protocol
from zoneinfo import ZoneInfo

from pimetrics.errors import WrongUseError
from pimetrics.keys import Key
from pimetrics.ledger.facts import Fact, row
from pimetrics.ledger.totals import pico
from pimetrics.names import PICO, printable

Values = dict[str, Any]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_AGO: Final = re.compile(r"([0-9]{1,4})([hdw])")
_HOURS: Final = {"h": 1, "d": 24, "w": 168}


class Facts(Protocol):
    """What a report reads: the facts of a ledger or an archive, or those that lie in a range of time."""

    @property
    def duplicates(self) -> int:
        """Usage rows that another source had already brought."""

    def facts(self, table: str) -> Iterator[tuple[Key, Fact]]:
        """Yield the facts of a table."""


class Tabled(Facts, Protocol):
    """Facts that charts are drawn of."""

    def rows(self, table: str) -> Iterator[Values]:
        """Yield those of a table as column values."""


class Zone:
    """The zone in which days are cut.

    Args:
        name: A name of the IANA data base; None takes the zone of the machine, with its own clock changes.

    Raises:
        WrongUseError: There is no such zone.
    """

    def __init__(self, name: str | None = None) -> None:
        try:
            self._zone = None if name is None else ZoneInfo(name)
        except (KeyError, ValueError, OSError):  # a folder of the data base raises OSError, a path ValueError
            raise WrongUseError(
                f"{printable(name or '')} is no time zone known here; use a name such as Europe/Berlin or UTC "
                "(without a zone data base: pip install tzdata)"
            ) from None
        self.name = name or "local time"

    def local(self, ms: int) -> datetime:
        """Return the local time of an instant in epoch ms."""
        when = _EPOCH + timedelta(milliseconds=ms)  # not fromtimestamp: that rounds, and fails early on Windows
        try:
            return when.astimezone(self._zone)
        except OverflowError:  # the last hours of the year 9999, east of Greenwich
            return when

    def instant(self, local: datetime) -> int:
        """Return the epoch ms of a local time, or of one that names its own offset.

        Of a time that the clock shows twice, the first; one that it skips counts on from before the change.
        """
        if local.tzinfo is None and self._zone is not None:
            local = local.replace(tzinfo=self._zone)
        return round(local.timestamp() * 1000)


def iso(ms: int | None, zone: Zone) -> str | None:
    """Return a time as ISO 8601 with ms and the offset of the zone."""
    return None if ms is None else zone.local(ms).isoformat(timespec="milliseconds")


class Range:
    """A half-open range of time, either end open.

    Attributes:
        since: First instant in it, epoch ms; None without one.
        until: First instant after it, epoch ms; None without one.
    """

    def __init__(self, since: int | None = None, until: int | None = None) -> None:
        self.since, self.until = since, until

    @property
    def is_open(self) -> bool:
        """Whether it holds all facts, those without a time included."""
        return self.since is None and self.until is None

    def __contains__(self, ms: object) -> bool:
        return (
            isinstance(ms, int) and (self.since is None or ms >= self.since) and (self.until is None or ms < self.until)
        )

    def touches(self, first: int | None, last: int | None) -> bool:
        """Whether something that lasted from `first` to `last` lies in it, in part at least."""
        if first is None and last is None:
            return False
        first, last = (last if first is None else first), (first if last is None else last)
        assert first is not None
        assert last is not None
        return (self.until is None or first < self.until) and (self.since is None or last >= self.since)


def parse_range(since: str | None, until: str | None, zone: Zone, now_ms: int) -> Range:
    """Read `--since` and `--until`.

    A date means its whole day, in `until` too; a time is an instant. `today`, `yesterday` and spans before now (`12h`,
    `7d`, `2w`) are understood as well.

    Raises:
        WrongUseError: One cannot be read, or they are the wrong way round.
    """
    found = Range(
        None if since is None else _parse(since, zone, now_ms, "--since")[0],
        None if until is None else _parse(until, zone, now_ms, "--until")[1],
    )
    if found.since is not None and found.until is not None and found.since >= found.until:
        raise WrongUseError(f"nothing lies between --since {since} and --until {until}; exchange them")
    return found


def _parse(text: str, zone: Zone, now_ms: int, option: str) -> tuple[int, int]:
    """Return the first instant of what the text means, and the first after it."""
    ago = _AGO.fullmatch(text)
    try:
        if ago:
            at = now_ms - int(ago[1]) * _HOURS[ago[2]] * 3_600_000
            return at, at
        if text in {"today", "yesterday"}:
            day = zone.local(now_ms).date() - timedelta(days=text == "yesterday")
        elif re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            day = date.fromisoformat(text)
        else:
            at = zone.instant(datetime.fromisoformat(text))
            return at, at
        return (
            zone.instant(datetime.combine(day, time())),
            zone.instant(datetime.combine(day + timedelta(days=1), time())),
        )
    except (ValueError, OverflowError, OSError):
        raise WrongUseError(
            f"{option} {printable(text)} is no date or time; write 2026-10-25, 2026-10-25T14:00, today, 7d or 12h"
        ) from None


class Selected:
    """The facts of a ledger that lie in a range; those without a time are left out, and `untimed` tells of them."""

    def __init__(self, ledger: Facts, within: Range) -> None:
        self._ledger = ledger
        self._within = within

    @property
    def duplicates(self) -> int:
        """Of all that was read: which source came first does not depend on the range."""
        return self._ledger.duplicates

    def facts(self, table: str) -> Iterator[tuple[Key, Fact]]:
        """Yield the facts of a table that lie in the range; sessions that were at work in it."""
        within = self._within
        for key, fact in self._ledger.facts(table):
            v = fact.values
            if within.touches(v["first_time"], v["last_time"]) if table == "sessions" else v.get("time") in within:
                yield key, fact

    def rows(self, table: str) -> Iterator[Values]:
        """Yield them as column values."""
        return (row(table, key, fact) for key, fact in self.facts(table))

    def untimed(self) -> tuple[int, float]:
        """Return how many settled usage rows the range leaves out because they have no time, and their cost in USD."""
        left_out = [
            fact.values
            for _, fact in self._ledger.facts("usage")
            if fact.values.get("time") is None and fact.values["settled"]
        ]
        return len(left_out), sum(pico(v.get("cost_usd") or 0) for v in left_out) / PICO

    def described(self, zone: Zone) -> dict[str, Any]:
        """Return the range as plain data."""
        rows, cost = self.untimed()
        return {
            "since": iso(self._within.since, zone),
            "until": iso(self._within.until, zone),
            "timezone": zone.name,
            "without_time": {"usage_rows": rows, "cost_usd": cost},
        }
