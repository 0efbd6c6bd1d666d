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
    for part in ("Sources open", "p/m", "$0.5000", ">t<", 'href="metrics"', 'href="-/ready"', 'href="-/healthy"'):
        assert part in page


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


def test_while_catching_up_no_totals_show():
    """Before it is ready the page says so and shows no history."""
    made = exporter()
    made._ready = False
    page = render(made.snapshot())
    assert "catching up" in page
    assert "p/m" not in page
