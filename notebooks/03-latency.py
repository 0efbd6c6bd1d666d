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
# # Latency
#
# **What does one wait for: the first token, the rest of the answer, or the tools?**

# %%
PATH = "example"  # your own data: None (pi's folder and your recordings), or any file, folder or pattern
THEME = "light"  # or "dark"

# %%
import altair as alt
import polars as pl

import pimetrics as pm
from pimetrics import plots

plots.use_png()
pl.Config(
    tbl_hide_dataframe_shape=True, tbl_width_chars=160, tbl_rows=16, tbl_cols=12, fmt_str_lengths=80, float_precision=3
)

t = pm.read(PATH) if PATH else pm.read()
look = plots.theme.theme(THEME)
answers = t.usage.filter("settled", operation="turn")
MEASURED = ["reported", "arrival"]

# %% [markdown]
# ## Where the times come from
#
# pi writes no times of its own into its streams. A duration is, in this order,
#
# - `reported`: pi measured it (`durationMs`, pi 1.1 and newer);
# - `arrival`: the distance of two stamps that `pimetrics record` put on the records as they came;
# - `entry`: the distance of two entries of a session file. It holds whatever ran beside: a quick tool that was called
#   together with a slow one seems to take as long.
#
# They are different measurements, so they are never mixed: charts take the first two, and say so. The time to the first
# token is known from stamped recordings only.

# %%
quantiles = [pl.col("duration_s").quantile(q, "linear").alias(f"p{int(100 * q)}_s") for q in (0.5, 0.95, 0.99)]
pl.concat(
    frame.group_by("duration_source")
    .agg(pl.len().alias("rows"), *quantiles)
    .select(pl.lit(name).alias("table"), pl.all())
    for name, frame in (("requests", answers), ("tool calls", t.tool_calls))
).sort("table", "duration_source", nulls_last=True)

# %% [markdown]
# The same tools, by source: the longer a tool waits for its neighbours, the further `entry` is off.

# %%
busiest = t.tool_calls.group_by("tool").len().sort(["len", "tool"], descending=[True, False])["tool"].head(12)
by_source = (
    t.tool_calls.filter(pl.col("duration_s") > 0, pl.col("tool").is_in(busiest.implode()))
    .group_by("tool", "duration_source")
    .agg(pl.len().alias("calls"), pl.median("duration_s").alias("median_s"))
    .filter(pl.col("calls") >= 3)
    .sort("median_s", "tool", "duration_source")
    .with_columns(pl.col("tool").replace(plots.labels.labels(busiest)))  # long names are cut where they differ
)
chart = (
    alt.Chart(alt.Data(values=by_source.to_dicts()))
    .mark_point(filled=True, size=70, opacity=1)
    .encode(
        x=alt.X(
            "median_s:Q",
            title="median duration (seconds, logarithmic)",
            scale=alt.Scale(type="log"),
            axis=alt.Axis(values=[0.001, 0.01, 0.1, 1, 10, 100, 1000], format="~g"),
        ),
        y=alt.Y("tool:N", sort=by_source["tool"].unique(maintain_order=True).to_list(), title=None),
        yOffset=alt.YOffset("duration_source:N", sort=[*MEASURED, "entry"]),
        color=alt.Color(
            "duration_source:N",
            title=None,
            scale=alt.Scale(domain=[*MEASURED, "entry"], range=[look.palette[i] for i in (0, 1, 5)]),
        ),
        shape=alt.Shape("duration_source:N", title=None, scale=alt.Scale(domain=[*MEASURED, "entry"])),
    )
    .properties(width=600, height=40 * by_source["tool"].n_unique())
)
plots.titled(
    chart,
    by_source,
    "What each source says of the same tools",
    "entry times also hold what ran beside",
    why="no tool was called three times with a duration",
    theme=THEME,
)

# %% [markdown]
# ## Requests

# %%
plots.request_latency(t.usage, theme=THEME)

# %%
plots.tokens_per_second(t.usage, theme=THEME)

# %% [markdown]
# Providers are busier at some hours than at others.

# %%
by_hour = (
    answers.filter(pl.col("time_to_first_token_s") > 0)
    .with_columns(hour=pl.col("time").dt.hour())
    .group_by("hour", "model")
    .agg(pl.median("time_to_first_token_s").alias("median_s"), pl.len().alias("requests"))
    .filter(pl.col("requests") >= 3)
    .sort("hour", "model")
)
often = (
    by_hour.group_by("model")
    .agg(pl.sum("requests"))
    .sort(["requests", "model"], descending=[True, False])["model"]
    .head(3)
    .to_list()
)
every_hour = pl.DataFrame({"hour": range(24)}, schema_overrides={"hour": pl.Int8})
every_hour = every_hour.join(pl.DataFrame({"model": often}, schema={"model": pl.String}), how="cross")
by_hour = every_hour.join(by_hour, on=["hour", "model"], how="left")  # a line breaks where there is nothing
chart = (
    alt.Chart(alt.Data(values=by_hour.to_dicts()))
    .mark_line(point=True)
    .encode(
        x=alt.X("hour:Q", title="hour of the day (UTC)", scale=alt.Scale(domain=[0, 23]), axis=alt.Axis(tickCount=12)),
        y=alt.Y("median_s:Q", title="median time to first token (seconds)"),
        color=alt.Color("model:N", title=None, scale=alt.Scale(domain=often, range=list(look.palette[: len(often)]))),
    )
    .properties(width=600, height=200)
)
plots.titled(
    chart,
    by_hour,
    "Time to the first token by hour",
    "from stamped recordings; hours with three requests or more",
    why="no hour with three requests in stamped recordings",
    theme=THEME,
)

# %% [markdown]
# ## Tools

# %%
plots.tool_latency(t.tool_calls, theme=THEME)

# %%
plots.tool_latency_spread(t.tool_calls, theme=THEME)

# %% [markdown]
# ## A prompt as it went
#
# The prompt with the most tools side by side among those that were recorded. Requests wait for the model, tools of one
# answer run together, and the turn lasts as long as the slowest of them.

# %%
calls = t.tool_calls.filter(pl.col("duration_source").is_in(MEASURED)).with_columns(
    together=pl.len().over("prompt_id", "turn_id") > 1
)
by_prompt = calls.group_by("prompt_id").agg(tools=pl.len(), together=pl.sum("together"))
stamped = answers.filter(pl.col("time_to_first_token_s") > 0).group_by("prompt_id").agg(requests=pl.len())
fits = pl.col("tools") + 2 * pl.col("requests") <= 24  # rows of the picture
best = by_prompt.join(stamped, on="prompt_id").filter(fits).sort("together", "prompt_id").tail(1)
plots.waterfall(t.usage, t.tool_calls, t.turns, prompt_id=next(iter(best["prompt_id"]), None), theme=THEME)

# %% [markdown]
# ## Model or tools?
#
# Of the time that measured turns took, how much was the request, and how much its tools (all that is left of the turn).

# %%
request = answers.filter(pl.col("duration_source").is_in(MEASURED)).select("session_id", "time", request_s="duration_s")
measured = (
    t.turns.filter(duration_source="arrival")
    .join(request, on=["session_id", "time"])
    .with_columns(tools_s=(pl.col("duration_s") - pl.col("request_s")).clip(0))
)
measured.group_by("model").agg(
    turns=pl.len(),
    hours=pl.sum("duration_s") / 3600,
    model_share=pl.sum("request_s") / pl.sum("duration_s"),
    tools_share=pl.sum("tools_s") / pl.sum("duration_s"),
).sort(["hours", "model"], descending=[True, False])

# %%
assert set(answers["duration_source"].drop_nulls()) <= {*MEASURED, "entry"}
assert answers["duration_s"].drop_nulls().ge(0).all()
assert answers.filter(
    pl.col("time_to_first_token_s") > pl.col("duration_s") + 0.1, duration_source="arrival"
).is_empty()
if PATH == "example":
    assert set(answers["duration_source"].drop_nulls()) == {*MEASURED, "entry"}
    medians = by_source.filter(tool="read").select("duration_source", "median_s").rows()
    assert dict(medians)["entry"] > 1.2 * dict(medians)["reported"]
    first = answers.filter(pl.col("time_to_first_token_s") > 0)
    assert first.height > 300
    afternoon = pl.col("time").dt.hour().is_between(13, 16)
    ember = first.filter(model="ember-1")
    assert (
        ember.filter(afternoon)["time_to_first_token_s"].median()
        > ember.filter(~afternoon)["time_to_first_token_s"].median()
    )
    assert best["together"].item() >= 4

# %% [markdown]
# ## What to do about it
#
# - Tools take most of the time? The slowest by p95 is where to begin: let pi run the one test instead of all of them,
#   and give long commands a time limit.
# - A long time to the first token with a large context is mostly a cold cache; see [Where the money
#   goes](02-where-the-money-goes.ipynb).
# - A model that gives out few tokens a second is slow for long answers only; for short turns the first token decides.
# - Only `entry` times? Record your runs (`pimetrics record -- pi ...`), or run pi 1.1 or newer.
