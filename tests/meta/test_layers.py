"""The house rules of imports: vocabulary at the bottom, stages that do not know each other, one home a library."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pimetrics

ROOT = Path(pimetrics.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
VOCABULARY = {
    "records",
    "events",
    "rows",
    "names",
    "errors",
    "keys",
    "stamping",
    "places",
    "marks",
    "snapshots",
    "delivery",
    "look",
}
STAGES = {"framing", "decoding", "reducing", "ledger", "sources", "sinks", "web"}


def home(path: Path) -> str:
    """Return the stage or module that a file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path, *, top_level: bool = False) -> Iterator[str]:
    """Yield the dotted names that a file imports; only those that run on import, if asked."""
    tree = ast.parse(path.read_text())
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        lazy = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and top_level
        typing = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        if lazy or (typing and top_level):
            skipped.update(ast.walk(node))
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names if node.module == "pimetrics")


def ours(path: Path) -> set[str]:
    """Return the stages and modules of the package that a file imports."""
    return {name.split(".")[1] for name in imports(path) if name.startswith("pimetrics.")}


def users(library: str, *, top_level: bool = False) -> set[str]:
    """Return the homes of the files that import a library."""
    return {
        home(path)
        for path in FILES
        if any(name == library or name.startswith(library + ".") for name in imports(path, top_level=top_level))
    }


@pytest.mark.parametrize("path", [p for p in FILES if home(p) in VOCABULARY], ids=lambda p: p.name)
def test_vocabulary_knows_only_vocabulary(path: Path) -> None:
    """The modules at the bottom import nothing that stands above them."""
    assert ours(path) <= VOCABULARY


@pytest.mark.parametrize("path", [p for p in FILES if home(p) == "reports"], ids=lambda p: p.name)
def test_reports_stand_on_the_ledger(path: Path) -> None:
    """Reports read facts and what was counted on the way; they know no source, no sink and no command."""
    assert ours(path) <= VOCABULARY | {"reports", "ledger", "pipeline", "examination", "decoding", "__version__"}


@pytest.mark.parametrize("path", [p for p in FILES if home(p) == "plots"], ids=lambda p: p.name)
def test_plots_draw_tables(path: Path) -> None:
    """Charts know tables by their columns: no stage and no command; their numbers are worded as those of reports."""
    assert ours(path) <= VOCABULARY | {"plots", "reports", "ledger"}


@pytest.mark.parametrize("path", [p for p in FILES if home(p) in STAGES], ids=lambda p: str(p.relative_to(ROOT)))
def test_stages_are_siblings(path: Path) -> None:
    """A stage imports vocabulary and itself; only the wiring joins stages."""
    assert ours(path) <= VOCABULARY | {home(path), "__version__"}


@pytest.mark.parametrize("path", [p for p in FILES if home(p) == "shipping"], ids=lambda p: p.name)
def test_shipping_reads_bytes_and_nothing_else(path: Path) -> None:
    """A shipper moves bytes from the disk to a receiver: it knows no record, no row, no ledger."""
    assert ours(path) <= VOCABULARY | {"shipping", "sources", "__version__"}


@pytest.mark.parametrize(
    "path",
    [
        p
        for p in FILES
        if home(p)
        in {"pipeline", "api", "exporter", "receiving", "scanning", "gathering", "exporting", "workers", "shipping"}
    ],
    ids=lambda p: p.name,
)
def test_wiring_does_not_know_the_commands(path: Path) -> None:
    """Commands stand on top: what they use does not use them."""
    assert not ours(path) & {"commands", "cli", "__main__"}


@pytest.mark.parametrize(
    ("library", "homes"),
    [
        ("ijson", {"decoding"}),
        ("sqlite3", {"ledger"}),
        ("starlette", {"web", "commands"}),
        ("uvicorn", {"web"}),
        ("h11", {"web"}),
        ("yaml", {"web"}),
        ("bcrypt", {"web"}),
        ("polars", {"sinks", "plots", "api", "scanning", "commands", "__init__"}),
        ("prometheus_client", {"sinks", "web", "commands", "exporter"}),
        ("click", {"cli", "commands"}),
        ("rich", {"cli", "commands", "reports", "progress"}),
        ("zstandard", {"sources"}),
        ("http.client", {"shipping"}),
        ("obstore", {"sinks"}),
        ("ray", {"cluster"}),
        ("altair", {"plots"}),
        ("vl_convert", {"plots"}),
    ],
)
def test_a_library_has_one_home(library: str, homes: set[str]) -> None:
    """Each outside library is used where the design says, and nowhere else."""
    assert users(library) <= homes


def test_the_rules_look_at_something() -> None:
    """The walk finds the package, and the imports that are known to be there."""
    assert "decoding" in users("ijson")
    assert "sinks" in users("polars")
    assert {home(path) for path in FILES} >= VOCABULARY | STAGES


def test_polars_is_loaded_lazily_above_sinks() -> None:
    """The interface and the commands load polars only when a table or a chart is asked for."""
    assert users("polars", top_level=True) <= {"sinks", "plots"}


@pytest.mark.parametrize("stage", ["framing", "decoding", "reducing"])
def test_pure_stages_do_no_io_and_read_no_clock(stage: str) -> None:
    """Framing, decoding and reducing import nothing that opens, waits, asks the time or keeps global state."""
    forbidden = {
        "os",
        "pathlib",
        "time",
        "threading",
        "asyncio",
        "socket",
        "sqlite3",
        "subprocess",
        "logging",
        "random",
        "tempfile",
    }
    for path in (p for p in FILES if home(p) == stage):
        assert not {name.split(".")[0] for name in imports(path)} & forbidden, path


@pytest.mark.parametrize("module", ["pimetrics", "pimetrics.cli", "pimetrics.pipeline"])
def test_importing_loads_no_polars(module: str) -> None:
    """A command that needs no table starts without the time that polars takes to load."""
    code = f"import sys, {module}; sys.exit('polars' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_web_configuration_is_read_only_where_there_is_one() -> None:
    """`serve` without `--web.config.file` starts without the time that YAML and bcrypt take to load."""
    code = "import sys, pimetrics.commands.serve; sys.exit(bool({'yaml', 'bcrypt', 'polars'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ["http.client", "ssl", "polars"])
def test_record_starts_without_what_it_may_not_need(module: str) -> None:
    """Pi waits for the start of `record`; delivering is loaded beside it, in a thread, and only when asked for."""
    code = f"import sys, pimetrics.commands.record; sys.exit({module!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_public_names_resolve() -> None:
    """Every name of `pimetrics.__all__` exists, and any other is an AttributeError."""
    for name in pimetrics.__all__:
        assert getattr(pimetrics, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = pimetrics.nothing
