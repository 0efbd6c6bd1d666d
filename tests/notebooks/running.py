"""Runs the notebooks: from their `.py` sources, headless, and into the `.ipynb` files beside them.

    python -m tests.notebooks.running            # executes all and writes notebooks/*.ipynb
    python -m tests.notebooks.running 03 05      # these only

A source is the notebook (jupytext, percent format); the `.ipynb` beside it is what it gave, with its pictures inside, so
that they show where nothing runs. Nothing that changes from run to run is kept: no times, no counters of another run.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import jupytext
import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER: Final = Path(__file__).parents[2] / "notebooks"
TIMEOUT_S: Final = 60
"""A notebook runs top to bottom in under a minute; no cell of it may take longer."""


def sources() -> list[Path]:
    """Return the sources, in reading order."""
    return sorted(FOLDER.glob("[0-9]*.py"))


def load(source: Path, *, path: str | None = None) -> NotebookNode:
    """Return a source as a notebook without outputs.

    Args:
        source: The `.py` file.
        path: What to read instead of the example, as Python code: the one line that a reader changes.
    """
    notebook = jupytext.read(source)
    if path is not None:
        (cell,) = (each for each in notebook.cells if each.source.startswith("PATH = "))
        first, _, rest = cell.source.partition("\n")
        cell.source = f"PATH = {path}\n{rest}"
        assert first != f"PATH = {path}"
    return notebook


def execute(notebook: NotebookNode) -> NotebookNode:
    """Run a notebook in a kernel of its own, in the folder of the notebooks; an error in a cell is raised."""
    client = NotebookClient(
        notebook, timeout=TIMEOUT_S, kernel_name="python3", record_timing=False, resources={"metadata": {"path": str(FOLDER)}}
    )
    done: NotebookNode = client.execute()
    return done


def write(source: Path) -> None:
    """Execute a source and write the `.ipynb` beside it."""
    notebook = execute(load(source))
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"], "language_info": {"name": "python"}}
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
    nbformat.write(notebook, source.with_suffix(".ipynb"))


if __name__ == "__main__":
    for each in sources():
        if not sys.argv[1:] or each.name[:2] in sys.argv[1:]:
            write(each)
