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
# # First look
#
# **What did pi do, and what did it cost?** Change the next line to see your own numbers; everything below follows it.

# %%
PATH = "example"  # your own data: None (pi's folder and your recordings), or any file, folder or pattern
THEME = "light"  # or "dark"

# %%
import json
from pathlib import Path

import polars as pl

import pimetrics as pm
from pimetrics import plots

plots.use_png()
pl.Config(tbl_hide_dataframe_shape=True, tbl_width_chars=160, tbl_rows=12, fmt_str_lengths=80, float_precision=4)

t = pm.read(PATH) if PATH else pm.read()
t

# %% [markdown]
# ## The tables
#
# `read` gives the same tables with the same columns for whatever it is given, also for nothing. A fact that stands in
# several files (a recording beside its session file, the beginning that a fork copied) is one row. Absent is null,
# never 0; times are UTC, durations seconds (`_s`), money USD as pi reported it. The README says what each column holds.

# %%
pl.DataFrame(
    [{"table": name, "rows": table.height, "columns": ", ".join(table.columns[5:])} for name, table in t.items()]
)

# %%
pl.DataFrame({"column": t.usage.columns, "type": [str(kind) for kind in t.usage.dtypes]})

# %% [markdown]
# `usage` has a row for each time that tokens were reported: answers (`operation="turn"`), but also compactions,
# summaries of branches, cache warming, and tools that asked a model themselves.

# %%
t.usage.select(
    "time", "operation", "model", "stop_reason", "input_tokens", "cache_read_tokens", "output_tokens", "cost_usd"
).head(5)

# %% [markdown]
# ## What it cost
#
# Two rules give a number that stands. An answer that was cut off (`settled` false) is in no total. And what a tool
# reported of its own may stand again in the session of a sub-agent, so the headline leaves `operation="tool"` out and
# says it beside.

# %%
settled = t.usage.filter("settled")
headline = settled.filter(pl.col("operation") != "tool")
by_tools = settled.filter(pl.col("operation") == "tool")
requests = settled.filter(pl.col("operation") == "turn")
unpriced = requests.filter(pl.col("cost_usd") == 0, pl.col("input_tokens") + pl.col("output_tokens") > 0)

pl.DataFrame(
    [
        ("cost, USD", f"{headline['cost_usd'].sum():,.2f}"),
        ("beside it, reported by tools, USD", f"{by_tools['cost_usd'].sum():,.2f}"),
        ("requests", f"{requests.height:,}"),
        ("of these without a known price", f"{unpriced.height:,}"),
        ("sessions", f"{t.sessions.height:,}"),
        ("prompts", f"{t.prompts.height:,}"),
        ("tool calls", f"{t.tool_calls.height:,}"),
        ("lines that could not be read", f"{t.rejects.height:,}"),
    ],
    schema=["what", "value"],
    orient="row",
)

# %%
models = plots.ranked(headline)  # one colour a model in all charts
plots.cost_by_day(t.usage, models=models, theme=THEME)

# %%
plots.cost_by(t.usage, "model", models=models, theme=THEME)

# %%
plots.cost_by(t.usage, "project", sessions=t.sessions, theme=THEME)

# %% [markdown]
# ## Sessions

# %%
per_session = settled.group_by("session_id").agg(
    pl.sum("cost_usd"),
    pl.col("operation").eq("turn").sum().alias("requests"),
    pl.sum("output_tokens"),
)
(
    t.sessions.join(per_session, on="session_id", how="left")
    .sort("cost_usd", descending=True, nulls_last=True)
    .select(
        "first_time",
        "cwd",
        "name",
        "requests",
        "output_tokens",
        "cost_usd",
        forked=pl.col("parent_session_id").is_not_null(),
    )
    .head(8)
)

# %% [markdown]
# ## Does it agree with pi?
#
# pi says what a session cost: type `/session` in it (or send `get_session_stats` in RPC mode). The figures of the
# example's sessions in `totals.json` are those of a real pi 1.6; a test asks it again. A session as pi sees it holds
# what its tools reported, and a fork holds what it copied: that part belongs to the session it was copied from, or sums
# over sessions would count it twice.

# %%
kinds = ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"]
ours = settled.group_by("session_id").agg(pl.sum(*kinds), pl.sum("cost_usd"))

if PATH == "example":
    totals = json.loads(Path("example/totals.json").read_text(encoding="utf-8"))
    pi = pl.DataFrame(
        [
            {
                "session_id": session,
                **{kind: told["own"]["tokens"][kind.removesuffix("_tokens")] for kind in kinds},
                "cost_usd": told["own"]["cost_nano_usd"] / 1e9,
            }
            for session, told in totals["sessions"].items()
        ]
    )
    both = pi.join(ours, on="session_id", how="left", suffix="_here").fill_null(0)
    for kind in kinds:
        assert both[kind].equals(both[f"{kind}_here"], check_names=False), kind
    assert (both["cost_usd"] - both["cost_usd_here"]).abs().max() < 1e-9
    assert abs(settled["cost_usd"].sum() - totals["usage"]["cost_nano_usd"] / 1e9) < 1e-9
    assert t.prompts.height == totals["prompts"]
    assert t.rejects.is_empty()
    print(f"{both.height} sessions, every token and every cent as pi says")

# the same money whichever way it is cut
assert abs(ours["cost_usd"].sum() - settled["cost_usd"].sum()) < 1e-6
assert abs(headline["cost_usd"].sum() + by_tools["cost_usd"].sum() - settled["cost_usd"].sum()) < 1e-6
assert settled["cost_usd"].drop_nulls().ge(0).all()

# %% [markdown]
# Pick a session, type `/session` in it, and compare:

# %%
t.sessions.join(ours, on="session_id").sort("last_time").select("last_time", "cwd", *kinds, "cost_usd").tail(3)

# %% [markdown]
# ## What to do about it
#
# - One model or one project takes most of the money? See [Where the money goes](02-where-the-money-goes.ipynb).
# - Requests without a known price are not free: give the model a price in pi's `models.json`, and later sessions have a
#   cost.
# - No latencies, retries or reasons of compactions in your tables? Session files do not hold them; recordings do. Run
#   pi as `pimetrics record -- pi ...` from now on.
# - Lines that could not be read: `pimetrics doctor` says which and why.
