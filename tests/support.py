"""What tests share: the recordings, and one comparable result of reading something."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

from pimetrics.decoding import Decoder
from pimetrics.events import Decoded
from pimetrics.framing import Framer
from pimetrics.ledger.memory import MemoryLedger
from pimetrics.pipeline import Pipeline, Stats
from pimetrics.reducing import Reduction
from pimetrics.rows import COLUMNS, Row

FIXTURES = Path(__file__).parent / "fixtures"
STREAMS = FIXTURES / "streams"
CASES = FIXTURES / "cases"


class Recording(NamedTuple):
    """One recording of pi."""

    version: str
    name: str

    @property
    def id(self) -> str:
        return f"{self.version}/{self.name}"

    @property
    def stream_path(self) -> Path:
        plain = STREAMS / self.version / f"{self.name}.jsonl"
        return plain if plain.exists() else plain.with_name(plain.name + ".zst")

    @property
    def expected(self) -> dict[str, Any]:
        """The oracle."""
        found: dict[str, Any] = json.loads((STREAMS / self.version / f"{self.name}.expected.json").read_text())
        return found

    @property
    def session_paths(self) -> list[Path]:
        """Its session files, in the order of their making."""
        paths = (STREAMS / self.version).glob(f"{self.name}.session*.jsonl")
        return sorted(paths, key=lambda path: (len(path.name), path.name))

    def stream(self) -> bytes:
        """The event stream, uncompressed."""
        return content(self.stream_path)

    def stamped(self) -> bytes:
        """The event stream with its arrival times, as `record` would have kept it."""
        times = (STREAMS / self.version / f"{self.name}.times").read_text().split()
        lines = self.stream().split(b"\n")
        return b"\n".join(stamped(line, int(at)) for line, at in zip(lines, [*times, "0"], strict=False))


def recordings(pattern: str = "") -> list[Recording]:
    """Return the recordings whose version/name fits a regular expression."""
    found = (Recording(p.parent.name, p.name.removesuffix(".expected.json")) for p in STREAMS.glob("*/*.expected.json"))
    return sorted(each for each in found if re.search(pattern, each.id))


@cache
def content(path: Path) -> bytes:
    """Return the bytes of a file, uncompressed."""
    data = path.read_bytes()
    return zstandard.ZstdDecompressor().decompressobj().decompress(data) if path.suffix == ".zst" else data


def stamped(line: bytes, at: int) -> bytes:
    """Return a record with an arrival stamp; anything else as it is."""
    if not (line.startswith(b"{") and line.endswith(b"}")) or line == b"{}":
        return line
    return line[:-1] + b',"receivedAt":%d}' % at


class Result(NamedTuple):
    """All that reading gives: equal results are the same answer."""

    rows: dict[str, list[dict[str, Any]]]
    stats: Stats
    counters: dict[tuple[str, tuple[str, ...]], int]
    histograms: dict[tuple[str, tuple[str, ...]], tuple[tuple[int, ...], int]]
    late: dict[str, int]

    def total(self, metric: str, **labels: str) -> int:
        """Sum a counter over the labels that are not named."""
        from pimetrics.names import METRICS

        names = METRICS[metric].labels
        return sum(
            amount
            for (name, values), amount in self.counters.items()
            if name == metric and all(dict(zip(names, values, strict=True))[k] == v for k, v in labels.items())
        )

    def without_source(self) -> dict[str, list[dict[str, Any]]]:
        """The rows, but not where they were seen."""
        return {
            table: [{k: v for k, v in r.items() if k != "source"} for r in rows] for table, rows in self.rows.items()
        }


Given = bytes | Sequence[bytes]
"""A source: its bytes, or its chunks."""


def read(
    *sources: Given | tuple[str, Given], events: bool = False, ledger: MemoryLedger | None = None, **options: Any
) -> Result:
    """Read sources one after the other into one ledger; without a name they are s0, s1, ..."""
    ledger = MemoryLedger() if ledger is None else ledger
    pipeline = Pipeline(ledger, events=events, **options)
    for number, source in enumerate(sources):
        name, given = source if isinstance(source, tuple) and isinstance(source[0], str) else (f"s{number}", source)
        pipeline.run(name, [given] if isinstance(given, bytes) else given)
    return result(ledger, pipeline.stats)


def result(ledger: MemoryLedger, stats: Stats) -> Result:
    """Return what a ledger and its pipeline hold, in one fixed order."""
    rows = {
        table: sorted(({n: r.get(n) for n in COLUMNS[table]} for r in ledger.rows(table)), key=lambda r: r["row_id"])
        for table in COLUMNS
    }
    totals = ledger.totals
    histograms = {key: (tuple(h.counts), h.total) for key, h in totals.histograms.items()}
    return Result(rows, stats, dict(totals.counters), histograms, dict(totals.late))


def decode(data: bytes, **options: Any) -> Decoded:
    """Frame and decode one source in one piece."""
    decoder = Decoder(**options)
    framer = Framer(decoder.keep)
    return decoder.feed([*framer.cut(data), *framer.finish()])


def reduce(data: bytes, source: str = "s") -> list[Row]:
    """Frame, decode and reduce one source in one piece."""
    reduction = Reduction(source)
    return [*reduction.feed(decode(data).events), *reduction.finish()]


def lines(*records: bytes | dict[str, Any]) -> bytes:
    """Return records as JSON lines."""
    return b"".join((each if isinstance(each, bytes) else to_json(each)) + b"\n" for each in records)


_HALF = re.compile("[\ud800-\udfff]")


def to_json(value: Any) -> bytes:
    """Return JSON as JavaScript writes it: compact, raw unicode, half surrogates escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _HALF.sub(lambda half: f"\\u{ord(half.group()):04x}", text).encode()


def tally(rows: Iterable[dict[str, Any]], column: str) -> Counter[Any]:
    """Count the values of a column."""
    return Counter(row[column] for row in rows)


def assert_same(found: Result, want: Result) -> None:
    """Assert that two results are equal; name the first differences, not the whole of both."""
    if found == want:
        return
    told = [
        f"{name}: {a} != {b}"
        for name, a, b in zip(found._fields, found, want, strict=True)
        if name != "rows" and a != b
    ]
    for table, rows in found.rows.items():
        ours, theirs = ({row["row_id"]: row for row in each} for each in (rows, want.rows[table]))
        for row_id in {**ours, **theirs}:
            a, b = ours.get(row_id), theirs.get(row_id)
            if a is None or b is None:
                told.append(f"{table} only {'right' if a is None else 'left'}: {a or b}")
            elif a != b:
                told.append(f"{table} {row_id}: " + ", ".join(f"{k} {a[k]!r} != {b[k]!r}" for k in a if a[k] != b[k]))
    raise AssertionError("\n".join(each[:600] for each in told[:12]))


def sums(found: Result) -> Counter[str]:
    """Return each counter over all its labels, without the exporter's own."""
    totals: Counter[str] = Counter()
    for (metric, _), amount in found.counters.items():
        if not metric.startswith("pimetrics_"):
            totals[metric] += amount
    return totals


def assert_agree(found: Result, want: Result) -> None:
    """Assert equal tables; equal counters too, except where a later source knew a fact's label better."""
    assert (
        found.rows == want.rows
        or assert_same(found._replace(late=want.late, counters=want.counters, histograms=want.histograms), want) is None
    )
    assert sums(found) == sums(want)
    # Not the tools: a call that a stream left unfinished has counted as such when the file comes after it.
    for metric in ("pi_tokens_total", "pi_cost_usd_total", "pi_requests_total"):
        ours, theirs = ({key: n for key, n in each.counters.items() if key[0] == metric} for each in (found, want))
        assert ours == theirs
