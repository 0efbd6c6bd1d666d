"""What tests of pages share: a fresh Chromium, what it made of a page, and work with hostile names."""

from __future__ import annotations

import html.parser
import json
import subprocess
from typing import TYPE_CHECKING

from tests.live.parts import program as installed

if TYPE_CHECKING:
    from pathlib import Path

CHROMIUM = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
)  # fmt: skip
BROWSER_TIMEOUT_S = 60
SCHEMES = {"dark": 0, "light": 1}
"""Chromium's numbers for what a page is told the user prefers."""

RUN = "document.title='ran'"
HOSTILE = (
    f"<script>{RUN}</script>",
    f'<img src=x onerror="{RUN}">',
    f'"><svg/onload={RUN}>',
    f"</td></table><style>*{{display:none}}</style><iframe srcdoc='<script>parent.{RUN}</script>'>",
    "&lt;b&gt;&#x3c;",
    "[/]",
    "[red]x[/red]",
    "a\u202egnp.exe\u2066x",
    "line\nbreak\r\ttab\x1b[31m\x00",
    "\u0645\u0631\u062d\u0628\u0627",
    "very-long-" + "x" * 5000,
)


def work() -> bytes:
    """Return the stream of a session in which every provider, model and tool has a hostile name."""
    records: list[dict[str, object]] = [
        {"type": "session", "version": 3, "id": "s", "timestamp": "2026-11-29T10:00:00.000Z", "cwd": "/srv"}
    ]
    for number, name in enumerate(HOSTILE):
        usage = {"input": 10, "output": 1, "cost": {"total": 0.25}}
        message = {"role": "assistant", "content": [], "provider": name, "model": name, "usage": usage}
        message |= {"stopReason": "stop", "timestamp": 1_796_065_800_000 + number}
        records += [
            {"type": "message_end", "message": message},
            {"type": "tool_execution_start", "toolCallId": f"c{number}", "toolName": name, "args": {}},
            {"type": "tool_execution_end", "toolCallId": f"c{number}", "toolName": name, "result": {}, "isError": True},
        ]
    records.append({"type": "agent_end", "messages": []})
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def browse(profile: Path, address: str, *options: str) -> str:
    """Open a page in a fresh Chromium; return what it prints."""
    argv = [installed("chromium", "chromium"), *CHROMIUM, f"--user-data-dir={profile}", *options, address]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=BROWSER_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout.decode()


def console(profile: Path, address: str, *options: str) -> list[str]:
    """Open a page in a fresh Chromium; return what it wrote to its console: errors, and what its policy refused."""
    argv = [installed("chromium", "chromium"), *CHROMIUM, f"--user-data-dir={profile}", "--enable-logging=stderr"]
    argv += [*options, "--dump-dom", address]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=BROWSER_TIMEOUT_S, check=False)
    said = done.stderr.decode(errors="replace")
    assert done.returncode == 0, said
    return [line for line in said.splitlines() if ":CONSOLE:" in line]


class Seen(html.parser.HTMLParser):
    """What a browser made of a page.

    Attributes:
        elements: Names of all elements.
        handlers: Attributes that would run a script.
        title: The title.
        names: The texts of the elements that hold names from outside.
    """

    def __init__(self, dom: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.handlers: list[str] = []
        self.title = ""
        self.names: list[str] = []
        self._in = ""
        self.feed(dom)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.handlers += [name for name, _value in attrs if name.startswith("on") or name == "srcdoc"]
        self._in = tag
        if tag == "bdi":
            self.names.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in == "title":
            self.title += data
        elif self._in == "bdi":
            self.names[-1] += data
