"""The page at / in a real browser: names from outside are text, nothing runs, and it is readable in light and dark."""

from __future__ import annotations

import contextlib
import http.server
import threading
import urllib.request
from typing import TYPE_CHECKING

import matplotlib.image
import pytest

from pimetrics.names import label_value, printable
from tests.live.browser import HOSTILE, RUN, SCHEMES, Seen, browse, work
from tests.live.prometheus import exporter, get, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ELEMENTS = {
    "html", "head", "meta", "title", "style", "body", "header", "h1", "p", "nav", "a", "main", "dl", "div", "dt", "dd",
    "section", "h2", "table", "thead", "tbody", "tr", "th", "td", "span", "bdi", "i", "code", "footer", "strong",
}  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a page that holds hostile names."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "run.jsonl").write_bytes(work())
    with exporter(folder, folder / "run.jsonl") as address:
        until(lambda: "<h2>Tools" in get(address, "/")[1], "the page shows the run")
        yield f"http://{address}/"


def test_hostile_names_are_text_in_a_browser(page: str, tmp_path: Path) -> None:
    """The browser's own tree has the names as text, and no element or attribute that they asked for."""
    seen = Seen(browse(tmp_path / "profile", page, "--dump-dom"))
    assert seen.title == "pimetrics"
    assert seen.elements <= ELEMENTS
    assert seen.handlers == []
    wanted = [printable(label_value(name)) for name in HOSTILE]
    assert sorted(seen.names) == sorted(wanted * 3)  # as provider, as model, as tool
    assert not any(ord(char) < 32 or char in "\u202e\u2066" for name in seen.names for char in name)


class _Unescaped(http.server.BaseHTTPRequestHandler):
    """Answers with a page that escapes nothing: under /guarded with the headers of the real page, else without."""

    headers_of_page: dict[str, str]

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        for name, value in self.headers_of_page.items() if self.path == "/guarded" else ():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(f"<!doctype html><title>still</title><body><script>{RUN}</script>".encode())

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing."""


def test_no_script_runs_even_where_an_escape_is_missed(page: str, tmp_path: Path) -> None:
    """Under the headers of the page a script in it does not run; without them the same browser runs it."""
    with urllib.request.urlopen(page, timeout=10) as answer:
        names = ("Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy")
        _Unescaped.headers_of_page = {name: answer.headers[name] for name in names}
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Unescaped) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        with contextlib.ExitStack() as stack:
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            address = f"http://127.0.0.1:{server.server_address[1]}"
            titles = {
                path: Seen(browse(tmp_path / path, f"{address}/{path}", "--dump-dom")).title
                for path in ("guarded", "bare")
            }
    assert titles == {"guarded": "still", "bare": "ran"}


@pytest.mark.parametrize("width", [1000, 500])
@pytest.mark.parametrize("scheme", list(SCHEMES))
def test_it_is_readable_in_light_and_dark(page: str, tmp_path: Path, scheme: str, width: int) -> None:
    """The ground follows what the user prefers, the text stands out from it, and a long name widens nothing."""
    picture = tmp_path / "page.png"
    prefers = f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}"
    browse(
        tmp_path / "profile",
        page,
        prefers,
        f"--window-size={width},900",
        "--hide-scrollbars",
        f"--screenshot={picture}",
    )
    light = matplotlib.image.imread(picture)[:, :, :3].mean(axis=2)  # rows, columns; 0 black to 1 white
    ground = light[2, 2]
    assert (ground < 0.2) if scheme == "dark" else (ground > 0.9)
    assert abs(light - ground).max() > 0.7
    # the margins hold nothing but ground: no row reaches over the edge
    assert abs(light[:, :6] - ground).max() < 0.02
    assert abs(light[:, -6:] - ground).max() < 0.02
