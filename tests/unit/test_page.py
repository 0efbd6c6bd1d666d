"""The page at / says what is read and shows names from outside as text."""

from __future__ import annotations

import re

from pimetrics.exporter import Exporter
from pimetrics.web.page import render


def exporter(model="m", tool="t"):
    made = Exporter(clock=lambda: 0.0)
    made.ready = True
    made.states = {"open": 3}
    source = made.open("/home/me/secret-project/a.jsonl")
    made.feed(
        source,
        (
            '{"type":"session","version":3,"id":"secret-session","timestamp":"2026-11-01T10:00:00.000Z","cwd":"/secret-cwd"}\n'
            f'{{"type":"message_end","message":{{"role":"assistant","content":[{{"type":"text","text":"secret-text"}}],'
            f'"provider":"p","model":"{model}","usage":{{"input":7,"output":1,"cost":{{"total":0.5}}}},"stopReason":"stop",'
            '"timestamp":1794052800000}}\n'
            f'{{"type":"tool_execution_start","toolCallId":"c","toolName":"{tool}","args":{{"path":"secret-arg"}}}}\n'
            f'{{"type":"tool_execution_end","toolCallId":"c","toolName":"{tool}","result":{{}},"isError":true}}\n'
            '{"type":"agent_end","messages":[]}\n'
        ).encode(),
    )
    return made


def test_it_says_what_is_read_and_links_on():
    """Sources, records, models, tools, and the three links."""
    page = render(exporter().snapshot())
    text = re.sub(r"<[^>]*>", " ", page)
    for part in (r"Sources open\s+3\s", r" p / +m +1 +8 +\$0\.5000 ", r" t +1 +1 ", "1 failed"):
        assert re.search(part, text)
    for link in ("metrics", "-/ready", "-/healthy"):
        assert f'href="{link}"' in page


def test_it_names_no_session_path_argument_or_text():
    """Nothing that identifies a session or holds content is on the page."""
    assert "secret" not in render(exporter().snapshot())


def test_hostile_names_are_text():
    """Markup is escaped, control and bidi characters are shown."""
    page = render(exporter("<script>alert(1)</script>", "a\\u202eb\\u0007<img src=x>").snapshot())
    assert "<script>" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page
    assert "\\u202e" in page
    assert not re.search("[\u202e\x07]", page)


def test_a_name_of_spaces_is_seen():
    """It stands in quotes."""
    assert "<bdi>&quot;  &quot;</bdi>" in render(exporter(tool="  ").snapshot())


def test_names_keep_their_own_direction():
    """Provider and model are isolated from each other, so that a right-to-left name does not swap them."""
    assert "<bdi>p</bdi>/</span><bdi>\u0645</bdi>" in render(exporter("\u0645").snapshot())


def test_while_catching_up_no_totals_show():
    """Before it is ready the page says so, shows how much is to go and no history, and is loaded again."""
    made = exporter()
    made._ready = False
    made.lag_bytes = 3_500_000
    page = render(made.snapshot())
    assert "catching up" in page
    assert "3.5 MB to go" in page
    assert "$0.5000" not in page
    assert 'http-equiv="refresh"' in page
    assert 'http-equiv="refresh"' not in render(exporter().snapshot())


def test_without_any_work_it_says_what_to_do():
    """An empty exporter names the commands that help."""
    made = Exporter(clock=lambda: 0.0)
    made.ready = True
    page = render(made.snapshot())
    assert "No request seen yet" in page
    assert "pimetrics demo" in page
    assert "<h2>Models" not in page


def test_what_tools_reported_stands_apart():
    """Their usage may repeat sub-agent sessions: it is named beside the cost, and in no row."""
    now = exporter().snapshot()
    costs = {("p", "m", "turn"): 5 * 10**11, ("p", "m", "tool"): 2 * 10**11, ("p", "tools-own", "tool"): 10**11}
    page = render(now._replace(counters={**now.counters, "pi_cost_usd_total": costs}))
    assert "and $0.3000 reported by tools" in page
    assert page.count("$0.5000") == 2
    assert "tools-own" not in page


def test_long_tables_say_what_is_left_out():
    """Twenty rows, the dearest first; the rest is in the metrics."""
    now = exporter().snapshot()
    costs = {("p", f"m{n}", "turn"): n * 10**12 for n in range(1, 26)}
    page = render(now._replace(counters={"pi_cost_usd_total": costs}))
    assert ">m25<" in page
    assert ">m5<" not in page
    assert "5 more in" in page
