"""Runs the notebooks: from their `.py` sources, headless, and into the `.ipynb` files beside them.

    python -m tests.notebooks.running            # executes all and writes notebooks/*.ipynb
    python -m tests.notebooks.running 03 05      # these only

A source is the notebook (jupytext, percent format); the `.ipynb` beside it is what it gave, with its pictures inside, so
that they show where nothing runs. Nothing that changes from run to run is kept: no times, no counters of another run.
"""

from __future__ import annotations

import base64
import io
import sys
from pathlib import Path
from typing import Any, Final

import jupytext
import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from PIL import Image

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


def execute(notebook: NotebookNode, **options: Any) -> NotebookNode:
    """Run a notebook in a kernel of its own, in the folder of the notebooks; an error in a cell is raised.

    Args:
        notebook: The notebook; its cells get their outputs.
        options: For the start of the kernel, such as `env`.
    """
    here = {"metadata": {"path": str(FOLDER)}}
    client = NotebookClient(notebook, timeout=TIMEOUT_S, kernel_name="python3", record_timing=False, resources=here)
    done: NotebookNode = client.execute(**options)
    return done


def repacked(png: bytes) -> bytes:
    """Return the same pixels in a sixth of the bytes: charts have few colours, and the renderer packs in haste."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    few = picture.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    exact = few.convert("RGB").tobytes() == picture.tobytes()
    packed = io.BytesIO()
    (few if exact else picture).save(packed, "PNG", optimize=True)
    return packed.getvalue()


def write(source: Path) -> None:
    """Execute a source and write the `.ipynb` beside it."""
    notebook = execute(load(source))
    for cell in notebook.cells:
        for data in (output["data"] for output in cell.get("outputs", []) if "data" in output):
            if "image/png" in data:
                data["image/png"] = base64.b64encode(repacked(base64.b64decode(data["image/png"]))).decode()
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"], "language_info": {"name": "python"}}
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
    nbformat.write(notebook, source.with_suffix(".ipynb"))


if __name__ == "__main__":
    for each in sources():
        if not sys.argv[1:] or each.name[:2] in sys.argv[1:]:
            write(each)
