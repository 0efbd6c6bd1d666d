"""A lake in an S3-compatible store on loopback: several hosts at once, merges and readers between them."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import polars as pl
import pytest
from moto.server import ThreadedMotoServer
from polars.testing import assert_frame_equal

import pimetrics as pm
from pimetrics.errors import StateError
from pimetrics.exporting import compact_lake, export
from pimetrics.scanning import Scan
from pimetrics.sinks.lake.store import Store
from tests.reporting import run

HOSTS = 3


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """The address of a folder in an empty bucket, which the environment says how to reach."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret-of-the-test",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ALLOW_HTTP": "true",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }.items():
        monkeypatch.setenv(name, value)
    bucket = tmp_path.name.replace("_", "-")  # the buckets of moto outlive its server
    boto3.client("s3").create_bucket(Bucket=bucket)
    yield f"s3://{bucket}/team/pi"
    server.stop()


def test_hosts_at_once_are_one_lake(url: str, fixtures: Path, tmp_path: Path) -> None:
    """Three processes export overlapping recordings while a fourth merges: the lake is `read` of all, row for row.

    What hosts share stands once, so tables are compared with one read; only the source of a shared row, and what one
    host knew and another not, may be of either.
    """
    files = sorted((fixtures / "streams" / "1.6.0").glob("*.session.jsonl"))
    shares = [files[number::HOSTS] + files[:2] for number in range(HOSTS)]
    commands = [["export", *map(str, share), "--to", url, "--host", f"ci-{n}"] for n, share in enumerate(shares)]
    started = [
        subprocess.Popen([sys.executable, "-m", "pimetrics", *command], stderr=subprocess.PIPE, text=True)
        for command in commands
    ]
    merges = 0
    while any(process.poll() is None for process in started):
        compact_lake(url)
        merges += 1
    said = [process.communicate()[1] for process in started]
    assert [process.returncode for process in started] == [0] * HOSTS, said
    assert merges
    want = pm.read(*files)
    for _ in range(2):
        got = pm.read(url)
        for (name, a), (_, b) in zip(got.items(), want.items(), strict=True):
            assert a.schema == b.schema
            assert sorted(a["row_id"]) == sorted(b["row_id"]), name
        assert_frame_equal(money(got.usage), money(want.usage))
        compact_lake(url)


def money(usage: pl.DataFrame) -> pl.DataFrame:
    return usage.sort("row_id").select("row_id", "operation", "model", "cost_usd", pl.col("^.*_tokens$"), "settled")


def test_polars_reads_it_without_us(url: str, fixtures: Path) -> None:
    """The lake is plain Parquet: polars' own scan of the store gives the sums of ours."""
    export(Scan(sorted((fixtures / "streams" / "1.6.0").glob("*.session.jsonl"))[:6]), url)
    sums = pl.col("input_tokens").sum(), pl.len()
    frame = pl.scan_parquet(f"{url}/usage/*/*.parquet").select(*sums).collect()
    assert frame.row(0) == pm.scan(url).usage.select(*sums).collect().row(0)


def test_a_store_that_fails_is_told_without_its_secrets(
    url: str, fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bucket that is not there, a server that is gone: one sentence, status 2, no key in it."""
    ran = run("export", fixtures / "streams", "--to", "s3://missing/lake")
    assert ran.status == 2
    assert "s3://missing/lake cannot be" in ran.err
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StateError, match="check the address") as error:
        Store(url).list()
    assert "secret" not in str(error.value) + ran.err
