"""The peers: each adds up the same tokens and costs of a file, in the way its own users would.

What they add: the usage of assistant messages that are settled (`message_end`, or `message` entries of session files),
and of compactions. None of them knows pi, except ccusage; none pairs, keys or merges anything, so each is a floor of
what reading costs, not a replacement. Imports stand inside the functions: a measurement loads only its own peer.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Sums(NamedTuple):
    """What a peer found: tokens and USD."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: float


JQ: Final = r"""
reduce (inputs
  | if .type == "message_end" or .type == "message" then (select(.message.role == "assistant") | .message.usage)
    elif .type == "compaction_end" then .result.usage
    elif .type == "compaction" then .usage
    else empty end
  | values) as $u
  ([0, 0, 0, 0, 0];
   [.[0] + $u.input, .[1] + $u.output, .[2] + $u.cacheRead, .[3] + $u.cacheWrite, .[4] + $u.cost.total])
"""


def usage_of(record: dict[str, Any]) -> dict[str, Any] | None:
    """The usage that counts in a decoded record, if any."""
    kind = record["type"]
    if kind in ("message_end", "message"):
        message = record["message"]
        return message.get("usage") if message["role"] == "assistant" else None
    if kind == "compaction_end":
        return (record.get("result") or {}).get("usage")
    if kind == "compaction":
        return record.get("usage")
    return None


class _Adder:
    """Adds usage objects."""

    def __init__(self) -> None:
        self.tokens = [0, 0, 0, 0]
        self.cost = 0.0

    def add(self, usage: dict[str, Any] | None) -> None:
        if usage is not None:
            tokens = self.tokens
            tokens[0] += usage["input"]
            tokens[1] += usage["output"]
            tokens[2] += usage["cacheRead"]
            tokens[3] += usage["cacheWrite"]
            self.cost += usage["cost"]["total"]

    def sums(self) -> Sums:
        read, written, cached, stored = self.tokens
        return Sums(read, written, cached, stored, self.cost)


def by_ijson(path: Path) -> Sums:
    """Plain ijson: every record decoded into Python objects."""
    import ijson  # type: ignore[import-untyped]

    adder = _Adder()
    with path.open("rb") as file:
        for record in ijson.items(file, "", multiple_values=True, use_float=True):
            adder.add(usage_of(record))
    return adder.sums()


def by_orjson(path: Path) -> Sums:
    """`orjson.loads` on every line."""
    import orjson

    adder = _Adder()
    with path.open("rb") as file:
        for line in file:
            adder.add(usage_of(orjson.loads(line)))
    return adder.sums()


def by_msgspec(path: Path) -> Sums:
    """msgspec with typed structs on every line: decodes only the fields that are added, builds nothing else."""
    import msgspec

    from tests.bench.structs import Record

    decode = msgspec.json.Decoder(Record).decode
    tokens = [0, 0, 0, 0]
    cost = 0.0
    with path.open("rb") as file:
        for line in file:
            record = decode(line)
            usage = None
            kind = record.type
            if kind in ("message_end", "message"):
                if record.message is not None and record.message.role == "assistant":
                    usage = record.message.usage
            elif kind == "compaction_end":
                usage = record.result.usage if record.result is not None else None
            elif kind == "compaction":
                usage = record.usage
            if usage is not None:
                tokens[0] += usage.input
                tokens[1] += usage.output
                tokens[2] += usage.cacheRead
                tokens[3] += usage.cacheWrite
                cost += usage.cost.total
    read, written, cached, stored = tokens
    return Sums(read, written, cached, stored, cost)


def by_polars(path: Path) -> Sums:
    """`polars.scan_ndjson` with the schema of the fields that are added."""
    import polars as pl

    usage = pl.Struct(
        {
            "input": pl.Int64,
            "output": pl.Int64,
            "cacheRead": pl.Int64,
            "cacheWrite": pl.Int64,
            "cost": pl.Struct({"total": pl.Float64}),
        }
    )
    schema: dict[str, pl.DataType | type[pl.DataType]] = {
        "type": pl.String,
        "message": pl.Struct({"role": pl.String, "usage": usage}),
        "result": pl.Struct({"usage": usage}),
        "usage": usage,
    }
    kind = pl.col("type")
    message = pl.col("message").struct
    counted = (
        pl.when(kind.is_in(["message_end", "message"]) & (message.field("role") == "assistant"))
        .then(message.field("usage"))
        .when(kind == "compaction_end")
        .then(pl.col("result").struct.field("usage"))
        .when(kind == "compaction")
        .then(pl.col("usage"))
    )
    found = (
        pl.scan_ndjson(path, schema=schema)
        .select(u=counted)
        .select(
            *[pl.col("u").struct.field(name).sum() for name in ("input", "output", "cacheRead", "cacheWrite")],
            cost=pl.col("u").struct.field("cost").struct.field("total").sum(),
        )
        .collect(engine="streaming")
        .row(0)
    )
    return Sums(*found)


def by_duckdb(path: Path) -> Sums:
    """DuckDB `read_json` with the columns that are added."""
    import duckdb

    usage = "STRUCT(input BIGINT, output BIGINT, cacheRead BIGINT, cacheWrite BIGINT, cost STRUCT(total DOUBLE))"
    query = f"""
        WITH counted AS (
            SELECT CASE WHEN type IN ('message_end', 'message') AND message.role = 'assistant' THEN message.usage
                        WHEN type = 'compaction_end' THEN result.usage
                        WHEN type = 'compaction' THEN usage END AS u
            FROM read_json($path, format = 'newline_delimited', maximum_object_size = 134217728, columns = {{
                type: 'VARCHAR', message: 'STRUCT(role VARCHAR, usage {usage})', result: 'STRUCT(usage {usage})',
                usage: '{usage}'}}))
        SELECT sum(u.input)::BIGINT, sum(u.output)::BIGINT, sum(u.cacheRead)::BIGINT, sum(u.cacheWrite)::BIGINT,
               sum(u.cost.total) FROM counted
    """
    with duckdb.connect() as connection:
        row = connection.execute(query, {"path": str(path)}).fetchone()
    assert row is not None
    return Sums(*row)


def from_jq(printed: str) -> Sums:
    """What the jq program printed."""
    return Sums(*json.loads(printed))


def from_ccusage(printed: str) -> Sums:
    """What `ccusage pi daily --json` printed."""
    totals = json.loads(printed)["totals"]
    return Sums(
        totals["inputTokens"], totals["outputTokens"], totals["cacheReadTokens"], totals["cacheCreationTokens"],
        totals["totalCost"],
    )  # fmt: skip


def by_read(path: Path) -> Sums:
    """`pimetrics.read`: decoded, reduced, keyed, as tables."""
    import pimetrics

    return _of_frame(pimetrics.read(path).usage)


def by_scan(path: Path) -> Sums:
    """`pimetrics.scan`, its usage table collected."""
    import pimetrics

    return _of_frame(pimetrics.scan(path).usage.collect())


def _of_frame(usage: Any) -> Sums:
    import polars as pl

    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_usd")
    return Sums(*usage.filter(pl.col("settled")).select(pl.col(name).sum() for name in names).row(0))


def from_report(printed: str) -> Sums:
    """What `pimetrics report --json` printed."""
    usage = json.loads(printed)["usage"]
    tokens = usage["tokens"]
    return Sums(tokens["input"], tokens["output"], tokens["cache_read"], tokens["cache_write"], usage["cost_usd"])


IN_PROCESS: Final[dict[str, Callable[[Path], Sums]]] = {
    "pimetrics.read": by_read,
    "pimetrics.scan": by_scan,
    "ijson": by_ijson,
    "orjson": by_orjson,
    "msgspec": by_msgspec,
    "polars": by_polars,
    "duckdb": by_duckdb,
}
"""Peers that are libraries: measured inside a process of their own, without its start."""

PRINTED: Final[dict[str, Callable[[str], Sums]]] = {
    "pimetrics report": from_report,
    "jq": from_jq,
    "ccusage": from_ccusage,
}
"""Peers that are programs: measured from start to exit."""
