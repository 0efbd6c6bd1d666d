"""The ledger on disk says what the one in memory says, whatever the commits, reopenings and re-reads."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pimetrics.ledger.memory import MemoryLedger
from pimetrics.ledger.reading import LedgerReader
from pimetrics.ledger.sqlite import SqliteLedger
from pimetrics.pipeline import Pipeline, Stats
from pimetrics.rows import COLUMNS
from tests.scribe import Plan, play
from tests.strategies import PLANS
from tests.support import Recording, Result, assert_same, read, recordings

WITH_FILES = [each for each in recordings() if each.session_paths and not each.name.startswith(("long_", "big_"))]


def read_by_file(path: Path, sources: list[tuple[str, bytes]], rnd: random.Random) -> Result:
    """Read sources into a ledger file with commits, kills and re-reads at random; return what the file says."""
    ledger = SqliteLedger(path)
    for name, data in sources:
        while True:
            pipeline = Pipeline(ledger)
            source = pipeline.open(name)
            at, killed = 0, False
            while at < len(data) and not killed:
                size = rnd.randrange(1, len(data) + 1)
                source.feed(data[at : at + size])
                at += size
                if rnd.random() < 0.5:
                    ledger.commit(0.0)
                killed = rnd.random() < 0.2
            if not killed:
                source.finish()
                ledger.commit(0.0)
                break
            ledger.close()  # what was not committed is gone; the source is read again from its start
            ledger = SqliteLedger(path)
    ledger.close()
    ledger = SqliteLedger(path)
    totals = ledger.totals
    with LedgerReader(path) as reader:
        rows = {
            table: sorted(
                ({n: r.get(n) for n in COLUMNS[table]} for r in reader.rows(table)), key=lambda r: r["row_id"]
            )
            for table in COLUMNS
        }
    histograms = {key: (tuple(h.counts), h.total) for key, h in totals.histograms.items()}
    found = Result(rows, Stats(), dict(totals.counters), histograms, dict(totals.late))
    ledger.close()
    return found


def assert_equal(found: Result, want: Result) -> None:
    """Assert equal tables, counters and histograms; a kill may repeat late revisions, which are not facts."""
    assert_same(found, want._replace(stats=Stats(), late=found.late))


@pytest.mark.parametrize("recording", WITH_FILES, ids=lambda each: each.id)
def test_recordings_say_the_same_on_disk(recording: Recording, tmp_path: Path) -> None:
    """Stream and session files of a recording, in a random order, give the memory's rows, counters and histograms."""
    rnd = random.Random(recording.id)
    sources = [("stream", recording.stamped())]
    sources += [(path.name, path.read_bytes()) for path in recording.session_paths]
    rnd.shuffle(sources)
    assert_equal(read_by_file(tmp_path / "ledger.db", sources, rnd), read(*sources))


@given(PLANS, st.data())
def test_generated_sessions_say_the_same_on_disk(plan: Plan, data: st.DataObject) -> None:
    """Cut streams, copies and forks too: what gives way in memory gives way on disk, after a kill as well."""
    session = play(plan)
    whole = session.stream_bytes
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    fork = session.fork(data.draw(st.integers(0, len(session.file) - 1)), "01a22ddd-0000-7000-8000-00000000000f")
    sources = data.draw(st.permutations([("a", whole), ("b", session.file_bytes), ("c", fork), ("d", cut)]))
    chosen = sources[: data.draw(st.integers(1, 4))]
    with TemporaryDirectory() as folder:
        found = read_by_file(Path(folder, "ledger.db"), chosen, random.Random(data.draw(st.integers(0, 999))))
    assert_equal(found, read(*chosen))


def test_the_memory_is_no_store_of_its_own(tmp_path: Path) -> None:
    """Both ledgers count duplicates alike: a usage row that a second source brings, once for each such source."""
    data = WITH_FILES[0].session_paths[0].read_bytes()
    memory, disk = MemoryLedger(), SqliteLedger(tmp_path / "ledger.db")
    for ledger in (memory, disk):
        for name in ("a", "b", "b", "a", "c"):
            Pipeline(ledger).run(name, [data])
            ledger.commit(0.0)
    assert memory.duplicates == disk.duplicates > 0
    disk.close()
