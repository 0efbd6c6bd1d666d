"""What tests of report and doctor share: made-up session files, and the command line in this process."""

from __future__ import annotations

import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from functools import cache
from io import StringIO
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from rich.console import Console

from pimetrics.api import load
from pimetrics.cli import main
from pimetrics.reports.layout import Terminal
from pimetrics.reports.pages import Page
from pimetrics.reports.selection import Zone
from pimetrics.reports.summary import summarize

CASES = Path(__file__).parent / "fixtures" / "cases"
STREAMS = Path(__file__).parent / "fixtures" / "streams"
START = 1_790_000_000_000
"""2026-09-21T14:13:20Z."""


def case(number: str) -> tuple[list[Path], dict]:
    """Return the inputs of a case and its right outcome."""
    (path,) = CASES.glob(f"{number}-*.json")
    found = json.loads(path.read_text(encoding="utf-8"))
    return [CASES / name for name in found["files"]], found["right"]


class Ran(NamedTuple):
    """What a command printed, and its exit status."""

    out: str
    err: str
    status: int

    @property
    def json(self) -> dict:
        return json.loads(self.out)


def run(*args: object, **env: str) -> Ran:
    """Run `pimetrics` with arguments and environment, its output in a pipe."""
    out, err = StringIO(), StringIO()
    status = 0
    with (
        patch.object(sys, "argv", ["pimetrics", *map(str, args)]),
        patch.dict(os.environ, env),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            status = int(end.code or 0)
    return Ran(out.getvalue(), err.getvalue(), status)


def terminal(width: int) -> Console:
    """Return a console that is a terminal of that width and keeps what it is given, without colours."""
    return Console(
        file=StringIO(), width=width, force_terminal=True, color_system=None, highlight=False, markup=False, emoji=False
    )


@cache
def loaded(*paths: Path):
    """Read files once for several tests; a ledger is only looked at afterwards."""
    return load(paths)


def overview(width: int, *paths: Path) -> list[str]:
    """Return the lines of the overview as a terminal of that width shows them."""
    ledger, pipeline = loaded(*paths)
    console = terminal(width)
    page = Page(Terminal(console), ledger, Zone("UTC"))
    page.headline(summarize(ledger, pipeline.stats))
    page.overview()
    page.top(5)
    page.view("session")
    page.legend()
    return console.file.getvalue().splitlines()


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Session:
    """A session file in the making; each entry follows the one before, a second later."""

    def __init__(
        self, session_id: str = "s-1", cwd: str = "/srv/demo", *, start: int = START, parent: str | None = None
    ):
        self.now = start
        header = {"type": "session", "version": 3, "id": session_id, "timestamp": iso(start), "cwd": cwd}
        self.entries: list[dict] = [header | ({"parentSession": parent} if parent else {})]

    def entry(self, kind: str, **fields: object) -> Session:
        self.now += 1000
        last = self.entries[-1].get("id") if len(self.entries) > 1 else None
        frame = {"type": kind, "id": f"{len(self.entries):08x}", "parentId": last, "timestamp": iso(self.now)}
        self.entries.append(frame | fields)
        return self

    def message(self, role: str, **fields: object) -> Session:
        fields.setdefault("content", [{"type": "text", "text": "ok"}])
        return self.entry("message", message={"role": role, "timestamp": self.now + 1000, **fields})

    def ask(self) -> Session:
        return self.message("user")

    def answer(
        self, cost: float | None = 0.01, tokens: tuple[int, int, int, int] = (10, 5, 0, 0), *, tools: tuple[str, ...] = (),
        model: str = "model-a", provider: str = "prov-x", stop: str = "stop", **fields: object,
    ) -> Session:  # fmt: skip
        calls = [
            {"type": "toolCall", "id": f"call-{self.now}-{i}", "name": t, "arguments": {}} for i, t in enumerate(tools)
        ]
        return self.message(
            "assistant", content=calls, api="api-x", provider=provider, model=model, usage=usage(cost, tokens),
            stopReason="toolUse" if tools else stop, **fields,
        )  # fmt: skip

    def results(self, cost: float | None = None, *, is_error: bool = False) -> Session:
        """Give the results of the calls of the last answer; `cost` is what each tool reports of its own."""
        calls = next(e for e in reversed(self.entries) if e.get("message", {}).get("role") == "assistant")
        for call in calls["message"]["content"]:
            extra = {} if cost is None else {"usage": usage(cost, (100, 10, 0, 0))}
            self.message(
                "toolResult", toolCallId=call["id"], toolName=call["name"], isError=is_error,
                content=[{"type": "text", "text": "fine"}], **extra,
            )  # fmt: skip
        return self

    def write(self, path: Path) -> Path:
        path.write_text(
            "".join(f"{json.dumps(entry, separators=(',', ':'))}\n" for entry in self.entries), encoding="utf-8"
        )
        return path


def usage(cost: float | None, tokens: tuple[int, int, int, int]) -> dict:
    kinds = dict(zip(("input", "output", "cacheRead", "cacheWrite"), tokens, strict=True))
    return kinds | {"totalTokens": sum(tokens)} | ({} if cost is None else {"cost": {"total": cost}})
