"""The README's tables of COLUMNS and METRICS. `python -m tests.meta.readme_tables` writes them."""

from __future__ import annotations

import re
from pathlib import Path

from pimetrics.names import METRICS
from pimetrics.rows import COLUMNS

README = Path(__file__).parents[2] / "README.md"
_COMMON = ("row_id", "session_id", "source", "time", "time_source")


def columns() -> str:
    """Render COLUMNS: the common columns once, then a table of each table's own."""
    lines = ["Every table has:", "", "| column | type | holds |", "|---|---|---|"]
    lines += [_row(name, COLUMNS["usage"][name]) for name in _COMMON]
    for table, found in COLUMNS.items():
        on_request = " (on request: `read(..., events=True)`)" if table == "events" else ""
        lines += ["", f"**{table}**{on_request}", "", "| column | type | holds |", "|---|---|---|"]
        lines += [_row(name, column) for name, column in found.items() if name not in _COMMON]
    return "\n".join(lines)


def _row(name, column):
    return f"| `{name}` | {column.dtype} | {column.help} |"


def metrics() -> str:
    """Render METRICS."""
    lines = ["| metric | type | labels | what it is |", "|---|---|---|---|"]
    for name, family in METRICS.items():
        bounds = f"; buckets {family.buckets[0]:g} doubling to {family.buckets[-1]:g}" if family.buckets else ""
        lines.append(f"| `{name}` | {family.kind} | {', '.join(family.labels)} | {family.help}{bounds} |")
    return "\n".join(lines)


def rendered(text: str) -> str:
    """Return the README with its tables as the code has them."""
    for mark, body in (("columns", columns()), ("metrics", metrics())):
        pattern = re.compile(rf"(<!-- {mark}: [^>]*-->\n).*?(<!-- /{mark} -->)", re.DOTALL)
        text, found = pattern.subn(lambda m, body=body: f"{m.group(1)}\n{body}\n\n{m.group(2)}", text)
        assert found == 1, f"the README has no place for {mark}"
    return text


if __name__ == "__main__":
    README.write_text(rendered(README.read_text(encoding="utf-8")), encoding="utf-8")
