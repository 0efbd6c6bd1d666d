"""`report --html`: the page as text; how it looks in a browser is in tests/live/test_sheet.py."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from pimetrics.plots.theme import DARK, LIGHT
from tests.reporting import START, Session, run
from tests.support import FIXTURES

STREAM = FIXTURES / "streams" / "1.6.0" / "two_prompts.jsonl"
SECRET = "secret-prompt-text"


def session(tmp_path: Path, *, days: int = 3, name: str = "ember-1") -> Path:
    """Write a session of some days, an answer a day."""
    made = Session(start=START)
    for day in range(days):
        made.now = START + day * 86_400_000
        made.entry("message", message={"role": "user", "content": SECRET, "timestamp": made.now + 1000})
        usage = {"input": 10, "output": 5, "cacheRead": 100, "cacheWrite": 0, "cost": {"total": 0.25 * (day + 1)}}
        message = {"role": "assistant", "provider": "p", "model": name, "stopReason": "stop", "usage": usage}
        content = [{"type": "text", "text": SECRET}]
        made.entry("message", message=message | {"content": content, "timestamp": made.now + 1000})
    path = tmp_path / "one.jsonl"
    made.write(path)
    return path


def page(tmp_path: Path, *arguments: object) -> str:
    """Return the page that a report writes."""
    target = tmp_path / "report.html"
    done = run("report", "--html", target, *arguments)
    assert (done.status, done.out) == (0, "")
    return target.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The overview of all recordings."""
    return page(tmp_path_factory.mktemp("everything"), FIXTURES / "streams")


def sections(text: str) -> list[str]:
    """Return the headings in order."""
    return re.findall(r"<h2>(.*?)</h2>", text)


def test_it_stands_alone(everything: str) -> None:
    """No script, no address, no import, no file: the only URL is the name of SVG."""
    text = everything
    assert set(re.findall(r'https?://[^"\s<)]*', text)) == {"http://www.w3.org/2000/svg"}
    for forbidden in ("<script", "<link", "<img", "@import", "url(", "src=", "<iframe"):
        assert forbidden not in text
    assert "default-src 'none'" in text
    assert len(text) < 400_000


def test_it_can_be_heard(everything: str) -> None:
    """Tables have captions and headers, charts a role and a text, ids are unique, links lead somewhere."""
    text = everything
    assert '<html lang="en">' in text
    tables = re.findall(r"<table.*?</table>", text, re.DOTALL)
    assert len(tables) == len(sections(text)) > 5
    for table in tables:
        assert "<caption>" in table
        assert "scope=col" in table
        assert all("scope=row" in row for row in re.findall(r"<tr>.*?</tr>", table.partition("</thead>")[2]))
    pictures = re.findall(r"<svg [^>]*>", text)
    assert len(pictures) > 8
    assert all('role="img" aria-label="' in picture for picture in pictures)
    ids = re.findall(r'\bid="([^"]*)"', text)
    assert len(set(ids)) == len(ids)
    assert set(re.findall(r"href='#([^']*)'", text)) <= set(ids)


def test_charts_turn_dark_with_the_page(everything: str) -> None:
    """Every colour of a chart has its dark twin in the style, and no chart has a ground of its own."""
    text = everything
    painted = set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{6})"', text.partition("</style>")[2]))
    assert painted <= set(LIGHT.colours())
    assert painted > {LIGHT.dim, LIGHT.line, *LIGHT.palette[:2]}
    for light, dark in zip(LIGHT.colours(), DARK.colours(), strict=True):
        assert f'svg [fill="{light}"] {{ fill: {dark}; }}' in text
        assert f'svg [stroke="{light}"] {{ stroke: {dark}; }}' in text


def test_it_holds_no_text_of_a_session(tmp_path: Path) -> None:
    """Names and numbers, and nothing that was said."""
    text = page(tmp_path, session(tmp_path))
    assert "ember-1" in text
    assert SECRET not in text


def test_views_that_are_asked_for_are_whole(tmp_path: Path) -> None:
    """The overview sums up what is many; a view by name has all of it, and its charts, and nothing else."""
    path = session(tmp_path, days=30)
    overview = page(tmp_path, path)
    assert "11 earlier" in overview
    assert {"Days", "Models", "Most expensive prompts", "Most expensive turns"} <= set(sections(overview))
    whole = page(tmp_path, path, "--by", "day", "--by", "month", "--top", 3)
    assert sections(whole) == ["Days", "Months", "Most expensive prompts", "Most expensive turns"]
    assert len(re.findall(r"<th scope=row><bdi>2026-\d\d-\d\d</bdi>", whole)) == 30
    assert re.findall(r"<figcaption><strong>(Cost by \w+)", whole) == ["Cost by day", "Cost by month"]


def test_every_view_has_its_section_and_charts(tmp_path: Path) -> None:
    """Whatever `report` can show, the page can."""
    views = [
        "day", "week", "month", "model", "provider", "tool", "session", "project", "operation", "error", "compaction"
    ]  # fmt: skip
    text = page(tmp_path, *(each for view in views for each in ("--by", view)), FIXTURES / "streams" / "1.6.0")
    found = re.findall(r"<section .*?</section>", text, re.DOTALL)
    assert len(found) == len(views)
    assert all(section.count("<figure>") >= 1 for section in found)


def test_a_range_and_a_zone_hold_for_charts_too(tmp_path: Path) -> None:
    """Days are cut where the user is, in tables and charts; what lies outside of the range is in neither."""
    path = session(tmp_path)
    text = page(tmp_path, "--since", "2026-09-23", "--timezone", "Pacific/Auckland", path)
    assert "2026-09-23 to 2026-09-24" in text
    assert "day (Pacific/Auckland)" in text
    assert "$1.2500 in 2 days with work, most on 2026-09-24 ($0.7500)" in text
    assert "$1.2500</dd>" in text
    assert "Only what was done from 2026-09-23 00:00 (Pacific/Auckland)." in text


def test_nothing_is_a_page_too(tmp_path: Path) -> None:
    """A folder without work gives a page that says so."""
    (tmp_path / "empty").mkdir()
    text = page(tmp_path, tmp_path / "empty")
    assert "nothing was used" in text
    assert "<figure>" not in text


def test_lines_that_gave_no_record_are_said(tmp_path: Path) -> None:
    """On the page and on standard error."""
    path = tmp_path / "bad.jsonl"
    path.write_bytes(STREAM.read_bytes() + b"{no json\n")
    done = run("report", "--html", tmp_path / "report.html", path)
    assert "1 line gave no record (1 invalid_json); pimetrics doctor says where" in done.err
    assert "1 line gave no record (1 invalid_json)" in (tmp_path / "report.html").read_text()


def test_the_file_is_the_users(tmp_path: Path) -> None:
    """Its mode is that of the umask, an old file is replaced whole, and nothing else is left."""
    folder = tmp_path / "out"
    folder.mkdir()
    target = folder / "report.html"
    target.write_text("old")
    before = os.umask(0o027)
    try:
        assert run("report", "--html", target, STREAM).status == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert target.read_text().startswith("<!doctype html>")
    assert [path.name for path in folder.iterdir()] == ["report.html"]


def test_wrong_use_is_one_sentence(tmp_path: Path) -> None:
    """Formats exclude each other, and a place that cannot be written is said."""
    for other in (["--json"], ["--csv"], ["--textfile", tmp_path / "a.prom"]):
        done = run("report", "--html", tmp_path / "a.html", *other, STREAM)
        assert done.status == 2
        assert "--html writes a page" in done.err
    done = run("report", "--html", tmp_path / "no" / "a.html", STREAM)
    assert done.status == 2
    assert "cannot be written (No such file or directory); choose another file" in done.err
    assert len(done.err.splitlines()) == 1
