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
# # Where the money goes
#
# **Which prompts, turns and detours cost the most, what did the cache save, and what was paid for nothing?**

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
    tbl_hide_dataframe_shape=True, tbl_width_chars=160, tbl_rows=12, tbl_cols=12, fmt_str_lengths=80, float_precision=4
)

t = pm.read(PATH) if PATH else pm.read()
spent = t.usage.filter("settled")
answers = spent.filter(operation="turn").with_columns(
    context_tokens=pl.sum_horizontal("input_tokens", "cache_read_tokens", "cache_write_tokens")
)
projects = t.sessions.unique("session_id").select("session_id", project=pl.col("cwd").str.split("/").list.last())
models = plots.ranked(spent)
total = spent.filter(pl.col("operation") != "tool")["cost_usd"].sum()


def share(part: float) -> str:
    """Say a cost, and how much of the whole it is."""
    return f"${part:,.2f}, {part / total:.1%} of ${total:,.2f}" if total else "$0, nothing had a cost"


# %% [markdown]
# ## What a prompt costs
#
# A prompt is a user message with all the work on it: what people mean by the cost of a task. What its tools reported is
# part of it.

# %%
plots.cost_per_prompt(t.usage, theme=THEME)

# %%
by_prompt = spent.group_by("prompt_id").agg(
    pl.sum("cost_usd"), requests=pl.col("operation").eq("turn").sum(), model=pl.col("model").mode().sort().first()
)
(
    t.prompts.join(by_prompt, left_on="row_id", right_on="prompt_id")
    .join(projects, on="session_id", how="left")
    .sort("cost_usd", descending=True)
    .select(pl.col("time").dt.truncate("1s"), "project", "model", "requests", "duration_s", "outcome", "cost_usd")
    .head(8)
)

# %% [markdown]
# ## The most expensive turns, and what they caused
#
# The bars say why a turn was expensive: a large part of *cache write* or *input* is a context that no cache held any
# more, a large part of *output* is a long answer.

# %%
plots.dearest_turns(t.usage, theme=THEME)

# %% [markdown]
# What a turn costs does not end with it: what its tools give back stays in the context, and every later request of the
# session pays for carrying it. `growth_tokens` is how much larger the context of the next request was, `carried_usd`
# what carrying that cost until the next compaction or the end of the session, at the price that the model charges for
# tokens read from its cache (for all of its input where it has none). `tools_usd` is what sub-agents of the turn
# reported, and `in_all_usd` the three together.

# %%
read_price = answers.group_by("model").agg(
    price=pl.when(pl.sum("cache_read_tokens") > 0)
    .then(pl.sum("cost_cache_read_usd") / pl.sum("cache_read_tokens"))
    .otherwise(pl.sum("cost_input_usd") / pl.sum("input_tokens"))
)
cuts = t.compactions.filter(outcome="ok").select("session_id", cut="time").drop_nulls().sort("cut")
path = (
    answers.filter(pl.col("on_active_branch").fill_null(value=True), pl.col("context_tokens") > 0)
    .drop_nulls(["session_id", "time"])
    .sort("time", "row_id")
    .join_asof(cuts, left_on="time", right_on="cut", by="session_id", strategy="backward", check_sortedness=False)
    .join(read_price, on="model", how="left", maintain_order="left")
    .with_columns(
        growth_tokens=(pl.col("context_tokens").shift(-1) - pl.col("context_tokens")).over("session_id", "cut"),
        later_requests=(pl.len() - 1 - pl.int_range(pl.len())).over("session_id", "cut"),
    )
    .with_columns(carried_usd=pl.col("growth_tokens").clip(0) * pl.col("later_requests") * pl.col("price"))
)
called = t.tool_calls.group_by("turn_id").agg(
    tools=pl.col("tool").unique().sort().str.join(", "),
    result_bytes=pl.sum("result_bytes"),
)
asked = spent.filter(operation="tool").group_by("turn_id").agg(tools_usd=pl.sum("cost_usd"))
turns = (
    t.turns.select("session_id", "time", turn_id="row_id")
    .join(called, on="turn_id", how="left")
    .join(asked, on="turn_id", how="left")
    .unique(["session_id", "time"])
)
caused = path.join(turns, on=["session_id", "time"], how="left").select(
    pl.col("time").dt.truncate("1s"),
    "model",
    "cost_usd",
    "tools",
    "result_bytes",
    "growth_tokens",
    "later_requests",
    "carried_usd",
    "tools_usd",
    in_all_usd=pl.sum_horizontal("cost_usd", "carried_usd", "tools_usd"),
)
caused.sort("in_all_usd", descending=True, nulls_last=True).head(8)

# %% [markdown]
# ## What the cache saves
#
# The hit rate is the share of the context that was read from the cache. `saved_usd` compares what was paid with the
# same tokens at the price of plain input: reads are cheaper, writes (where a provider charges for them) dearer.

# %%
plots.cache_hit_rate(t.usage, models=models, theme=THEME)

# %%
plain = pl.sum("cost_input_usd") / pl.sum("input_tokens")
cache = (
    answers.filter(pl.col("cost_usd") > 0)
    .group_by("model")
    .agg(
        requests=pl.len(),
        hit_rate=(pl.sum("cache_read_tokens") / pl.sum("context_tokens")).fill_nan(0),
        paid_usd=pl.sum("cost_cache_read_usd") + pl.sum("cost_cache_write_usd"),
        without_cache_usd=(pl.sum("cache_read_tokens") + pl.sum("cache_write_tokens")) * plain,
    )
    .with_columns(saved_usd=pl.col("without_cache_usd") - pl.col("paid_usd"))
    .filter(pl.col("saved_usd").is_not_nan())
    .sort(["saved_usd", "model"], descending=[True, False])
)
cache

# %% [markdown]
# A cache goes cold while nobody asks. A request finds it cold when it follows another one of its session, carries more
# than 10,000 tokens, and less than half of what that one carried was read from the cache. (The first request after a
# compaction sends a new beginning: no cache could hold it, so it does not count here.) What it costs: the tokens that
# were sent again, at the price that was paid instead of that of reading them from the cache.

# %%
fresh = pl.sum_horizontal("input_tokens", "cache_write_tokens")
fresh_usd = pl.sum_horizontal("cost_input_usd", "cost_cache_write_usd")
idle = (
    path.join(cache.filter(pl.col("hit_rate") > 0), on="model", how="semi", maintain_order="left")
    .with_columns(
        idle_min=(pl.col("time").diff().over("session_id", "cut").dt.total_milliseconds() / 60_000),
        held_tokens=pl.min_horizontal(pl.col("context_tokens").shift(1).over("session_id", "cut"), "context_tokens"),
    )
    .filter(pl.col("idle_min").is_not_null(), pl.col("context_tokens") > 10_000)
    .with_columns(again_tokens=(pl.col("held_tokens") - pl.col("cache_read_tokens").fill_null(0)).clip(0))
    .with_columns(
        cold=pl.col("again_tokens") > pl.col("held_tokens") / 2,
        extra_usd=(pl.col("again_tokens") * (fresh_usd / fresh - pl.col("price"))).fill_nan(0).clip(0),
    )
)
pauses = ["under 1 min", "1 to 5 min", "5 to 10 min", "10 to 60 min", "over an hour"]
by_pause = (
    idle.with_columns(pause=pl.col("idle_min").bin_intervals([1, 5, 10, 60], labels=pauses).cast(pl.String))
    .group_by("pause", "cold")
    .agg(requests=pl.len(), extra_usd=pl.sum("extra_usd"))
    .with_columns(cache=pl.when("cold").then(pl.lit("cold")).otherwise(pl.lit("warm")))
)
look = plots.theme.theme(THEME)
cold_usd = idle.filter("cold")["extra_usd"].sum()
chart = (
    alt.Chart(alt.Data(values=by_pause.to_dicts()))
    .mark_bar()
    .encode(
        x=alt.X(
            "requests:Q", stack="normalize", title="share of requests (%)", axis=alt.Axis(format=".0%", tickCount=5)
        ),
        y=alt.Y("pause:N", sort=pauses, title="pause before the request"),
        color=alt.Color(
            "cache:N", title=None, scale=alt.Scale(domain=["warm", "cold"], range=[look.palette[4], look.palette[5]])
        ),
        order=alt.Order("cold:N"),
    )
    .properties(width=600, height=26 * by_pause["pause"].n_unique())
)
said = f"{idle['cold'].sum():,} of {idle.height:,} requests found it cold, which cost ${cold_usd:,.2f} more"
plots.titled(chart, by_pause, "How long a pause keeps the cache warm", said, theme=THEME)

# %% [markdown]
# ## Detours
#
# Branches that a session did not end on were paid like any other. `on_active_branch` is null where no tree is known.

# %%
abandoned = spent.filter(~pl.col("on_active_branch"))
print(f"abandoned branches: {share(abandoned['cost_usd'].sum())}")
(
    abandoned.join(projects, on="session_id", how="left")
    .group_by("session_id")
    .agg(pl.first("project"), requests=pl.len(), cost_usd=pl.sum("cost_usd"))
    .join(spent.group_by("session_id").agg(session_usd=pl.sum("cost_usd")), on="session_id")
    .sort("cost_usd", descending=True)
    .select("project", "requests", "cost_usd", "session_usd")
    .head(6)
)

# %% [markdown]
# Work beside the answers: compactions, summaries of branches, cache warming, and what tools reported of their own
# (which may stand again in the session of a sub-agent, so it is in no headline).

# %%
plots.cost_by(t.usage, "operation", theme=THEME)

# %% [markdown]
# All detours in one table. They overlap (an abandoned branch may have begun with a cold cache), so they are no sum.

# %%
thrown = t.retries["discarded_cost_usd"].sum()
failed = answers.filter(pl.col("stop_reason").is_in(["error", "aborted"]))["cost_usd"].sum()
beside = spent.filter(pl.col("operation").is_in(["compaction", "branch_summary", "cache_warm"]))["cost_usd"].sum()
detours = pl.DataFrame(
    [
        ("abandoned branches", abandoned["cost_usd"].sum()),
        ("sent again because the cache was cold", cold_usd),
        ("compactions, summaries, cache warming", beside),
        ("answers that failed or were stopped", failed),
        ("of these, thrown away by retries", thrown),
    ],
    schema=["what", "cost_usd"],
    orient="row",
).with_columns(share=pl.col("cost_usd") / total if total else pl.lit(0.0))
detours

# %%
assert detours["cost_usd"].ge(0).all()
assert abs(by_prompt["cost_usd"].sum() - spent["cost_usd"].sum()) < 1e-6
assert cache["hit_rate"].is_between(0, 1).all()
if PATH == "example":
    told = json.loads(Path("example/totals.json").read_text(encoding="utf-8"))
    assert round(abandoned["cost_usd"].sum() * 1e9) == told["abandoned"]["cost_nano_usd"]
    assert round(total * 1e9) == told["usage"]["cost_nano_usd"] - told["by_operation"]["tool"]["cost_nano_usd"]
    assert thrown <= failed
    assert round(thrown * 1e9) == told["discarded"]["cost_nano_usd"]
    assert cache["saved_usd"].sum() > total  # without the cache it would have cost more than twice as much

# %% [markdown]
# ## What to do about it
#
# - A few prompts make most of the bill? Look at what they carried: `carried_usd` names the turns whose results were
#   kept longest. Let pi read parts of files, and start a new session for a new task.
# - Cold caches after pauses: send the next prompt before the provider's cache ends (five minutes, mostly), turn on
#   cache warming, or compact before a break.
# - A cheap model for compactions and sub-agents saves where they are a visible part.
# - Many abandoned branches: ask smaller questions first; going back is cheap early and expensive late.
