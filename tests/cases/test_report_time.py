"""Case 54: days in the user's zone, also on the day of 25 hours."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys

import pytest

from tests.reporting import case, run

FILES, RIGHT = case("54")


@pytest.mark.parametrize("zone", RIGHT["tokens_by_day"])
def test_days_are_those_of_the_zone(zone):
    """Tokens fall on the local day of their message, on both 02:30s of the autumn change too."""
    ran = run("report", "--json", "--by", "day", "--timezone", zone, *FILES)
    assert ran.status == RIGHT["exit_status"]
    assert {day["day"]: day["total_tokens"] for day in ran.json["by"]["day"]} == RIGHT["tokens_by_day"][zone]


@pytest.mark.parametrize("zone", RIGHT["tokens_by_day"])
def test_csv_has_the_same_days(zone):
    """--csv prints a line a day with the same numbers."""
    rows = list(csv.DictReader(io.StringIO(run("report", "--csv", "--timezone", zone, *FILES).out)))
    assert {row["day"]: int(row["total_tokens"]) for row in rows} == RIGHT["tokens_by_day"][zone]


@pytest.mark.parametrize("zone", RIGHT["tokens_by_day"])
def test_local_time_is_the_default(zone):
    """Without --timezone days are those of the machine, with its own clock changes."""
    command = [sys.executable, "-m", "pimetrics", "report", "--json", "--by", "day", *map(str, FILES)]
    ran = subprocess.run(command, env=os.environ | {"TZ": zone}, capture_output=True, check=True)
    found = json.loads(ran.stdout)["by"]["day"]
    assert {day["day"]: day["total_tokens"] for day in found} == RIGHT["tokens_by_day"][zone]


@pytest.mark.parametrize("zone", RIGHT["tokens_by_day"])
def test_a_date_as_range_is_that_day_in_the_zone(zone):
    """--since and --until with one date hold exactly the tokens of that local day."""
    for day, tokens in RIGHT["tokens_by_day"][zone].items():
        ran = run("report", "--json", "--since", day, "--until", day, "--timezone", zone, *FILES)
        assert (
            sum(ran.json["usage"]["tokens"][kind] for kind in ("input", "output", "cache_read", "cache_write"))
            == tokens
        )


def test_weeks_and_months_of_the_zone():
    """The Sunday night of the change belongs to week 43 in Berlin; one month holds all."""
    found = run("report", "--json", "--by", "week", "--by", "month", "--timezone", "Europe/Berlin", *FILES).json["by"]
    assert [(w["week"], w["total_tokens"]) for w in found["week"]] == [("2026-W43", 1111), ("2026-W44", 10000)]
    assert [(m["month"], m["total_tokens"]) for m in found["month"]] == [("2026-10", 11111)]
