"""Every chart: what it says, that it can be drawn whatever the tables hold, and that its numbers are the tables'."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any
from unittest.mock import patch
from xml.etree import ElementTree as ET

import altair as alt
import polars as pl
import pytest

import pimetrics as pm
from pimetrics import plots
from pimetrics.errors import WrongUseError
from pimetrics.plots.inline import inline
from pimetrics.plots.labels import MOST_COLOURS, colours, labels
from pimetrics.plots.marks import ticks
from pimetrics.plots.theme import DARK, LIGHT
from tests.charting import CHARTS, HOSTILE, START, encodable, frame, made, tables
from tests.support import FIXTURES

KINDS = ("empty", "one row", "fixtures", "hostile", "weeks")
_CONTROLS = {chr(code) for code in (*range(32), 0x7F, 0x202E, 0x2066)} - {"\n"}


@cache
def example(kind: str) -> Any:
    """Return tables of a kind."""
    if kind == "fixtures":
        return pm.read(FIXTURES)
    if kind == "one row":
        many = made(60)
        return type(many)(**{name: table.head(1) for name, table in many.items()})
    return {"empty": tables, "hostile": lambda: made(400, HOSTILE, HOSTILE), "weeks": lambda: made(800)}[kind]()


def spec(chart: Any) -> dict[str, Any]:
    """Return a chart as Vega-Lite, checked against its schema."""
    return chart.to_dict()


def parts(node: Any, key: str) -> Iterator[Any]:
    """Yield what stands under a key, at any depth, data excluded."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name == key:
                yield value
            if name not in {"datasets", "data"}:
                yield from parts(value, key)
    elif isinstance(node, list):
        for each in node:
            yield from parts(each, key)


def rows(chart: Any) -> list[dict[str, Any]]:
    """Return all rows that a chart holds."""
    return [row for dataset in spec(chart)["datasets"].values() for row in dataset]


def headed(chart: Any) -> str:
    """Return title and subtitle."""
    title = spec(chart)["title"]
    return f"{title['text']} | {title.get('subtitle', '')}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", list(CHARTS))
def test_every_chart_of_every_table_can_be_drawn(name: str, kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    """No table makes a chart raise, or the renderer warn: not an empty one, one row, hostile names, weeks of work."""
    chart = CHARTS[name](example(kind))
    picture = plots.svg(chart)
    assert picture.startswith("<svg")
    assert "NaN" not in picture
    assert "undefined" not in picture
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", list(CHARTS))
def test_axes_are_named_with_units_and_the_title_says_what_is_seen(name: str, theme: str) -> None:
    """Each axis has a title or rows of names, each chart a title and a subtitle, on the ground of its theme."""
    seen = spec(CHARTS[name](example("weeks"), theme=theme))
    assert seen["background"] == (LIGHT if theme == "light" else DARK).ground
    assert seen["title"]["text"]
    assert seen["title"]["subtitle"]
    found = [axis for channel in ("x", "y") for axis in parts(seen, channel) if isinstance(axis, dict)]
    titles = [axis.get("title") or (axis.get("axis") or {}).get("title") for axis in found]
    titles = [title for title in titles if title]
    units = ("USD", "%", "prompts", "seconds", "tokens", "bytes", "attempts", "messages", "request", "day", "attempt")
    assert titles
    assert all(any(unit in title for unit in units) for title in titles), titles


@pytest.mark.parametrize("name", list(CHARTS))
def test_an_empty_table_is_a_chart_that_says_so(name: str) -> None:
    """A chart of nothing keeps its title and says that there is no data, and why."""
    chart = CHARTS[name](example("empty"))
    assert rows(chart)[0]["said"].startswith("no data: ")
    assert plots.is_empty(chart)
    assert not plots.is_empty(CHARTS[name](example("weeks")))
    assert spec(chart)["title"]["text"]


@pytest.mark.parametrize("name", list(CHARTS))
def test_hostile_names_are_short_printable_labels(name: str) -> None:
    """No control or bidi character reaches a chart, and no label is long; markup is text."""
    chart = CHARTS[name](example("hostile"))
    text = json.dumps(spec(chart), ensure_ascii=False)
    assert not set(text) & _CONTROLS
    labels_found = [value for row in rows(chart) for value in row.values() if isinstance(value, str)]
    assert max(map(len, labels_found), default=0) <= 90
    assert "<script>" not in plots.svg(chart)


@pytest.mark.parametrize("name", list(CHARTS))
def test_many_rows_are_summed_up_before_they_are_drawn(name: str) -> None:
    """Ten thousand requests make a chart of a few hundred rows, far from the 5,000 where altair stops."""
    chart = CHARTS[name](_ten_thousand())
    assert len(rows(chart)) < 1600


@cache
def _ten_thousand() -> Any:
    return made(10_000)


@pytest.mark.parametrize("name", list(CHARTS))
def test_lazy_tables_give_the_same_chart(name: str) -> None:
    """A chart of `scan`'s tables is that of `read`'s."""
    eager = example("weeks")
    lazy = type(eager)(**{table: found.lazy() for table, found in eager.items()})
    assert spec(CHARTS[name](lazy)) == spec(CHARTS[name](eager))


def _usage(**columns: Any) -> dict[str, Any]:
    return {"operation": "turn", "model": "ember-1", "settled": True, "time": START, "cost_usd": 1.0} | columns


def test_days_add_up_to_the_cost() -> None:
    """The bars of all days are the settled cost without what tools reported, each from the end of the one below."""
    usage = frame("usage", [
        _usage(), _usage(model="quill", cost_usd=0.5), _usage(cost_usd=2.0, time=START.replace(day=21)),
        _usage(settled=False, cost_usd=100.0), _usage(operation="tool", cost_usd=10.0),
        _usage(response_model="quill", cost_usd=0.25), _usage(time=None, cost_usd=7.0),
    ])  # fmt: skip
    found = {(row["at"], row["model"]): (row["bottom"], row["top"]) for row in rows(plots.cost_by_day(usage))}
    days = [int(datetime.fromisoformat(f"2026-10-{day}T00:00Z").timestamp() * 1000) for day in (19, 21)]
    assert found == {
        (days[0], "ember-1"): (0.0, 1.0), (days[0], "quill"): (1.0, 1.75), (days[1], "ember-1"): (0.0, 2.0),
    }  # fmt: skip
    assert "$3.7500 in 2 days" in headed(plots.cost_by_day(usage))
    assert "$13.75 in" in headed(plots.cost_by_day(usage, with_tools=True))


def test_days_begin_where_the_user_is() -> None:
    """The zone decides the day; a time without a zone is local already."""
    usage = frame("usage", [_usage(time=START.replace(hour=23, minute=30))])
    there = plots.cost_by_day(usage, timezone="Asia/Tokyo")
    local = plots.cost_by_day(usage.with_columns(pl.col("time").dt.replace_time_zone(None)), timezone=None)
    assert "2026-10-20" in headed(there)
    assert "2026-10-19" in headed(local)
    assert "day (Asia/Tokyo)" in list(parts(spec(there), "title"))
    assert "day (local time)" in list(parts(spec(local), "title"))


@pytest.mark.parametrize(("days", "word"), [(40, "day"), (300, "week"), (1500, "month")])
def test_long_ranges_are_cut_into_weeks_and_months(days: int, word: str) -> None:
    """As many bars as can be seen; and what is asked for wins."""
    usage = frame("usage", [_usage(), _usage(time=START + (START.replace(day=20) - START) * days)])
    assert headed(plots.cost_by_day(usage)).startswith(f"Cost by {word} ")
    assert headed(plots.cost_by_day(usage, every="month")).startswith("Cost by month ")


def test_bars_are_sorted_and_name_the_rest() -> None:
    """The dearest first; what has no bar of its own is one more, and nothing is lost."""
    usage = frame("usage", [_usage(model=f"m{number:02}", cost_usd=1.0 + number) for number in range(20)])
    found = {row["model"]: row["cost_usd"] for row in rows(plots.cost_by(usage, most=5))}
    assert list(found) == ["m19", "m18", "m17", "m16", "m15", "15 more"]
    assert sum(found.values()) == sum(1.0 + number for number in range(20))


def test_projects_come_from_the_sessions() -> None:
    """A project is the folder of the session; usage without one is said apart, and none is counted twice."""
    usage = frame("usage", [_usage(session_id="a"), _usage(session_id="a"), _usage(session_id=None, cost_usd=0.5)])
    sessions = frame("sessions", [{"session_id": "a", "cwd": "/x"}, {"session_id": "a", "cwd": "/y"}])
    found = {row["project"]: row["cost_usd"] for row in rows(plots.cost_by(usage, "project", sessions=sessions))}
    assert found == {"/x": 2.0, "no project": 0.5}
    with pytest.raises(TypeError, match="sessions="):
        plots.cost_by(usage, "project")


def test_a_model_has_one_colour_in_all_charts() -> None:
    """With one order, a model keeps its colour in a chart that lacks the others, and those beyond the palette are grey."""
    order = [f"m{number}" for number in range(9)]
    first = colours(order, order, LIGHT)
    later = colours(order, ["m4", "m8"], LIGHT)
    assert dict(zip(later.domain, later.range, strict=True)) == {"m4": LIGHT.palette[4], "other": LIGHT.other}
    assert dict(zip(first.domain, first.range, strict=True))["m4"] == LIGHT.palette[4]
    assert len(first.domain) == MOST_COLOURS + 1
    usage = frame("usage", [_usage(model="m4"), _usage(model="m8", cost_usd=9.0)])
    bars = {row["model"]: row["colour"] for row in rows(plots.cost_by(usage, models=order)) if "colour" in row}
    assert bars == {"m4": LIGHT.palette[4], "m8": LIGHT.other}


def test_models_are_ranked_by_cost() -> None:
    """The order of colours is that of cost, the model that answered counts."""
    usage = frame("usage", [_usage(), _usage(model="a", response_model="quill", cost_usd=3.0), _usage(model=None)])
    assert plots.ranked(usage) == ["quill", "ember-1", "unknown"]


def test_names_that_look_the_same_stay_apart() -> None:
    """Labels are unique, however names are cut."""
    found = labels(["x" * 100 + "a" + "x" * 100, "x" * 100 + "b" + "x" * 100, "other"])
    assert len(set(found.values())) == 3
    crowd = colours(["other", *"abcdefgh"], ["other", *"abcdefgh"], LIGHT)
    assert crowd.domain[0] == "other"
    assert crowd.domain[-1] == "all other"


def test_long_names_are_cut_where_they_differ() -> None:
    """What sets long names apart is seen, also when it stands in their middle, and differs for some late."""
    bedrock = [f"us.anthropic.claude-{name}-4-20250514-v1:0" for name in ("opus", "sonnet")]
    late = [f"{'mcp__a_server_with_a_name__' * 2}{tool}_of_a_file_and_what_is_beside_it" for tool in ("read", "head")]
    other = "mcp__a_server_with_a_name__tests_of_a_file_and_what_is_beside_it"
    found = labels([*bedrock, *late, other, "bash"])
    assert all(len(label) <= 32 for label in found.values())
    assert [found[name] for name in bedrock] == [
        "…pic.claude-opus-4-20250514-v1:0",
        "…ic.claude-sonnet-4-20250514-v1…",
    ]
    for name, word in zip([*bedrock, *late, other], ("opus", "sonnet", "read", "head", "tests"), strict=True):
        assert word in str(found[name])
    assert found["bash"] == "bash"


def test_percentiles_are_those_of_the_report() -> None:
    """p50, p95 and p99 of the chart are those that `report --json` prints, measured times only."""
    found = example("fixtures").tool_calls.filter(pl.col("duration_source").is_in(["reported", "arrival"]))
    drawn = [row for row in rows(plots.tool_latency(example("fixtures").tool_calls)) if "percentile" in row]
    for row in drawn:
        lengths = found.filter(pl.col("tool") == row["tool"])["duration_s"]
        quantile = float(row["percentile"].removeprefix("p")) / 100
        assert row["value"] == pytest.approx(lengths.quantile(quantile, "linear"))
    assert {row["percentile"] for row in drawn} == {"p50", "p95", "p99"}


def test_time_sources_are_kept_apart() -> None:
    """Measured times never mix with those of entries, and the chart says which they are."""
    calls = frame("tool_calls", [
        {"tool": "bash", "duration_s": 1.0, "duration_source": "reported"},
        {"tool": "bash", "duration_s": 50.0, "duration_source": "entry"},
    ])  # fmt: skip
    measured, entries = plots.tool_latency(calls), plots.tool_latency(calls, sources=("entry",))
    assert {row["value"] for row in rows(measured) if "value" in row} == {1.0}
    assert {row["value"] for row in rows(entries) if "value" in row} == {50.0}
    assert "reported or arrival" in headed(measured)
    assert "session entries" in headed(entries)


def test_a_prompt_is_drawn_from_its_start() -> None:
    """Turns, requests split at the first token, and parallel tools stand where they began, in seconds."""
    one = {"prompt_id": "p", "time": START}
    later = {"prompt_id": "p", "time": START.replace(second=3)}
    usage = frame("usage", [one | {"operation": "turn", "duration_s": 3.0, "time_to_first_token_s": 1.0}])
    calls = frame("tool_calls", [
        later | {"row_id": "a", "tool": "bash", "duration_s": 2.0, "outcome": "ok"},
        later | {"row_id": "b", "tool": "read", "duration_s": 0.5, "outcome": "error"},
    ])  # fmt: skip
    turns = frame("turns", [one | {"duration_s": 5.0}])
    chart = plots.waterfall(usage, calls, turns)
    pieces = [(row["row"], row["kind"], row["begin"], row["end"]) for row in rows(chart) if "kind" in row]
    assert pieces == [
        ("0", "turn", 0.0, 5.0), ("1", "waiting", 0.0, 1.0), ("1", "answering", 1.0, 3.0),
        ("2", "tool, ok", 3.0, 5.0), ("3", "tool, error", 3.0, 3.5),
    ]  # fmt: skip
    assert "5.0 s: 1 request, 2 tool calls" in headed(chart)
    assert "no data" in rows(plots.waterfall(usage, calls, turns, prompt_id="another"))[0]["said"]


def test_the_context_grows_and_is_cut() -> None:
    """Requests of one session in order, its abandoned branches left out, and each compaction between two of them."""
    usage = [
        _usage(session_id="s", input_tokens=n * 100, time=START.replace(minute=n), on_active_branch=n != 2)
        for n in (1, 2, 3, 4)
    ]
    cut = {"session_id": "s", "time": START.replace(minute=3, second=30), "outcome": "ok", "reason": "manual"}
    other = {"session_id": "t", "time": START, "outcome": "ok"}
    chart = plots.context_growth(frame("usage", usage), frame("compactions", [cut, other, cut | {"outcome": "failed"}]))
    assert {(row["request"], row["context_tokens"]) for row in rows(chart) if "context_tokens" in row} == {
        (1, 100), (2, 300), (3, 400),
    }  # fmt: skip
    assert [row for row in rows(chart) if "reason" in row] == [{"request": 2.5, "reason": "manual"}]
    as_it_ends = cut | {"time": START.replace(minute=3), "reason": "overflow"}  # the third request is its retry
    chart = plots.context_growth(frame("usage", usage), frame("compactions", [as_it_ends]))
    assert [row for row in rows(chart) if "reason" in row] == [{"request": 1.5, "reason": "overflow"}]


def test_tool_results_and_messages_share_the_context() -> None:
    """Results are counted once, by tool; the rest by role."""
    messages = frame("messages", [
        {"role": "user", "content_bytes": 100}, {"role": "assistant", "content_bytes": 300},
        {"role": "toolResult", "content_bytes": 600},
    ])  # fmt: skip
    calls = frame("tool_calls", [{"tool": "read", "result_bytes": 500}, {"tool": "bash", "result_bytes": 100}])
    chart = plots.context_share(messages, calls)
    assert {row["name"]: row["bytes"] for row in rows(chart)} == {
        "results of read": 500, "answers": 300, "prompts": 100, "results of bash": 100,
    }  # fmt: skip
    assert "60% of 1,000B are tool results" in headed(chart)


def test_more_tools_than_bars_are_results_too() -> None:
    """Long names are bars of their own, and what has no bar is summed up apart for tools and for the rest."""
    calls = [{"tool": f"mcp__a_server_with_a_long_name__do_{n:02}_with_a_file", "result_bytes": 10} for n in range(20)]
    messages = [{"role": f"custom-{n:02}", "content_bytes": 9} for n in range(3)]
    chart = plots.context_share(frame("messages", messages), frame("tool_calls", calls), most=12)
    bars = [(row["name"], row["bytes"], row["kind"]) for row in rows(chart)]
    assert len(dict.fromkeys(name for name, *_ in bars)) == 14
    assert sum(size for _, size, _ in bars) == 227
    assert bars[0] == ("results of 8 more tools", 80, "tool results")
    assert bars[1] == ("3 more", 27, "everything else")


def test_days_of_counts_add_up() -> None:
    """Every row with a time is in a bar, the rare values as other; years are drawn by month."""
    usage = frame("usage", [_usage(time=START, error_type=kind) for kind in [*"aabcdefgh", None]] + [_usage(time=None)])
    drawn = rows(plots.counts_by_day(usage, "error_type", title="Errors", noun="error"))
    assert sum(row["number"] for row in drawn) == 10
    assert {row["error_type"]: row["number"] for row in drawn}["other"] == 3
    far = frame("usage", [_usage(time=START, error_type="a"), _usage(time=START.replace(year=2021), error_type="a")])
    assert "Errors by month" in headed(plots.counts_by_day(far, "error_type", title="Errors", noun="error"))


def test_retries_say_how_attempts_ended() -> None:
    """Success by attempt, and what the failures threw away."""
    attempts = [
        {"scope": "turn", "attempt": 1, "outcome": "failed", "discarded_tokens": 1000, "delay_s": 2.0},
        {"scope": "turn", "attempt": 2, "outcome": "success", "discarded_tokens": None, "delay_s": 4.0},
        {"scope": "compaction", "attempt": 1, "outcome": "success"},
    ]
    retries = frame("retries", attempts)
    said = {row["attempt"]: row["said"] for row in rows(plots.retry_success(retries)) if "said" in row}
    assert said == {1: "0% succeed", 2: "100% succeed"}
    assert "2 of 3 attempts" in headed(plots.retry_success(retries, scope=None))
    assert "3 attempts, 1,000 tokens thrown away, 6.0 s waited" in headed(plots.retry_waste(retries))


@pytest.mark.parametrize("most", [0.003, 1, 4, 7, 99, 12_345])
def test_axes_end_above_the_longest_bar(most: float) -> None:
    """Labels are few, round, and whole where things are counted."""
    for whole in (True, False):
        found = ticks(most, 5, whole=whole)
        assert found[0] == 0
        assert found[-1] >= most
        assert 2 <= len(found) <= 7
        assert not whole or all(each == int(each) for each in found)


def test_charts_stand_together() -> None:
    """Several charts make one picture, each with its own colours."""
    charts = [CHARTS[name](example("weeks"), theme="dark") for name in ("cost_by_day", "retry_waste", "dearest_turns")]
    both = plots.together(*charts, columns=2)
    assert spec(both)["background"] == DARK.ground
    assert plots.svg(both).count("What the most expensive turns are made of") >= 1
    assert spec(charts[0])["config"]  # the originals are as they were


def test_pictures_are_written(tmp_path: Any) -> None:
    """The name of the file says the format; another is refused in one sentence."""
    chart = CHARTS["cost_by_day"](example("one row"))
    plots.save(chart, tmp_path / "a.png")
    plots.save(chart, str(tmp_path / "a.svg"))
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    with pytest.raises(WrongUseError, match=r"end in .png or .svg"):
        plots.save(chart, tmp_path / "a.pdf")
    with pytest.raises(WrongUseError, match="no theme; use light or dark"):
        plots.cost_by_day(example("one row").usage, theme="blue")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_chart_of_your_own_survives_any_name(name: str) -> None:
    """No name ends the process of a notebook, whoever made the chart; nothing is lost of those that can be drawn."""
    values = [{"name": name, "n": 1}, {"name": "b", "n": 2}]
    own = alt.Chart(alt.InlineData(values=values)).mark_bar().encode(y="name:N", x="n:Q", tooltip="name:N")
    chart = plots.titled(own, frame("usage", [{}]), "Of my own", "by name", theme="dark")
    ET.fromstring(plots.svg(chart))
    renderer = alt.renderers.active
    try:
        plots.use_png()
        shown = chart._repr_mimebundle_()
    finally:
        alt.renderers.enable(renderer)
    assert shown["image/png"].startswith(b"\x89PNG")
    assert plots.is_empty(plots.titled(own, frame("usage", []), "Of my own", theme="dark"))


@pytest.mark.parametrize("name", list(CHARTS))
def test_a_page_has_room_for_wider_letters(name: str) -> None:
    """Inside a page labels have room for letters a sixth wider than Arial's, and are as large as in a picture."""
    chart = CHARTS[name](example("weeks"))
    page, picture = inline(chart).svg, plots.svg(chart)
    # What stands left of the plotted area: vega leaves 5 pixels beside it in a page, `dressed` leaves 12 in a picture.
    left_in_page, left = (float(re.search(r"translate\(([\d.]+),", each)[1]) for each in (page, picture))
    assert left_in_page - 5 >= 1.09 * (left - 12)
    sizes, usual = (set(re.findall(r'font-size="([^"]*)"', each)) for each in (page, picture))
    assert sizes
    assert sizes <= usual


def test_what_is_missing_is_said_in_one_sentence() -> None:
    """Without altair the import, without vl-convert the picture says which extra brings it."""
    chart = CHARTS["cost_by_day"](example("one row"))
    sentence = "needs {}; install it with: pip install 'pimetrics[plots]'"
    with patch.dict(sys.modules, {"vl_convert": None}), pytest.raises(WrongUseError) as error:
        plots.png(chart)
    assert str(error.value) == f"a picture {sentence.format('vl_convert')}"
    code = (
        "import sys; sys.modules['altair'] = None\n"
        "from pimetrics.errors import WrongUseError\n"
        "try:\n    import pimetrics.plots\nexcept WrongUseError as e:\n    print(e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"a chart {sentence.format('altair')}\n"


def test_the_docstring_tells_every_chart() -> None:
    """`help(plots)` names all that can be called."""
    assert plots.__doc__ is not None
    assert [name for name in plots.__all__ if f"{name}(" not in plots.__doc__] == []
    helpers = {"together", "save", "png", "svg", "ranked", "is_empty", "titled", "use_png"}
    assert {name.split()[0] for name in CHARTS} | helpers == set(plots.__all__)


def test_hostile_names_are_hostile() -> None:
    """The names that tests use hold what must not be seen."""
    assert set("".join(map(encodable, HOSTILE))) & _CONTROLS
