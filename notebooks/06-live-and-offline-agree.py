# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Live and offline agree
#
# **Is the number on the dashboard the number in the notebook?** One recording is read twice: `pimetrics serve` serves
# it to a real Prometheus, and `read` makes tables of it. The same questions are then asked in PromQL and in polars.

# %%
PATH = "example"  # your own data: None (pi's folder and your recordings), or any file, folder or pattern
THEME = "light"  # or "dark"

# %%
import contextlib
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

import altair as alt
import polars as pl

import pimetrics as pm
from pimetrics import plots
from pimetrics.names import OTHER, label_value

plots.use_png()
pl.Config(
    tbl_hide_dataframe_shape=True, tbl_width_chars=160, tbl_rows=20, tbl_cols=12, fmt_str_lengths=80, float_precision=6
)

everything = pm.read(PATH) if PATH else pm.read()

# %% [markdown]
# ## One recording
#
# The recording with the most runs; `runs` are known from streams only. Without any, the file with the most answers.

# %%
busiest = everything.runs if everything.runs.height else everything.usage
counts = busiest.group_by("source").len().sort("len", "source")
recording = counts["source"].last() if counts.height else None
if recording is None or not os.path.isfile(recording):
    reason, recording = "there is no file to serve", None
elif shutil.which("prometheus") is None:
    reason = "no Prometheus is installed here (apt-get install prometheus, or prometheus.io/download)"
else:
    reason = ""
assert not (reason and os.environ.get("PIMETRICS_LIVE")), reason  # where it must run, it is an error not to
print(f"Skipped what needs a live server: {reason}." if reason else f"Serving {os.path.basename(recording)}.")

# %% [markdown]
# ## Live: `serve`, scraped by Prometheus
#
# `--no-state` forgets what was counted when it ends, and `--web.zero-hold 0s` shows all of it to the first scrape:
# normally a new series is held at 0 for a minute, so that `increase()` misses nothing.

# %%
parts = contextlib.ExitStack()


def until(answer, what: str, seconds: float = 30):
    """Ask again until there is an answer, and return it."""
    end = time.monotonic() + seconds
    while not (found := answer()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.1)
    return found


def get(url: str) -> str | None:
    """Return a page; None while nobody answers."""
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as page:
        return page.read().decode()
    return None


def start(*argv: str) -> Path:
    """Start a program that ends with the notebook; returns the file with what it says."""
    log = folder / f"{Path(argv[0]).name}-{len(list(folder.iterdir()))}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(argv, stdout=output, stderr=subprocess.STDOUT)
    parts.callback(process.wait)
    parts.callback(process.terminate)
    return log


if not reason:
    folder = Path(parts.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
    options = ["--no-state", "--web.zero-hold", "0s", "--web.listen-address", "127.0.0.1:0"]
    told = start(sys.executable, "-m", "pimetrics", "serve", recording, *options)
    exporter = until(lambda: re.search(r"serving http://(\S+)/metrics", told.read_text()), "serve")[1]
    until(lambda: get(f"http://{exporter}/-/ready"), "serve to be ready")

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        prometheus = f"127.0.0.1:{free.getsockname()[1]}"
    job = {"job_name": "pimetrics", "static_configs": [{"targets": [exporter]}]}
    config = folder / "prometheus.yaml"
    config.write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}))
    start(
        "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}", f"--web.listen-address={prometheus}"
    )


def promql(query: str) -> list[dict]:
    """Return the instant vector of a query: labels and `live`, its value."""
    page = get(f"http://{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': query})}")
    answer = json.loads(page)["data"]["result"] if page else []
    return [{**one["metric"], "live": float(one["value"][1])} for one in answer]


if not reason:
    until(lambda: promql("pi_sessions_total"), "the first scrape")

# %% [markdown]
# ## Offline: `read`

# %%
t = pm.read(recording) if recording else everything
spent = t.usage.filter("settled")
answers = spent.filter(operation="turn")
MEASURED = pl.col("duration_source").is_in(["reported", "arrival"])


def as_label(name: str) -> pl.Expr:
    """Return names as labels have them: never empty, and not too long."""
    return pl.col(name).map_elements(label_value, pl.String, skip_nulls=False)


def same(query: str, offline: pl.DataFrame, tolerance: float = 1e-9) -> pl.DataFrame:
    """Put both answers side by side; they must be the same for every label.

    Args:
        query: In PromQL.
        offline: Labels, and the column `offline`, in polars.
        tolerance: Relative; money and durations are whole micros inside a counter, and floats in a table.
    """
    labels = [name for name in offline.columns if name != "offline"]
    offline = offline.with_columns(pl.col("offline").cast(pl.Float64), *map(as_label, labels))
    if reason:
        return offline.with_columns(live=pl.lit(None, pl.Float64)).sort(labels or "offline")
    schema = dict.fromkeys(labels, pl.String) | {"live": pl.Float64}
    live = pl.DataFrame(promql(query), schema=schema)
    if labels:
        folded = (
            pl.when(pl.col(name).is_in(live[name].implode())).then(name).otherwise(pl.lit(OTHER)) for name in labels
        )
        offline = offline.group_by(*folded).agg(pl.sum("offline"))
        both = offline.join(live, on=labels, how="full", coalesce=True).sort(labels).fill_null(0)
    else:
        both = pl.concat([offline, live], how="horizontal_extend").fill_null(0).fill_nan(0)
    for row in both.rows(named=True):
        assert math.isclose(row["live"], row["offline"], rel_tol=tolerance, abs_tol=1e-9), row
    return both


# %% [markdown]
# ## The same questions
#
# Tables keep every name as it is. A label has at most 200 characters, and 200 values: what comes later is `other`.
#
# Tokens, by type. (Counters are there from the start, at 0; `> 0` leaves those out.)

# %%
kinds = ["input", "output", "cache_read", "cache_write"]
same(
    "sum by (model, token_type) (pi_tokens_total) > 0",
    spent.select(
        pl.coalesce("response_model", "model").alias("model"), *(pl.col(f"{kind}_tokens").alias(kind) for kind in kinds)
    )
    .unpivot(on=kinds, index="model", variable_name="token_type", value_name="tokens")
    .group_by("model", "token_type")
    .agg(offline=pl.sum("tokens"))
    .filter(pl.col("offline") > 0),
)

# %% [markdown]
# Cost, by what it was paid for.

# %%
same(
    "sum by (operation) (pi_cost_usd_total) > 0",
    spent.group_by("operation").agg(offline=pl.sum("cost_usd")).filter(pl.col("offline") > 0),
)

# %% [markdown]
# How answers ended.

# %%
same("sum by (stop_reason) (pi_requests_total) > 0", answers.group_by("stop_reason").agg(offline=pl.len()))

# %% [markdown]
# Tool calls by outcome. (A call without an end may still get one, so live does not count it as `unfinished` for a day.)

# %%
same(
    'sum by (tool, outcome) (pi_tool_calls_total{outcome!="unfinished"}) > 0',
    t.tool_calls.filter(pl.col("outcome") != "unfinished").group_by("tool", "outcome").agg(offline=pl.len()),
)

# %% [markdown]
# Retries by the class of the error, and the time that was waited.

# %%
same("sum by (error_type) (pi_retries_total) > 0", t.retries.group_by("error_type").agg(offline=pl.len()))

# %%
same("sum(pi_retry_backoff_seconds_total)", t.retries.select(offline=pl.sum("delay_s")), 1e-6)

# %% [markdown]
# Output tokens a second: only requests that have a measured duration, on both sides.

# %%
same(
    "sum(pi_timed_output_tokens_total) / sum(pi_request_duration_seconds_sum)",
    answers.filter(MEASURED).select(offline=pl.sum("output_tokens") / pl.sum("duration_s")),
    1e-6,
)

# %% [markdown]
# ## Where they may differ: quantiles
#
# A histogram knows in which bucket a value lies, not where. `histogram_quantile` draws a straight line through the
# bucket; polars takes the values themselves. The two are as close as a bucket is wide, here a doubling.

# %%
timed = t.tool_calls.filter(MEASURED)
exact = (
    timed.group_by(as_label("tool"))
    .agg(calls=pl.len(), offline=pl.col("duration_s").quantile(0.5, "nearest"))
    .sort("offline", "tool")
)
query = "histogram_quantile(0.5, sum by (tool, le) (pi_tool_execution_duration_seconds_bucket))"
live = pl.DataFrame([] if reason else promql(query), schema={"tool": pl.String, "live": pl.Float64})
medians = exact.join(live, on="tool", how="left")
medians

# %%
look = plots.theme.theme(THEME)
busiest = medians.sort("calls", "tool").tail(12).sort("offline", "tool")
points = busiest.unpivot(on=["offline", "live"], index="tool", variable_name="asked", value_name="seconds")
points = points.filter(pl.col("seconds") > 0)
chart = (
    alt.Chart(alt.Data(values=points.to_dicts()))
    .mark_point(filled=True, size=100, opacity=1)
    .encode(
        x=alt.X(
            "seconds:Q",
            title="median duration (seconds, logarithmic)",
            scale=alt.Scale(type="log"),
            axis=alt.Axis(values=[0.001, 0.01, 0.1, 1, 10, 100, 1000], format="~g"),
        ),
        y=alt.Y("tool:N", title=None, sort=busiest["tool"].to_list()),
        color=alt.Color(
            "asked:N", title=None, scale=alt.Scale(domain=["offline", "live"], range=[look.palette[0], look.palette[1]])
        ),
        shape=alt.Shape(
            "asked:N", title=None, scale=alt.Scale(domain=["offline", "live"], range=["circle", "diamond"])
        ),
    )
    .properties(width=600, height=28 * busiest.height)
)
plots.titled(
    chart,
    points,
    "Median duration of tools",
    "live: histogram_quantile; offline: the values themselves",
    why="no tool call with a measured duration",
    theme=THEME,
)

# %%
for row in medians.drop_nulls().filter(pl.col("calls") > 2, pl.col("offline") > 0.01).rows(named=True):
    assert 0.49 < row["live"] / row["offline"] < 2.05, row  # the same bucket, or the edge between two
if PATH == "example":
    assert answers.height > 10
    assert t.retries.height > 0
parts.close()

# %% [markdown]
# ## What to do about it
#
# - Sums and counts: believe either. They come from the same rows.
# - Percentiles of few calls, or to more than one digit: ask the tables.
# - On a dashboard, `increase()` and `rate()` extrapolate to the edges of their window; last minus first is exact.
# - What happened an hour ago and now: dashboards (`grafana/`). Why it happened, in which session: these notebooks.
