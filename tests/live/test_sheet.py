"""`report --html` in a real browser: no error, nothing loaded, the numbers of `--json`, hostile names as text."""

from __future__ import annotations

import html.parser
import json
import re
from typing import TYPE_CHECKING, Any

import matplotlib.image
import pytest

from pimetrics.ledger.totals import pico
from pimetrics.reports import wording
from pimetrics.reports.layout import name
from tests.live.browser import HOSTILE, SCHEMES, Seen, browse, console, work
from tests.reporting import run
from tests.support import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

ELEMENTS = {
    "html", "head", "meta", "title", "style", "body", "header", "h1", "p", "nav", "a", "main", "dl", "div", "dt", "dd",
    "section", "h2", "figure", "figcaption", "strong", "span", "svg", "g", "path", "rect", "line", "text", "tspan",
    "defs", "clippath", "table", "caption", "thead", "tbody", "tfoot", "tr", "th", "td", "bdi", "footer",
}  # fmt: skip
PHONE_PX = 390
_OF_CHROMIUM = re.compile(r"https?://([a-z0-9.-]+\.)?(google|googleapis|gvt1|gstatic)\.com[/:]")
"""What the browser itself asks for when it starts."""


class Tables(html.parser.HTMLParser):
    """The tables that a browser shows.

    Attributes:
        rows: By title of the section, rows by their first cell; each by column title.
        facts: The lines at the top.
    """

    def __init__(self, dom: str) -> None:
        super().__init__()
        self.rows: dict[str, dict[str, dict[str, str]]] = {}
        self.facts: dict[str, str] = {}
        self._text: str | None = None
        self._heads: list[str] = []
        self._cells: list[str] = []
        self._in_head = False
        self._title = self._term = ""
        self.feed(dom)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"h2", "th", "td", "dt", "dd"}:
            self._text = ""
        elif tag == "tr":
            self._cells = []
        elif tag == "thead":
            self._in_head = True

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "h2":
            self._title = self._text or ""
            self.rows[self._title] = {}
        elif tag == "dt":
            self._term = self._text or ""
        elif tag == "dd":
            self.facts[self._term] = self._text or ""
        elif tag in {"th", "td"}:
            self._cells.append(self._text or "")
        elif tag == "thead":
            self._in_head = False
        elif tag == "tr" and self._in_head:
            self._heads = self._cells
        elif tag == "tr":
            self.rows[self._title][self._cells[0]] = dict(zip(self._heads, self._cells, strict=True))
        if tag in {"h2", "th", "td", "dt", "dd"}:
            self._text = None


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of all recordings and cases."""
    path = tmp_path_factory.mktemp("sheet") / "report.html"
    done = run("report", "--html", path, "--timezone", "UTC", FIXTURES / "streams")
    assert (done.status, done.out) == (0, "")
    return path


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of work in which every provider, model and tool has a hostile name."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "run.jsonl").write_bytes(work())
    done = run("report", "--html", folder / "report.html", "--timezone", "UTC", folder / "run.jsonl")
    assert (done.status, done.out, done.err) == (0, "", "")
    return folder / "report.html"


def test_the_numbers_are_those_of_json(page: Path, tmp_path: Path) -> None:
    """Cost, tokens and counts of every model, tool and day stand in the browser as `report --json` has them."""
    shown = Tables(browse(tmp_path / "profile", page.as_uri(), "--dump-dom"))
    ran = run("report", "--json", *["--by", "day", "--by", "model", "--by", "tool", "--by", "project", "--top", "10"], "--timezone", "UTC",
              FIXTURES / "streams")  # fmt: skip
    report = ran.json
    by: dict[str, list[dict[str, Any]]] = report["by"]
    models = {name(f"{each['provider']}/{each['model']}").text: each for each in by["model"]}
    assert len(models) > 5
    for label, each in models.items():
        row = shown.rows["Models"][label]
        assert row["requests"] == (f"{each['requests']:,}" if each["requests"] else "-")
        for column, kind in (("input", "input"), ("output", "output"), ("cache read", "cache_read")):
            assert row[column] == (f"{each['tokens'][kind]:,}" if each["tokens"][kind] else "-")
        cost = pico(each["cost_usd"]) - pico(each["reported_by_tools"]["cost_usd"])
        assert row["cost"].removesuffix("+") in {wording.usd(cost, 4), "unpriced", "-", "$0"}
    assert len(shown.rows["Models"]) == len(models) + 1
    total = shown.rows["Models"]["total"]
    tokens = report["usage"]["tokens"]
    assert total["input"] == f"{tokens['input']:,}"
    assert total["output"] == f"{tokens['output']:,}"
    headline = pico(report["usage"]["cost_usd"]) - sum(
        pico(each["cost_usd"]) for each in report["usage"]["by_operation"] if each["operation"] == "tool"
    )
    assert total["cost"].removesuffix("+") == wording.usd(headline)
    assert shown.facts["Cost as reported by pi"].startswith(wording.usd(headline))
    assert f"{report['sessions']:,} sessions, {report['prompts']:,} prompts" in shown.facts["Work"]
    for each in by["tool"]:
        assert shown.rows["Tools"][each["tool"]]["calls"] == f"{each['calls']:,}"
    for each in by["day"]:
        day = shown.rows["Days"][each["day"] or "time unknown"]
        assert day["requests"] == (f"{each['requests']:,}" if each["requests"] else "-")
    prompts = [each for each in report["top"]["prompts"] if each["prompt_id"]]
    assert len(shown.rows["Most expensive prompts"]) >= len({each["time"][:16] for each in prompts})


def test_nothing_is_loaded_and_nothing_fails(page: Path, hostile: Path, tmp_path: Path) -> None:
    """Even without its policy the page asks for nothing, and the console is empty; another page is caught at both."""
    bad = tmp_path / "bad.html"
    bad.write_text("<!doctype html><title>x</title><img src='http://127.0.0.1:9/a'><script>throw 'b'</script>")
    bare = tmp_path / "bare.html"
    bare.write_text(re.sub(r"<meta http-equiv=[^>]*>", "", page.read_text()))
    for path in (page, hostile, bare):
        asked, said = _loaded(tmp_path, path)
        assert asked == []
        assert said == []
    asked, said = _loaded(tmp_path, bad)
    assert asked == ["http://127.0.0.1:9/a"]
    assert any("Uncaught b" in line for line in said)


def _loaded(tmp_path: Path, path: Path) -> tuple[list[str], list[str]]:
    """Return the addresses that a page asked for, and what stands in its console."""
    log = tmp_path / f"{path.stem}.json"
    profile = tmp_path / f"profile-{path.stem}"
    said = console(profile, path.as_uri(), f"--log-net-log={log}")
    found = set(re.findall(r'"url":"(http[^"]*)"', log.read_text()))
    assert json.loads(f'"{path.as_uri()}"')  # an address needs no escape to be found in the log
    return sorted(url for url in found if not _OF_CHROMIUM.match(url)), said


def test_hostile_names_are_text(hostile: Path, tmp_path: Path) -> None:
    """The browser's own tree has the names as text, in tables and charts, and no element that they asked for."""
    dom = browse(tmp_path / "profile", hostile.as_uri(), "--dump-dom")
    seen = Seen(dom)
    assert seen.title == "What pi did and cost"
    assert seen.elements <= ELEMENTS
    assert seen.handlers == []
    assert {name(each).text for each in HOSTILE} <= set(seen.names)
    assert not any(ord(char) < 32 and char != "\n" for char in dom)
    assert not set(dom) & set("\u202e\u2066")


@pytest.mark.parametrize("width", [1100, 500])
@pytest.mark.parametrize("scheme", list(SCHEMES))
def test_it_is_readable_in_light_and_dark(page: Path, tmp_path: Path, scheme: str, width: int) -> None:
    """The ground follows what the user prefers, text and charts stand out from it, and nothing reaches over the edge."""
    picture = tmp_path / "page.png"
    browse(
        tmp_path / "profile",
        page.as_uri(),
        f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
        f"--window-size={width},2000",
        "--hide-scrollbars",
        f"--screenshot={picture}",
    )
    pixels = matplotlib.image.imread(picture)[:, :, :3]
    light = pixels.mean(axis=2)
    ground = light[2, 2]
    assert (ground < 0.2) if scheme == "dark" else (ground > 0.9)
    assert abs(light - ground).max() > 0.7
    assert abs(light[:, :6] - ground).max() < 0.02
    assert abs(light[:, -6:] - ground).max() < 0.02
    # Charts are coloured, and in the dark nothing of them is white ground.
    assert (pixels.max(axis=2) - pixels.min(axis=2)).max() > 0.4
    assert (light > 0.95).mean() < 0.05 or scheme == "light"


def test_a_phone_scrolls_tables_and_not_the_page(page: Path, tmp_path: Path) -> None:
    """At 390 pixels the page is no wider than the screen; wide tables and charts scroll in their own boxes.

    No label of a chart begins left of its box, where nobody could scroll to, whatever letters the browser has.
    """
    frame = tmp_path / "phone.html"
    frame.write_text(
        f'<!doctype html><iframe style="width:{PHONE_PX}px;height:800px;border:0" src="{page.as_uri()}"></iframe>'
        "<script>onload = () => { const d = document.querySelector('iframe').contentDocument;"
        "const wide = [...d.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth);"
        "const left = e => e.getBoundingClientRect().left, texts = [...d.querySelectorAll('svg text')];"
        "const cut = texts.filter(e => left(e) < left(e.closest('.scroll')));"
        "document.title = [d.documentElement.scrollWidth, wide.length, texts.length, cut.length].join(' '); }</script>"
    )
    title = Seen(
        browse(
            tmp_path / "profile", frame.as_uri(), "--allow-file-access-from-files", "--hide-scrollbars", "--dump-dom"
        )
    ).title
    width, boxes, texts, cut = map(int, title.split())
    assert width == PHONE_PX
    assert boxes > 5
    assert texts > 100
    assert cut == 0


def test_it_prints(page: Path, tmp_path: Path) -> None:
    """Printing gives a document of several pages."""
    paper = tmp_path / "report.pdf"
    browse(tmp_path / "profile", page.as_uri(), "--no-pdf-header-footer", f"--print-to-pdf={paper}")
    content = paper.read_bytes()
    assert content.startswith(b"%PDF")
    assert 3 < content.count(b"/Type /Page\n") < 40
