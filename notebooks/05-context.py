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
# # Context
#
# **How fast does the context grow, what fills it, and what do compactions save?**

# %%
PATH = "example"  # your own data: None (pi's folder and your recordings), or any file, folder or pattern
THEME = "light"  # or "dark"

# %%
import json
from pathlib import Path

import altair as alt
import polars as pl

import pimetrics as pm
from pimetrics import plots

plots.use_png()
pl.Config(
    tbl_hide_dataframe_shape=True, tbl_width_chars=160, tbl_rows=16, tbl_cols=12, fmt_str_lengths=80, float_precision=4
)

t = pm.read(PATH) if PATH else pm.read()
look = plots.theme.theme(THEME)

# The context of a request: what was sent, whether a cache held it or not. Only the branch that a session ended on.
requests = (
    t.usage.filter("settled", pl.col("on_active_branch").fill_null(value=True), operation="turn")
    .with_columns(
        context_tokens=pl.sum_horizontal("input_tokens", "cache_read_tokens", "cache_write_tokens"),
        fresh_tokens=pl.sum_horizontal("input_tokens", "cache_write_tokens"),
    )
    .filter(pl.col("context_tokens") > 0)
    .drop_nulls(["session_id", "time"])
    .sort("time", "row_id")
    .select("session_id", "time", "model", "context_tokens", "fresh_tokens", "cache_read_tokens", "output_tokens")
    .with_columns(
        number=pl.int_range(1, pl.len() + 1).over("session_id"),
        growth_tokens=(pl.col("context_tokens").shift(-1) - pl.col("context_tokens")).over("session_id"),
    )
)
done = t.compactions.filter(outcome="ok")

# %% [markdown]
# ## How the context grows
#
# A line is a session. Lines that fall were compacted (or the user went back); steep ones read a lot.

# %%
longest = requests.group_by("session_id").agg(requests=pl.len()).sort("requests", "session_id").tail(40)
lines = requests.filter(pl.col("session_id").is_in(longest["session_id"].implode()))
chart = (
    alt.Chart(alt.Data(values=lines.select("session_id", "number", "context_tokens").to_dicts()))
    .mark_line(strokeWidth=1.3, opacity=0.6, color=look.palette[0])
    .encode(
        x=alt.X("number:Q", title="request of the session"),
        y=alt.Y("context_tokens:Q", title="tokens in the context", axis=alt.Axis(labelExpr=plots.theme.COMPACT)),
        detail="session_id:N",
    )
    .properties(width=600, height=220)
)
sessions = requests["session_id"].n_unique()
plots.titled(
    chart, lines, "Context of the longest sessions", f"{longest.height:,} sessions of {sessions:,}", theme=THEME
)

# %% [markdown]
# The session with the most compactions, request by request:

# %%
cut_most = done.drop_nulls("session_id").group_by("session_id").len().sort("len", "session_id")["session_id"]
cut_most = cut_most.filter(cut_most.is_in(requests["session_id"].implode()))
plots.context_growth(t.usage, t.compactions, session_id=cut_most.last() if cut_most.len() else None, theme=THEME)

# %%
per_session = requests.group_by("session_id").agg(
    requests=pl.len(),
    most_tokens=pl.max("context_tokens"),
    growth=pl.col("growth_tokens").filter(pl.col("growth_tokens") > 0).median(),
)
per_session.select(
    sessions=pl.len(),
    requests_median=pl.median("requests"),
    most_tokens_median=pl.median("most_tokens"),
    most_tokens_p95=pl.col("most_tokens").quantile(0.95, "linear"),
    growth_per_request_median=pl.median("growth"),
)

# %% [markdown]
# ## What fills it
#
# By size, what the messages of all sessions consist of. The results of tools are most of it nearly everywhere.

# %%
plots.context_share(t.messages, t.tool_calls, theme=THEME)

# %% [markdown]
# And in tokens: how much larger the next request was, after a turn that called one tool only. (Turns that called
# several cannot be told apart.)

# %%
one_call = t.tool_calls.group_by("turn_id").agg(pl.len().alias("calls"), pl.first("tool"), pl.sum("result_bytes"))
turns = t.turns.select("session_id", "time", turn_id="row_id").unique(["session_id", "time"])
grown = (
    requests.join(turns, on=["session_id", "time"])
    .join(one_call.filter(calls=1), on="turn_id")
    .filter(pl.col("growth_tokens") > 0)
    .with_columns(by_results=pl.col("growth_tokens") - pl.col("output_tokens").fill_null(0))
)
by_tool = (
    grown.group_by("tool")
    .agg(
        turns=pl.len(),
        growth_median=pl.median("by_results"),
        growth_p95=pl.col("by_results").quantile(0.95, "linear"),
        growth_sum=pl.sum("by_results"),
    )
    .sort(["growth_sum", "tool"], descending=[True, False])
)
by_tool

# %% [markdown]
# ## Compactions
#
# `reason` is known from streams and recordings: `threshold` (the context came near the window), `overflow` (the
# provider refused it) or `manual`. Session files tell of every compaction that went well, but not why.

# %%
done.with_columns(pl.col("reason").fill_null("not known")).group_by("reason").agg(
    compactions=pl.len(),
    before_median=pl.median("tokens_before"),
    after_median=pl.median("tokens_after"),
    cost_usd=pl.sum("cost_usd"),
    seconds_median=pl.median("duration_s"),
).sort(["compactions", "reason"], descending=[True, False])

# %%
plots.compaction_savings(t.compactions, theme=THEME)

# %% [markdown]
# A compaction also throws the cache away: the next request sends a new beginning that no cache holds. What the requests
# before and after it sent, of models that have a cache:

# %%
caching = requests.group_by("model").agg(reads=pl.sum("cache_read_tokens")).filter(pl.col("reads") > 0)["model"]
around = (
    done.select("session_id", cut="time", compaction="row_id")
    .drop_nulls()
    .join(requests.filter(pl.col("model").is_in(caching.implode())), on="session_id")
    .sort("time")
    .with_columns(after=pl.col("time") >= pl.col("cut"))
    .with_columns(
        step=pl.when("after")
        .then(pl.int_range(pl.len()).over("compaction", "after"))
        .otherwise(pl.int_range(pl.len()).over("compaction", "after") - pl.len().over("compaction", "after"))
    )
    .filter(pl.col("step").is_between(-4, 3))
    .with_columns(
        request=pl.when("after").then(pl.format("+{}", pl.col("step") + 1)).otherwise(pl.col("step").cast(pl.String))
    )
)
steps = ["-4", "-3", "-2", "-1", "+1", "+2", "+3", "+4"]
middle = around.group_by("request").agg(
    fresh=pl.median("fresh_tokens"), cached=pl.median("cache_read_tokens"), requests=pl.len()
)
parts = middle.unpivot(on=["cached", "fresh"], index="request", variable_name="part", value_name="tokens")
chart = (
    alt.Chart(alt.Data(values=parts.to_dicts()))
    .mark_bar()
    .encode(
        x=alt.X(
            "request:N",
            sort=steps,
            title="request before (-) and after (+) the compaction",
            axis=alt.Axis(labelAngle=0),
        ),
        y=alt.Y("tokens:Q", title="median tokens sent", axis=alt.Axis(labelExpr=plots.theme.COMPACT)),
        color=alt.Color(
            "part:N",
            title=None,
            scale=alt.Scale(domain=["cached", "fresh"], range=[look.palette[4], look.palette[1]]),
        ),
    )
    .properties(width=600, height=200)
)
cuts = around["compaction"].n_unique()
said = f"{cuts:,} compactions; fresh: what no cache held, paid in full"
plots.titled(
    chart, parts, "Requests around a compaction", said, why="no compaction of a model with a cache", theme=THEME
)

# %% [markdown]
# Was it worth it? A compaction costs its summary and the rewriting of the cache, and saves carrying what it took out
# through every request that follows until the session ends. `carried_tokens` counts those; `rewritten_tokens` is what
# the first request after it sent that no cache held (null where the model has no cache).

# %%
first = around.filter(request="+1").select("compaction", rewritten_tokens="fresh_tokens")
following = (
    done.select("session_id", cut="time", compaction="row_id")
    .drop_nulls()
    .join(requests.select("session_id", "time"), on="session_id")
    .group_by("compaction")
    .agg(later_requests=(pl.col("time") >= pl.col("cut")).sum())
)
worth = (
    done.join(first, left_on="row_id", right_on="compaction", how="left")
    .join(following, left_on="row_id", right_on="compaction", how="left")
    .with_columns(removed_tokens=pl.col("tokens_before") - pl.col("tokens_after"))
    .with_columns(carried_tokens=pl.col("removed_tokens") * pl.col("later_requests"))
    .select(
        "time",
        "reason",
        "tokens_before",
        "tokens_after",
        "rewritten_tokens",
        "later_requests",
        "carried_tokens",
        "cost_usd",
    )
    .sort("carried_tokens", descending=True, nulls_last=True)
)
worth.with_columns(pl.col("time").dt.truncate("1s")).head(8)

# %%
assert requests["context_tokens"].gt(0).all()
assert done["tokens_before"].drop_nulls().ge(0).all()
assert by_tool["turns"].sum() == grown.height
if PATH == "example":
    told = json.loads(Path("example/totals.json").read_text(encoding="utf-8"))["compactions"]
    assert done.height == sum(count for name, count in told.items() if name.endswith("/ok"))
    known = done.drop_nulls("tokens_after")
    assert (known["tokens_after"] < known["tokens_before"]).all()
    sent = dict(middle.select("request", "fresh").rows())
    assert sent["+1"] > 3 * sent["+2"]  # the rewriting of the cache
    assert by_tool["tool"][0] == "read"

# %% [markdown]
# ## What to do about it
#
# - One tool fills the context? Let it return less: parts of files, the last lines of a test run, one page instead of a
#   site.
# - Sessions that come near the window again and again: split the task, or start a new session with a summary of your
#   own.
# - Compactions with few `later_requests` saved nothing: compact (or start anew) before a new task, not at its end.
# - `overflow` means that pi noticed too late: raise `compaction.reserveTokens` in its settings, so that `threshold`
#   comes first.
# - After a compaction the cache is rewritten once. Compacting often costs more than a context that is a little larger.
