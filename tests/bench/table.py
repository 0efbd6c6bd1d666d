"""What the measurements say: medians with spread, and ratios against the floors, as text and as JSON."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bench.measure import Input, Measurement

Row = tuple[str, str, bool]
"""Input, peer, one core."""


class Reach(NamedTuple):
    """A ratio that must hold, and one to be known for."""

    floor: float
    stretch: float


READ: Final = "pimetrics.read"
REPORT: Final = "pimetrics report"

REACH: Final[dict[str, dict[str, Reach]]] = {
    "ijson": {
        "delta": Reach(4, 7),
        "cumulative": Reach(10, 20),
        "session": Reach(1.4, 2.5),
        "session-long": Reach(2.5, 5),
    },
    "orjson": {
        "delta": Reach(1.2, 1.8),
        "cumulative": Reach(2.5, 4),
        "session": Reach(0.4, 1),
        "session-long": Reach(1, 2),
    },
    "msgspec": {
        "delta": Reach(0.5, 0.9),
        "cumulative": Reach(1.2, 2),
        "session": Reach(0.2, 0.4),
        "session-long": Reach(0.4, 0.8),
    },
    "ccusage": {"session": Reach(1, 2), "session-long": Reach(1.5, 3)},
}
"""`pimetrics.read` against libraries, in process; `report --json` against ccusage, whole process."""


class Spread(NamedTuple):
    """A median with the least and the greatest of the runs."""

    median: float
    low: float
    high: float

    def shown(self, digits: int = 0) -> str:
        """For a table."""
        return f"{self.median:,.{digits}f} ({self.low:,.{digits}f} to {self.high:,.{digits}f})"


def spread(values: Sequence[float]) -> Spread:
    """Median, least, greatest."""
    return Spread(median(values), min(values), max(values))


def summary(sources: list[Input], runs: dict[Row, list[Measurement]]) -> list[dict[str, Any]]:
    """One object per input and peer."""
    by_name = {source.name: source for source in sources}
    found = []
    for (name, peer, one_core), measured in runs.items():
        source = by_name[name]
        rate = spread([source.bytes / 1e6 / one.seconds for one in measured])
        found.append(
            {
                "input": name,
                "peer": peer,
                "one_core": one_core,
                "megabytes_per_s": rate._asdict(),
                "cpu_megabytes_per_s": source.bytes / 1e6 / median(max(one.cpu_seconds, 1e-6) for one in measured),
                "records_per_s": source.records / median(one.seconds for one in measured),
                "peak_bytes": max(one.peak_bytes for one in measured),
                "error": next((one.error for one in measured if one.error), ""),
                "seconds": [one.seconds for one in measured],
                "cpu_seconds": [one.cpu_seconds for one in measured],
            }
        )
    return found


def ratios(sources: list[Input], runs: dict[Row, list[Measurement]]) -> list[dict[str, Any]]:
    """pimetrics against each peer, run against run of the same round, so that a slow minute slows both."""
    found = []
    for source in sources:
        for peer, reach in REACH.items():
            for one_core in (True, False) if peer == "ccusage" else (False,):
                theirs = runs.get((source.name, peer, one_core))
                ours = runs.get((source.name, REPORT if peer == "ccusage" else READ, one_core))
                if not theirs or not ours or any(one.error for one in ours) or theirs[0].error.startswith("failed"):
                    continue
                ratio = spread([t.seconds / o.seconds for t, o in zip(theirs, ours, strict=True)])
                cpu = median(t.cpu_seconds / max(o.cpu_seconds, 1e-6) for t, o in zip(theirs, ours, strict=True))
                asked = reach.get(source.name)
                found.append(
                    {
                        "input": source.name,
                        "peer": peer,
                        "cores": ("one" if one_core else "all") if peer == "ccusage" else "",
                        "ratio": ratio._asdict(),
                        "cpu_ratio": cpu,
                        "floor": asked and asked.floor,
                        "stretch": asked and asked.stretch,
                        "verdict": verdict(ratio.median, asked),
                    }
                )
    return found


def verdict(ratio: float, asked: Reach | None) -> str:
    """Where a ratio stands."""
    if asked is None:
        return "no floor"
    if ratio >= asked.stretch:
        return "STRETCH"
    return "floor holds" if ratio >= asked.floor else "BELOW FLOOR"


def as_text(sources: list[Input], rows: list[dict[str, Any]], compared: list[dict[str, Any]]) -> str:
    """Markdown tables."""
    lines = [
        "| input | peer | MB/s, median (spread) | records/s | MB per CPU second | peak memory, MB | sums |",
        "|---|---|---|---|---|---|---|",
    ]
    for source in sources:
        for row in rows:
            if row["input"] != source.name:
                continue
            peer = row["peer"] + (" (one core)" if row["one_core"] else "")
            if row["error"].startswith("failed"):
                lines.append(f"| {source.name} | {peer} | | | | | {row['error']} |")
                continue
            rate = Spread(**row["megabytes_per_s"]).shown()
            lines.append(
                f"| {source.name} | {peer} | {rate} | {row['records_per_s']:,.0f} | "
                f"{row['cpu_megabytes_per_s']:,.0f} | {row['peak_bytes'] / 1e6:,.0f} | {row['error'] or 'exact'} |"
            )
    lines += ["", "| input | against | ratio (spread) | by CPU time | floor / stretch | |", "|---|---|---|---|---|---|"]
    for one in compared:
        against = one["peer"] + (f", whole process, {one['cores']} core(s)" if one["cores"] else "")
        asked = f"{one['floor']:g} / {one['stretch']:g}" if one["floor"] else ""
        ratio = Spread(**one["ratio"]).shown(2)
        lines.append(f"| {one['input']} | {against} | {ratio} | {one['cpu_ratio']:.2f} | {asked} | {one['verdict']} |")
    return "\n".join(lines) + "\n"
