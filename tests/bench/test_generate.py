"""The generator: its totals are what a plain reader finds, and the same arguments give the same bytes."""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.bench.generate import DIALECTS, Generator, parse_size, write_files
from tests.bench.peers import usage_of

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 600_000
KINDS = [(dialect, long) for dialect in DIALECTS for long in (False, True)]


def records(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.split(b"\n")[:-1]]


def encodable(record: dict[str, Any]) -> bool:
    """Whether a record holds no half emoji."""
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


@pytest.mark.parametrize(("dialect", "long"), KINDS)
@pytest.mark.parametrize("seed", [1, 20_26])
def test_totals_are_what_a_plain_reader_counts(dialect: str, long: bool, seed: int) -> None:
    """Every total equals what a reader that knows nothing of the generator adds up."""
    generator = Generator(dialect, seed=seed, long=long)
    data = b"".join(generator.chunks(SIZE))
    found = records(data)
    totals = generator.totals
    assert totals.bytes == len(data) >= SIZE
    assert totals.types == Counter(record["type"] for record in found)
    sums: Counter[str] = Counter()
    for usage in filter(None, map(usage_of, found)):
        for name in ("input", "output", "cacheRead", "cacheWrite"):
            sums[name] += usage[name]
        sums["reasoning"] += usage.get("reasoning", 0)
        sums["cost_nano"] += round(usage["cost"]["total"] * 1e9)
        parts = sum(usage["cost"][name] for name in ("input", "output", "cacheRead", "cacheWrite"))
        assert usage["cost"]["total"] == pytest.approx(parts, abs=1e-12)
    assert {name: totals.usage[name] for name in sums} == sums
    messages = [record["message"] for record in found if record["type"] in {"message_end", "message"}]
    answers = [message for message in messages if message["role"] == "assistant"]
    assert totals.requests == totals.turns == len(answers)
    assert totals.stop_reasons == Counter(message["stopReason"] for message in answers)
    assert totals.prompts == sum(message["role"] == "user" for message in messages)
    calls = Counter(message["toolName"] for message in messages if message["role"] == "toolResult")
    assert {name: counts["calls"] for name, counts in totals.tools.items()} == calls
    errors = Counter(message["toolName"] for message in messages if message.get("isError"))
    assert {name: counts["errors"] for name, counts in totals.tools.items() if counts["errors"]} == errors


@pytest.mark.parametrize("dialect", ["delta", "cumulative"])
def test_stream_records_pair_up(dialect: str) -> None:
    """In streams runs, turns, messages and tools open and close as often as the totals say."""
    generator = Generator(dialect, seed=3)
    for _ in generator.chunks(SIZE):
        pass
    totals = generator.totals
    types = totals.types
    assert types["agent_start"] == types["agent_end"] == totals.runs
    assert types["turn_start"] == types["turn_end"] == totals.turns
    assert types["message_start"] == types["message_end"]
    ended = sum(counts["calls"] for counts in totals.tools.values())
    assert types["tool_execution_start"] == types["tool_execution_end"] == ended
    assert types["auto_retry_start"] == types["auto_retry_end"] == totals.retries["attempts"]
    assert types["compaction_end"] == totals.compactions["ok"] + totals.compactions["failed"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_same_arguments_give_the_same_bytes(dialect: str) -> None:
    """A seed names a file; another seed names another."""
    first, again, other = (b"".join(Generator(dialect, seed=seed).chunks(SIZE)) for seed in (5, 5, 6))
    assert first == again
    assert first != other


@pytest.mark.parametrize(("dialect", "long"), KINDS)
def test_only_clean_input_is_free_of_half_emojis(dialect: str, long: bool) -> None:
    """Strict parsers read every line of a clean file; without `clean` some lines hold half an emoji."""

    def halves(*, clean: bool) -> int:
        found = 0
        for chunk in Generator(dialect, seed=2, long=long, clean=clean).chunks(30_000_000 if long else 3_000_000):
            found += sum(b"\\ud" in line and not encodable(json.loads(line)) for line in chunk.split(b"\n"))
        return found

    assert halves(clean=True) == 0
    assert halves(clean=False) > 0


def test_streams_are_mostly_updates() -> None:
    """The mix is that of recordings of 1.6: three quarters of the records are updates."""
    generator = Generator("delta", seed=4)
    for _ in generator.chunks(3_000_000):
        pass
    assert 0.72 < generator.totals.types["message_update"] / generator.totals.records < 0.80


def test_long_means_the_length_of_real_work() -> None:
    """With `long`, tools print 2 to 50 kB."""
    data = b"".join(Generator("session", long=True, clean=True).chunks(3_000_000))
    messages = [record["message"] for record in records(data) if record["type"] == "message"]
    sizes = [
        len(message["content"][0]["text"])
        for message in messages
        if message["role"] == "toolResult" and not message["isError"]
    ]
    assert 1_500 < min(sizes) < 5_000
    assert 30_000 < max(sizes) < 60_000


def test_memory_does_not_grow_with_the_size() -> None:
    """Chunks are handed out turn by turn, so ten times the size takes no more memory."""
    peaks = []
    for size in (1_000_000, 10_000_000):
        generator = Generator("delta", seed=9)
        tracemalloc.start()
        for _ in generator.chunks(size):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0] + 1_000_000


def test_a_folder_holds_one_session_a_file(tmp_path: Path) -> None:
    """Each file of a folder is one whole session with its header first."""
    totals = write_files(tmp_path, "session", 12, seed=3)
    files = sorted(tmp_path.iterdir())
    assert len(files) == totals.sessions == 12
    assert sum(file.stat().st_size for file in files) == totals.bytes
    heads = [records(file.read_bytes())[0] for file in files]
    assert len({head["id"] for head in heads if head["type"] == "session"}) == 12


def test_unknown_dialects_are_refused() -> None:
    """A dialect that pi does not have is a ValueError that lists those it has."""
    with pytest.raises(ValueError, match="delta, cumulative, session"):
        Generator("morse")


@pytest.mark.parametrize(("text", "size"), [("500", 500), ("10kB", 10_000), ("100MB", 10**8), ("2GB", 2 * 10**9)])
def test_sizes_are_powers_of_ten(text: str, size: int) -> None:
    """Sizes are read as people write them."""
    assert parse_size(text) == size
