"""Ranges of time and zones."""

from __future__ import annotations

import pytest

from pimetrics.api import load
from pimetrics.errors import WrongUseError
from pimetrics.reports.selection import Range, Selected, Zone, iso, parse_range
from tests.reporting import START, Session

BERLIN = Zone("Europe/Berlin")
NOW = 1_792_925_999_000  # 2026-10-25T10:59:59Z, the day of 25 hours in Berlin


def test_a_day_of_the_change_has_25_hours():
    """From midnight to midnight of 2026-10-25 in Berlin."""
    day = parse_range("2026-10-25", "2026-10-25", BERLIN, NOW)
    assert (day.until - day.since) / 3_600_000 == 25


@pytest.mark.parametrize(
    ("text", "since"),
    [
        ("2026-10-25T02:30", "2026-10-25T02:30:00.000+02:00"),  # shown twice: the first
        ("2026-03-29T02:30", "2026-03-29T03:30:00.000+02:00"),  # never shown: counts on
        ("2026-10-25T12:00Z", "2026-10-25T13:00:00.000+01:00"),
        ("today", "2026-10-25T00:00:00.000+02:00"),
        ("yesterday", "2026-10-24T00:00:00.000+02:00"),
        ("1d", "2026-10-24T12:59:59.000+02:00"),
        ("12h", "2026-10-25T00:59:59.000+02:00"),
        ("2w", "2026-10-11T12:59:59.000+02:00"),
    ],
)
def test_what_since_understands(text, since):
    """Dates, times, times with an offset, days by name and spans before now."""
    assert iso(parse_range(text, None, BERLIN, NOW).since, BERLIN) == since


@pytest.mark.parametrize("text", ["yesteryear", "2026-13-01", "25:00", "", "7", "9999-12-31", "-1d"])
def test_what_cannot_be_read_is_wrong_use(text):
    """One sentence that names the option and shows what to write."""
    with pytest.raises(WrongUseError, match=r"--until .*is no date or time; write 2026-10-25"):
        parse_range(None, text, BERLIN, NOW)


def test_an_empty_range_is_wrong_use():
    """--since after --until."""
    with pytest.raises(WrongUseError, match="exchange them"):
        parse_range("2026-10-25", "2026-10-24", BERLIN, NOW)


@pytest.mark.parametrize("name", ["Mars/Phobos", "../etc/passwd", "", "Europe", "a\x1b[31m"])
def test_an_unknown_zone_is_wrong_use(name):
    """A sentence, and no control character of the name in it."""
    with pytest.raises(WrongUseError, match="is no time zone known here") as error:
        Zone(name)
    assert "\x1b" not in str(error.value)


def test_the_last_hours_of_time_have_a_local_time():
    """The year 9999 ends earlier in the east; that is no reason to fail."""
    assert Zone("Pacific/Kiritimati").local(253_402_300_799_999).year == 9999


def test_a_range_splits_facts_without_loss(tmp_path):
    """What lies before, in and after an instant is everything with a time; what has none is told of."""
    session = Session().ask().answer(0.25).ask().answer(0.5).ask().answer(1.0, timestamp=None)
    session.entries[-1]["timestamp"] = None
    ledger, _ = load([session.write(tmp_path / "s.jsonl")])
    cut = START + 4000
    before, after = Selected(ledger, Range(None, cut)), Selected(ledger, Range(cut, None))
    rows = [sum(1 for _ in each.facts("usage")) for each in (before, after)]
    assert rows == [1, 1]
    assert before.untimed() == after.untimed() == (1, 1.0)
    assert [sum(1 for _ in each.facts("sessions")) for each in (before, after)] == [1, 1]
    assert sum(1 for _ in Selected(ledger, Range(None, START - 1)).facts("sessions")) == 0
