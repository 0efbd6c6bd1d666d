"""How time and memory grow with bytes and with files: linear is the claim, plots show it."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from tests.bench.measure import Input, generate, measure
from tests.bench.table import REPORT

DIALECTS: Final = ("delta", "cumulative", "session")
SIZES: Final = (10_000_000, 100_000_000, 500_000_000, 1_000_000_000, 2_000_000_000)
FILES: Final = (10, 100, 1_000, 10_000)
_SMALL: Final = 200_000_000
"""Up to this size a point is the median of three runs; above, one run is long enough to be steady."""


def run(output: Path, machine: dict[str, Any], *, seed: int, largest: int, most_files: int) -> None:
    """Measure `report --json` over growing inputs; write growth.json and the plots."""
    points: list[dict[str, Any]] = []
    for dialect in DIALECTS:
        for size in (size for size in SIZES if size <= largest):
            with tempfile.TemporaryDirectory(prefix="pimetrics-growth-") as folder:
                path = Path(folder) / "input.jsonl"
                source = generate(path, dialect, "--size", str(size), "--seed", str(seed), "--clean")
                points.append(_point("bytes", 1, source))
    for count in (count for count in FILES if count <= most_files):
        with tempfile.TemporaryDirectory(prefix="pimetrics-growth-") as folder:
            source = generate(Path(folder), "session", "--files", str(count), "--seed", str(seed), "--clean")
            points.append(_point("files", count, source))
    (output / "growth.json").write_text(json.dumps({"machine": machine, "points": points}, indent=1) + "\n")
    plot(output, points)


def _point(axis: str, files: int, source: Input) -> dict[str, Any]:
    runs = [measure(REPORT, source, {}) for _ in range(3 if source.bytes <= _SMALL else 1)]
    point: dict[str, Any] = {
        "axis": axis,
        "dialect": source.name,
        "files": files,
        "bytes": source.bytes,
        "records": source.records,
        "seconds": median(one.seconds for one in runs),
        "cpu_seconds": median(one.cpu_seconds for one in runs),
        "peak_bytes": max(one.peak_bytes for one in runs),
        "error": next((one.error for one in runs if one.error), ""),
    }
    sys.stderr.write(
        f"{axis} {source.name} {files} file(s), {source.bytes / 1e6:,.0f} MB: {point['seconds']:.2f} s, "
        f"{point['peak_bytes'] / 1e6:,.0f} MB peak {point['error']}\n"
    )
    return point


class Chart(NamedTuple):
    """One plot: what grows, along which axis, and what is measured."""

    file: str
    axis: str  # bytes or files
    x_unit: float
    x_label: str
    measured: str  # seconds or peak_bytes
    y_unit: float
    y_label: str


CHARTS: Final = (
    Chart("growth-bytes.png", "bytes", 1e6, "MB read", "seconds", 1, "seconds, whole process"),
    Chart("growth-memory.png", "bytes", 1e6, "MB read", "peak_bytes", 1e6, "peak memory, MB"),
    Chart("growth-files.png", "files", 1, "files of one session each", "seconds", 1, "seconds, whole process"),
)


def plot(output: Path, points: list[dict[str, Any]]) -> None:
    """Write the plots of CHARTS; dotted lines show linear growth from the largest point down."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    for chart in CHARTS:
        timed = chart.measured == "seconds"
        figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
        for dialect in DIALECTS:
            chosen = [point for point in points if (point["axis"], point["dialect"]) == (chart.axis, dialect)]
            xs = [float(point[chart.axis]) / chart.x_unit for point in chosen]
            ys = [float(point[chart.measured]) / chart.y_unit for point in chosen]
            if chosen:
                axes.plot(xs, ys, marker="o", label=dialect)
            if chosen and timed:
                axes.plot(xs, [ys[-1] * x / xs[-1] for x in xs], color="grey", linestyle=":", linewidth=1)
        axes.set(xscale="log", xlabel=chart.x_label, ylabel=chart.y_label, title="pimetrics report --json")
        if timed:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.3)
        axes.legend(title="dotted: linear" if timed else None)
        figure.savefig(output / chart.file, dpi=110)
        plt.close(figure)
