"""The cases about bytes: chunk borders, backends, and long lines."""

from __future__ import annotations

import pytest

from pimetrics.ledger.memory import MemoryLedger
from pimetrics.pipeline import Pipeline
from pimetrics.rows import TABLES
from tests.cases.scans import case

BYTES = ("33", "34", "35", "36", "37", "38", "40", "41", "42", "44", "45", "46")


def rows(data: bytes, size: int, backend: str | None = None):
    """Return all tables of some bytes, fed in pieces of a size."""
    ledger = MemoryLedger()
    pipeline = Pipeline(ledger, backend=backend)
    pipeline.run("x", (data[at : at + size] for at in range(0, len(data), size)))
    return {table: sorted(map(str, ledger.rows(table))) for table in TABLES}, pipeline.stats


@pytest.mark.parametrize("number", BYTES)
def test_chunk_borders_change_nothing(number):
    """One byte at a time, or 2, 3, 7, 4096, or all at once: the same rows and counts."""
    data = case(number).files[0].read_bytes()
    whole = rows(data, len(data))
    for size in (1, 2, 3, 7, 4096):
        assert rows(data, size) == whole


@pytest.mark.parametrize("number", BYTES)
def test_backends_agree(number):
    """Both ijson backends give the same rows and the same reject reasons."""
    data = case(number).files[0].read_bytes()
    assert rows(data, len(data), "yajl2_c") == rows(data, len(data), "python")


def test_a_line_of_64_mib_then_a_record():
    """Case 48: an image of 64 MiB is one record, in any pieces, and the record after it is whole."""
    found = case("48")
    tail = found.files[0].read_bytes()
    head = b'{"type":"session","version":3,"id":"big","timestamp":"2026-11-13T10:00:00.000Z","cwd":"/srv/demo"}\n'
    image = (
        b'{"type":"message","id":"0000000a","parentId":null,"timestamp":"2026-11-13T10:00:01.000Z","message":'
        b'{"role":"toolResult","toolCallId":"c","toolName":"read","content":[{"type":"image","data":"'
        + b"A" * (64 << 20)
        + b'","mimeType":"image/png"}],"isError":false,"timestamp":1794564001000}}\n'
    )
    ledger = MemoryLedger()
    pipeline = Pipeline(ledger)
    data = head + image + tail
    pipeline.run("x", (data[at : at + 65536] for at in range(0, len(data), 65536)))
    results = [v for v in ledger.rows("messages") if v["role"] == "toolResult"]
    assert [v["content_bytes"] for v in results] == [64 << 20]
    usage = list(ledger.rows("usage"))
    assert len(usage) == found.right["usage_rows"]
    assert sum(v["cost_usd"] for v in usage) == pytest.approx(found.right["cost_usd"])
    assert not pipeline.stats.rejects
