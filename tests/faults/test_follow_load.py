"""pi is never held up, and a scrape never waits for files."""

from __future__ import annotations

import os
import subprocess
import threading
import time
import urllib.request

from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.serving import Served
from tests.tails import append, tail_lines


def test_49_the_pipe_is_drained_whatever_happens(tmp_path):
    """200 MB of updates and a line of garbage, with a scrape held open: no write blocks for a second."""
    update = b'{"type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"%s"}}\n' % (b"x" * 2000)
    block = update * 50
    with Served(["-", "--no-state"], stdin=subprocess.PIPE) as served:
        served.ready()
        held = urllib.request.urlopen(served.url + "/metrics", timeout=60)
        pipe, longest = served.process.stdin.fileno(), 0.0
        os.write(pipe, b"garbage\n")
        for _ in range(200_000_000 // len(block)):
            left = memoryview(block)
            while left:
                start = time.monotonic()
                left = left[os.write(pipe, left) :]
                longest = max(longest, time.monotonic() - start)
        served.process.stdin.close()
        held.close()
        served.wait_for("pimetrics_rejects_total", 1)
        served.wait_for("pimetrics_records_total", 200_000_000 // len(block) * 50, record="message_update")
        assert longest < 1.0
        served.process.terminate()
        assert served.process.wait(10) == 0


def test_72_a_scrape_opens_no_session_file(tmp_path):
    """2,000 files of 200 MB; one grows, twenty scrapes, four at a time: quick, whole, and no old file is opened for them."""
    header, *records = tail_lines("65")
    old = tmp_path / "old"
    old.mkdir()
    long = b'{"type":"custom","id":"c0","parentId":null,"timestamp":"2026-11-16T09:01:05.000Z","data":"%s"}\n' % (
        b"x" * 98_000
    )
    for number in range(2000):
        append(old / f"{number}.jsonl", header.replace(b"sess-tail", b"sess-%d" % number), *records, long)
        os.utime(old / f"{number}.jsonl", (0, 0))
    with Served([old, "--state", tmp_path / "l.db"]) as served:
        served.ready()
        slowest, pages = [], []

        def scrape():
            start = time.monotonic()
            page = served.get()
            slowest.append(time.monotonic() - start)
            pages.append(page)

        stamps = {path: path.stat().st_atime_ns for path in old.iterdir()}
        for _ in range(5):
            append(old / "growing.jsonl", header, *records)
            threads = [threading.Thread(target=scrape) for _ in range(4)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
        assert len(pages) == 20
        assert all(page and list(parse_text(page)) for page in pages)
        assert all(page.count("# TYPE pi_tokens_total counter") == 1 for page in pages)
        assert max(slowest) < 2.0  # half a second on a machine of its own; this one is shared
        assert {path: path.stat().st_atime_ns for path in stamps} == stamps


def test_log_lines_are_bounded(tmp_path):
    """A file with ten thousand bad lines, in many pieces, is worth two log lines at most, also as JSON."""
    import json

    path = tmp_path / "bad.jsonl"
    with Served([path.parent, "--no-state", "--log-format", "json"]) as served:
        served.ready()
        for _ in range(20):
            append(path, b"no json\n" * 500)
            time.sleep(0.05)
        served.wait_for("pimetrics_rejects_total", 10_000)
        served.process.terminate()
        assert served.process.wait(10) == 0
        said = served.process.stderr.read().decode().splitlines()
    told = [json.loads(line) for line in said if line.startswith("{")]
    about = [each for each in told if each.get("reason") == "rejected"]
    assert 1 <= len(about) <= 2
    assert about[0]["file"] == str(path)
