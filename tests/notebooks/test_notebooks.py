"""The notebooks: they run, on the example and on anyone's data, and what is in git is what they give."""

from __future__ import annotations

import base64
import os
import resource
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode

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


def pictures(notebook: NotebookNode) -> list[tuple[int, int]]:
    """Return the sizes of the PNG pictures in a notebook, pixels."""
    sizes = []
    for data in outputs(notebook):
        if "image/png" in data:
            head = base64.b64decode(data["image/png"])[:24]
            assert head.startswith(b"\x89PNG\r\n\x1a\n")
            sizes.append(struct.unpack(">II", head[16:24]))
    return sizes


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
    assert len(pictures(done)) == len(pictures(stored(source))) >= 1
    assert all(width > 500 and height > 150 for width, height in pictures(stored(source)))


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


@pytest.mark.parametrize("kind", ["nothing", "one_session", "odd"])
def test_they_run_on_the_data_of_others(kind: str, tmp_path: Path) -> None:
    """A new user without any data, one with a single session, and the oddest files there are: no notebook fails."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PI_", "PIMETRICS_", "XDG_"))}
    env["HOME"] = str(tmp_path)
    path = None
    if kind == "one_session":
        path = str(CASES / "09-growing-usage-keep-last.jsonl")
    elif kind == "odd":
        path = str(CASES)
    done = execute(whole(repr(path)), env=env)
    assert len(pictures(done)) == sum(len(pictures(stored(source))) for source in SOURCES)
