"""Recordings moved into the past, backfilled, and brought into a database."""

from __future__ import annotations

import re
import urllib.request
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final

from click.testing import CliRunner

from pimetrics.cli import cli
from pimetrics.sources.compressed import read_chunks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.golden.recordings import Recording
    from tests.live.grafana_stack import Store

RECORDED: Final = date(2026, 11, 30)
MOVED_DAYS: Final = max(0, (RECORDED - datetime.now(UTC).date()).days + 2)
"""How far the recordings are moved into the past: the last hours are not for backfill, whatever day it is."""

AT: Final = datetime.combine(RECORDED - timedelta(MOVED_DAYS), datetime.max.time(), UTC).timestamp()
"""When a moved recording was last written, Unix seconds."""

RANGE: Final = f"{MOVED_DAYS + (datetime.now(UTC).date() - RECORDED).days + 3}d"
"""Reaches from now to before all of them."""

TOKENS: Final = {"input": "input", "output": "output", "cacheRead": "cache_read", "cacheWrite": "cache_write"}
"""Kinds of tokens: as the oracle calls them, and the label."""


def moved(recording: Recording) -> bytes:
    """The stream as it would be, had it been recorded some days earlier."""
    data = b"".join(read_chunks(recording.stream, 1 << 20))
    ms = MOVED_DAYS * 86_400_000
    data = re.sub(rb'("(?:timestamp|receivedAt)":)(\d{13})', lambda m: m[1] + b"%d" % (int(m[2]) - ms), data)
    day = str(RECORDED - timedelta(MOVED_DAYS)).encode()
    return data.replace(b'"timestamp":"%s' % str(RECORDED).encode(), b'"timestamp":"%s' % day)


def backfill(path: Path, instance: str, text: Path) -> Path:
    """Run the command as the documentation has it."""
    labels = ["--label", "job=pimetrics", "--label", f"instance={instance}"]
    done = CliRunner().invoke(cli, ["backfill", "--older-than", "3h", *labels, str(path)])
    assert done.exit_code == 0, done.stderr
    text.write_bytes(done.stdout_bytes)
    return text


def imported(store: Store, text: Path) -> None:
    """Bring what was backfilled into VictoriaMetrics."""
    request = urllib.request.Request(f"http://{store.address}/api/v1/import/prometheus", text.read_bytes())
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 204
    with urllib.request.urlopen(f"http://{store.address}/internal/resetRollupResultCache", timeout=30):
        pass


def spent(recording: Recording) -> tuple[float, dict[str, int]]:
    """What the oracle counted in a stream: cost in USD, and tokens by kind, as labels have it."""
    stream = recording.oracle["stream"]
    parts = [model["tokens"] for model in stream["models"]]
    parts += [stream["compaction_usage"], stream["tool_result_usage"], stream["usage_entries"]["tokens"]]
    tokens = {label: sum(part[name] for part in parts) for name, label in TOKENS.items()}
    return sum(part["cost"] for part in parts), tokens
