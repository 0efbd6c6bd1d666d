"""The notebooks: they run, on the example and on anyone's data, and what is in git is what they give."""

from __future__ import annotations

import base64
import io
import json
import os
import resource
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode
from PIL import Image, ImageChops

from tests.charting import HOSTILE, encodable
from tests.live.parts import program
from tests.notebooks.running import execute, load, sources

SOURCES = sources()
NAMES = [each.stem for each in SOURCES]
LIVE = "06-live-and-offline-agree"
CASES = Path(__file__).parents[1] / "fixtures" / "cases"
MINUTE = 60


def stored(source: Path) -> NotebookNode:
    """The `.ipynb` in git."""
    return nbformat.read(source.with_suffix(".ipynb"), as_version=4)


def outputs(notebook: NotebookNode) -> Iterator[dict[str, Any]]:
    """Yield what the cells gave, by MIME type."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            yield {"text/plain": output["text"]} if output.output_type == "stream" else output["data"]


def pictures(notebook: NotebookNode) -> list[Image.Image]:
    """Return the PNG pictures in a notebook."""
    found = (base64.b64decode(data["image/png"]) for data in outputs(notebook) if "image/png" in data)
    return [Image.open(io.BytesIO(png)).convert("L") for png in found]


def difference(one: Image.Image, other: Image.Image) -> float:
    """Return how far two pictures are apart where they differ most, 0 to 255; smoothing of edges does not count."""
    assert max(abs(a - b) for a, b in zip(one.size, other.size, strict=True)) <= 8, (one.size, other.size)
    small = (one.width // 16, one.height // 16)
    apart = ImageChops.difference(one.resize(small, Image.Resampling.BOX), other.resize(small, Image.Resampling.BOX))
    return float(apart.getextrema()[1])  # type: ignore[arg-type]


def said(notebook: NotebookNode) -> list[str]:
    """Return the texts and tables in a notebook."""
    return [str(data["text/plain"]) for data in outputs(notebook) if "image/png" not in data]


def child_seconds() -> float:
    """Processor time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
def test_it_runs_and_gives_what_is_in_git(source: Path) -> None:
    """Run headless, a notebook asserts its own numbers in under a minute; its tables and pictures are those in git."""
    if source.stem == LIVE:
        program("prometheus", "prometheus")
    before = child_seconds()
    done = execute(load(source))
    assert child_seconds() - before < MINUTE
    assert said(done) == said(stored(source))
    drawn, kept = pictures(done), pictures(stored(source))
    assert len(drawn) == len(kept) >= 1
    assert all(each.width > 500 and each.height > 150 for each in kept)
    assert max(map(difference, drawn, kept)) < 40


@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
def test_the_notebook_is_its_source(source: Path) -> None:
    """The cells of the `.ipynb` are those of the `.py` beside it."""
    cells = [(cell.cell_type, cell.source) for cell in stored(source).cells]
    assert cells == [(cell.cell_type, cell.source) for cell in load(source).cells]


@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
def test_it_answers_a_question(source: Path) -> None:
    """A notebook opens with its question, has one line to change right after it, and ends with what to do."""
    first, second, *_, last = load(source).cells
    assert "?**" in first.source
    assert second.source.startswith('PATH = "example"')
    assert last.source.startswith("## What to do about it")


@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
def test_nothing_of_the_machine_is_kept(source: Path) -> None:
    """What is in git names no path, process or address of the machine that ran it."""
    text = source.with_suffix(".ipynb").read_text()
    for word in (str(Path.cwd()), "/tmp", "site-packages", "ipykernel_", "object at 0x", "execution_start"):
        assert word not in text


def whole(path: str) -> NotebookNode:
    """All notebooks as one, reading something else than the example: one kernel runs them all."""
    first, *others = (load(source, path=path) for source in SOURCES)
    for other in others:
        first.cells += other.cells
    return first


def crowd(folder: Path) -> None:
    """Write sessions of four years in which 300 models and 40 tools have long or hostile names."""
    names = [*map(encodable, HOSTILE), *(f"an-organisation/a-model-{n:03}-{'x' * n}" for n in range(300))]
    start = datetime(2022, 12, 1, tzinfo=UTC)
    for session in range(24):
        at = start + timedelta(days=60 * session)
        lines: list[dict[str, Any]] = [
            {"type": "session", "version": 3, "id": f"s{session}", "timestamp": at.isoformat(), "cwd": names[session]}
        ]
        for number in range(40):
            at += timedelta(minutes=number % 7)
            model, tool, stamp = (
                names[(13 * session + number // 3) % len(names)],
                names[number // 3 % 40],
                at.timestamp() * 1000,
            )
            usage = {"input": 900 * number, "output": 80, "cacheRead": 12_000 * (number % 3), "cost": {"total": 0.01}}
            call = {"type": "toolCall", "id": f"c{number}", "name": tool, "arguments": {}}
            failed = number % 9 == 5
            for message in (
                {"role": "user", "content": "x", "timestamp": stamp - 9000},
                {"role": "assistant", "content": [call], "provider": model, "model": model, "usage": usage,
                 "stopReason": "error" if failed else "toolUse", "errorMessage": model if failed else None,
                 "timestamp": stamp, "durationMs": 2000 + number},
                {"role": "toolResult", "toolCallId": f"c{number}", "toolName": tool, "content": [], "isError": failed,
                 "timestamp": stamp + 9000, "durationMs": 5 * number},
            ):  # fmt: skip
                entry = {"type": "message", "id": f"{len(lines):08x}", "parentId": lines[-1].get("id")}
                lines.append(entry | {"timestamp": at.isoformat(), "message": message})
        (folder / f"{session}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize("kind", ["nothing", "one_session", "odd", "crowd"])
def test_they_run_on_the_data_of_others(kind: str, tmp_path: Path) -> None:
    """A new user without any data, one session, the oddest files and names there are, years: no notebook fails."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PI_", "PIMETRICS_", "XDG_"))}
    env["HOME"] = str(tmp_path)
    path = None
    if kind == "one_session":
        path = str(CASES / "09-growing-usage-keep-last.jsonl")
    elif kind == "odd":
        path = str(CASES)
    elif kind == "crowd":
        crowd(tmp_path)
        path = str(tmp_path / "*.jsonl")
    done = execute(whole(repr(path)), env=env)
    drawn = pictures(done)
    assert len(drawn) == sum(len(pictures(stored(source))) for source in SOURCES)
    assert all(max(each.size) < 3000 for each in drawn)
