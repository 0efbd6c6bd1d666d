"""What the ledger on disk costs: a row, a start, as the file grows. `python -m tests.bench.ledger ROWS [FILE]`.

Fills a ledger with ROWS made-up facts (by SQL, in the order of time, as years of use would leave it), then measures on
it: a real `serve` from its start to ready, opening alone, and adding 20,000 new rows and 20,000 known ones through the
same code as `serve`.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

from pimetrics.ledger.schema import open_state
from pimetrics.ledger.sqlite import SqliteLedger
from pimetrics.rows import Part, Row
from tests.serving import Served

START_MS = 1_600_000_000_000
BODY = (
    '{"time": 1794819661000, "time_source": "message", "operation": "turn", "provider": "prov-x", "model": "model-a", '
    '"api": "api-x", "stop_reason": "stop", "input_tokens": 1000, "output_tokens": 100, "cost_usd": 0.01, "settled": true}'
)


def fill(path: Path, rows: int) -> None:
    """Fill a new ledger."""
    opened = open_state(path)
    db = opened.connection
    db.execute("PRAGMA synchronous = OFF")
    db.execute("INSERT INTO parts (source, number, session_id) VALUES ('\"s.jsonl\"', 1, '\"s\"')")
    db.executemany(
        "INSERT INTO series VALUES ('pi_tokens_total', ?, '1000000', NULL, 0)",
        ((f'["p{n // 100}", "m{n % 100}", "turn", "input"]',) for n in range(10_000)),
    )
    per_table = rows // 5
    for table in (4, 5, 6, 7, 2):
        for first in range(0, per_table, 200_000):
            db.execute("BEGIN")
            db.execute(
                "INSERT INTO facts WITH RECURSIVE n(i) AS (SELECT ? UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?) "
                "SELECT ?, ? + i * 1000, randomblob(12), randomblob(8), 0, 1, 1, '\"ab12cd34\"', '[1]', ? FROM n",
                (first, min(first + 200_000, per_table), table, START_MS, BODY),
            )
            db.execute("COMMIT")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    os.close(opened.lock)


def rows_of(first: int, count: int, start_ms: int) -> list[Row]:
    """Make usage rows."""
    part = Part("new.jsonl", 1)
    part.session_id = "new"
    out = []
    for n in range(first, first + count):
        at = start_ms + n * 500
        identity = ("assistant", at, "prov-x", "model-a", f"r{n}", None, (1000, 100, 0, 0, None, None, 0.01))
        values = {
            "time": at, "time_source": "message", "operation": "turn", "provider": "prov-x", "model": "model-a",
            "api": "api-x", "stop_reason": "stop", "input_tokens": 1000, "output_tokens": 100, "cache_read_tokens": 0,
            "cache_write_tokens": 0, "cost_usd": 0.01, "settled": True, "duration_s": 1.5, "duration_source": "arrival",
        }  # fmt: skip
        out.append(Row("usage", (identity, 0), values, part, f"{n:08x}"))
    return out


def add(ledger: SqliteLedger, rows: list[Row]) -> float:
    """Add rows in batches of 1,000 with a commit each; return microseconds of processor time a row."""
    start = time.process_time()
    for at in range(0, len(rows), 1000):
        ledger.add(rows[at : at + 1000])
        ledger.commit(time.time())
    return (time.process_time() - start) / len(rows) * 1e6


def main() -> None:
    rows = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(sys.argv[2] if len(sys.argv) > 2 else f"{folder}/ledger.db")
        if not path.exists():
            fill(path, rows)
        with Served([folder, "--state", path]) as served:
            ready_s = served.ready()
            ready_cpu_s = served.cpu_s
            served.end()
        start = time.perf_counter()
        ledger = SqliteLedger(path)
        opened_s = time.perf_counter() - start
        ledger.close()
        start = time.perf_counter()
        ledger = SqliteLedger(path)  # as after a restart of the exporter, not of the machine
        again_s = time.perf_counter() - start
        count = 20_000
        fresh = rows_of(0, count, START_MS + rows // 5 * 1000)
        new_us = add(ledger, fresh)
        ledger.close()
        ledger = SqliteLedger(path)
        known_us = add(ledger, rows_of(0, count, START_MS + rows // 5 * 1000))
        old_us = add(ledger, rows_of(0, count, START_MS + 250))  # old times: anywhere in the file
        ledger.close()
        size = path.stat().st_size / 1e6
        print(
            f"{rows:,} rows, {size:,.0f} MB: serve ready in {ready_s:.2f} s ({ready_cpu_s:.2f} s of processor time), open {opened_s:.3f} s, again {again_s:.3f} s, new row {new_us:.0f} us, known row {known_us:.0f} us, "
            f"new row of old time {old_us:.0f} us (sqlite {sqlite3.sqlite_version})"
        )


if __name__ == "__main__":
    main()
