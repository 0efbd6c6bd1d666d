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
# # Reliability
#
# **What fails, what does trying again bring, and what does failure cost?**

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
pl.Config(
    tbl_hide_dataframe_shape=True, tbl_width_chars=160, tbl_rows=16, tbl_cols=12, fmt_str_lengths=80, float_precision=4
)

t = pm.read(PATH) if PATH else pm.read()
answers = t.usage.filter("settled", operation="turn")
failed = answers.filter(stop_reason="error")

# %% [markdown]
# ## How answers end
#
# `stop` and `toolUse` are what should happen; `length` is an answer that reached its limit; `error` came from the
# provider or the network; `aborted` was stopped by the user.

# %%
plots.counts(answers, "stop_reason", title="How answers end", noun="answer", theme=THEME)

# %%
plots.counts(failed, "error_type", title="Errors by class", noun="error", theme=THEME)

# %%
answers.group_by("provider", "model").agg(
    answers=pl.len(),
    errors=pl.col("stop_reason").eq("error").sum(),
    error_rate=pl.col("stop_reason").eq("error").mean(),
    aborted=pl.col("stop_reason").eq("aborted").sum(),
    cost_of_failed_usd=pl.col("cost_usd").filter(pl.col("stop_reason").is_in(["error", "aborted"])).sum(),
).sort(["error_rate", "model"], descending=[True, False])

# %% [markdown]
# Errors rarely come alone: a day that stands out is an incident at a provider, not a fault of yours.

# %%
plots.counts_by_day(failed, "error_type", title="Failed answers", noun="answer", theme=THEME)

# %% [markdown]
# ## Trying again
#
# pi tries again after errors that may pass, and waits longer each time. Retries stand in streams and recordings only.
# An attempt is `failed` when another followed it; a series ends with success, exhausted (no attempt left) or aborted.

# %%
plots.retry_waste(t.retries, theme=THEME)

# %%
plots.retry_success(t.retries, theme=THEME)

# %%
turn_retries = t.retries.filter(scope="turn")
series = turn_retries.filter(pl.col("outcome") != "failed")
series.group_by("outcome").agg(
    series=pl.len(),
    attempts=pl.sum("attempt"),
    last_wait_s=pl.col("delay_s").median(),
).sort(["series", "outcome"], descending=[True, False])

# %% [markdown]
# ## Runs and tools
#
# A run that was `retried` ended in an error and was started again; `error` is one that stayed so. Tools fail for good
# reasons too: a test that fails is an answer. What was `aborted` was stopped in the middle.

# %%
plots.counts(t.runs, "outcome", title="How runs end", noun="run", theme=THEME)

# %%
by_tool = (
    t.tool_calls.group_by("tool")
    .agg(
        calls=pl.len(),
        errors=pl.col("outcome").eq("error").sum(),
        aborted=pl.col("outcome").eq("aborted").sum(),
        unfinished=pl.col("outcome").eq("unfinished").sum(),
        error_rate=pl.col("outcome").eq("error").mean(),
    )
    .sort(["error_rate", "tool"], descending=[True, False])
)
by_tool

# %% [markdown]
# ## What was stopped, and what was cut off
#
# Prompts with a stopped answer, and what had been spent on them until then. An answer that was cut off by a killed pi
# is *unfinished*: what it had reported stands apart and is in no total.

# %%
prompts = t.usage.group_by("prompt_id").agg(
    stopped=pl.col("stop_reason").eq("aborted").any(),
    cost_usd=pl.col("cost_usd").filter("settled").sum(),
    unfinished_usd=pl.col("cost_usd").filter(~pl.col("settled")).sum(),
    cut_off=(~pl.col("settled")).sum(),
)
pl.DataFrame(
    [
        ("prompts", prompts.height, prompts["cost_usd"].sum()),
        ("with an answer that was stopped", prompts["stopped"].sum(), prompts.filter("stopped")["cost_usd"].sum()),
        (
            "with an answer that was cut off (its own report)",
            (prompts["cut_off"] > 0).sum(),
            prompts["unfinished_usd"].sum(),
        ),
        ("answers thrown away by retries", turn_retries.height, turn_retries["discarded_cost_usd"].sum()),
    ],
    schema={"what": pl.String, "number": pl.Int64, "cost_usd": pl.Float64},
    orient="row",
)

# %%
waited = t.retries["delay_s"].sum()
assert answers.filter(stop_reason="error").height == failed.height
assert by_tool["calls"].sum() == t.tool_calls.height
assert series.height <= turn_retries.height
if PATH == "example":
    told = json.loads(Path("example/totals.json").read_text(encoding="utf-8"))
    assert dict(answers.group_by("stop_reason").len().rows()) == told["stop_reasons"]
    assert dict(t.retries.group_by("outcome").len().rows()) == told["retries"]
    assert dict(t.retries.group_by("error_type").len().rows()) == told["retried_errors"]
    assert dict(t.runs.group_by("outcome").len().rows()) == told["runs"]
    assert round(waited * 1000) == told["backoff_ms"]
    assert round(prompts["unfinished_usd"].sum() * 1e9) == told["unfinished"]["cost_nano_usd"]
    worst = failed.group_by(pl.col("time").dt.date(), "error_type").len().sort("len").row(-1)
    assert (str(worst[0]), worst[1]) == ("2026-10-28", "overloaded")  # the afternoon of the overloaded provider

# %% [markdown]
# ## What to do about it
#
# - Errors on one day and of one class: the provider's incident. Another model for the day is the remedy.
# - `rate_limited` often: fewer sessions at once, or a higher limit at the provider.
# - `exhausted` series: raise the number of attempts in pi's `retry` settings where later attempts still succeed; the
#   second chart shows whether they do.
# - `context_overflow`: let pi compact earlier (see [Context](05-context.ipynb)).
# - A tool with a high error rate costs a turn each time: `edit` mostly fails on texts that have changed since they were
#   read, `bash` on commands that are not there. A line in `AGENTS.md` helps.
# - Many stopped prompts: the money stands above. Smaller prompts are cheaper to stop.
