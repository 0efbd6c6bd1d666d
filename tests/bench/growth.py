"""How time and memory grow with bytes and with files: linear is the claim, plots show it."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.bench.measure import Input, generate, measure
from tests.bench.table import REPORT

DIALECTS: Final = ("delta", "cumulative", "session")
SIZES: Final = (10_000_000, 100_000_000, 500_000_000, 1_000_000_000, 2_000_000_000)
FILES: Final = (10, 100, 1_000, 10_000)
_QUICK: Final = 2
_SMALL: Final = 200_000_000
"""Up to this size a point is the median of three runs; above, one run is long enough to be steady."""


def run(output: Path, machine: dict[str, Any], *, seed: int, quick: bool) -> None:
    """Measure `report --json` over growing inputs; write growth.json and the plots."""
    points: list[dict[str, Any]] = []
    for dialect in DIALECTS:
        for size in SIZES[:_QUICK] if quick else SIZES:
            with tempfile.TemporaryDirectory(prefix="pimetrics-growth-") as folder:
                path = Path(folder) / "input.jsonl"
                source = generate(path, dialect, "--size", str(size), "--seed", str(seed), "--clean")
                points.append(_point("bytes", 1, source))
    for count in FILES[:_QUICK] if quick else FILES:
        with tempfile.TemporaryDirectory(prefix="pimetrics-growth-") as folder:
            source = generate(Path(folder), "session", "--files", str(count), "--seed", str(seed), "--clean")
            points.append(_point("files", count, source))
    (output / "growth.json").write_text(json.dumps({"machine": machine, "points": points}, indent=1) + "\n")
    plot(output, points)


def _point(axis: str, files: int, source: Input) -> dict[str, Any]:
    runs = [measure(REPORT, source, {}) for _ in range(3 if source.bytes <= _SMALL else 1)]
    point = {
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


def plot(output: Path, points: list[dict[str, Any]]) -> None:
    """Write growth-bytes.png, growth-memory.png and growth-files.png."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    charts: tuple[tuple[str, str, str, float, str, str, float, str], ...] = (
        ("growth-bytes.png", "bytes", "bytes", 1e6, "MB read", "seconds", 1.0, "seconds, whole process"),
        ("growth-memory.png", "bytes", "bytes", 1e6, "MB read", "peak_bytes", 1e6, "peak memory, MB"),
        ("growth-files.png", "files", "files", 1.0, "files of one session each", "seconds", 1.0, "seconds, whole process"),
    )  # fmt: skip
    for name, axis, across, unit, across_label, up, up_unit, up_label in charts:
        figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
        for dialect in DIALECTS:
            chosen = [point for point in points if point["axis"] == axis and point["dialect"] == dialect]
            if chosen:
                xs: list[float] = [float(point[across]) / unit for point in chosen]
                ys: list[float] = [float(point[up]) / up_unit for point in chosen]
                axes.plot(xs, ys, marker="o", label=dialect)
                if up == "seconds":  # what linear growth from the largest point down would be
                    axes.plot(xs, [ys[-1] * x / xs[-1] for x in xs], color="grey", linestyle=":", linewidth=1)
        axes.set(xscale="log", xlabel=across_label, ylabel=up_label, title="pimetrics report --json")
        axes.set_yscale("log" if up == "seconds" else "linear")
        if up != "seconds":
            axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.3)
        axes.legend(title="dotted: linear" if up == "seconds" else None)
        figure.savefig(output / name, dpi=110)
        plt.close(figure)
