"""Charts of pi's work, for notebooks and pages: a table in, an altair chart out.

    import pimetrics as pm
    from pimetrics import plots

    t = pm.read("~/.pi/agent/sessions")
    plots.cost_by_day(t.usage)                          # shows in a notebook
    plots.save(plots.cost_by_day(t.usage), "days.png")  # or .svg

Tables are those of `pimetrics.read`, or of `pimetrics.scan`; filter them first to draw a part. Everything is summed up
before it is drawn, so any number of rows will do. Every function takes `theme="light"` or `"dark"`. An empty table
gives a chart that says so. Names from outside are escaped, and long ones cut.

Money:
    cost_by_day(usage)             stacked by model; weeks or months where days are too many
    cost_by(usage, "model")        sorted bars: model, provider, operation, session_id, "project" (sessions=t.sessions)
    cost_per_prompt(usage)         histogram, logarithmic, with median and p95
    dearest_turns(usage)           the most expensive answers, split into input, output, cache
    cache_hit_rate(usage)          share of the context read from the cache, over time, by model

Latency (`sources=("entry",)` takes times of session entries instead of measured ones):
    tool_latency(tool_calls)       p50, p95, p99 by tool, logarithmic
    tool_latency_spread(tool_calls)  where the calls of each tool lie, logarithmic
    request_latency(usage)         time to first token and duration: p50, p95, p99 by model
    tokens_per_second(usage)       output tokens a second: p5, p50, p95 by model
    waterfall(usage, tool_calls, turns, prompt_id=None)   one prompt: turns, requests, parallel tools

Reliability:
    retry_waste(retries)           by error class: attempts, tokens thrown away, time waited
    retry_success(retries)         how attempt 1, 2, 3 ended
    counts(frame, "stop_reason")   sorted bars of how often each value of a column occurs
    counts_by_day(frame, "error_type")   the same day by day; weeks or months where days are too many

Context:
    context_growth(usage, compactions, session_id=None)   tokens request by request, compactions marked
    compaction_savings(compactions)   context before and after each
    context_share(messages, tool_calls)   bytes by role, tool results by tool

Helpers:
    ranked(usage)                  models, the most expensive first: give it as `models=` to several charts, and a
                                   model has one colour in all of them
    together(*charts, columns=1)   several charts in one picture
    save(chart, path), png(chart), svg(chart)
    use_png()                      show charts of a notebook as PNG: they stay in the .ipynb and need no network
    titled(chart, rows, title, subtitle)   finish a chart of your own as those here are
    theme.theme("dark").palette    the colours, for a chart of your own
    is_empty(chart)                whether all it says is that there is no data

Raises on import:
    WrongUseError: altair is not installed.
"""

from __future__ import annotations

from pimetrics.errors import needed

with needed("plots", "altair", "a chart"):
    from pimetrics.plots.context import compaction_savings, context_growth, context_share
    from pimetrics.plots.cost import cache_hit_rate, cost_by, cost_by_day, cost_per_prompt, dearest_turns
    from pimetrics.plots.labels import ranked
    from pimetrics.plots.latency import request_latency, tokens_per_second, tool_latency, tool_latency_spread
    from pimetrics.plots.marks import titled
    from pimetrics.plots.reliability import counts, counts_by_day, retry_success, retry_waste
    from pimetrics.plots.rendering import is_empty, png, save, svg, together, use_png
    from pimetrics.plots.waterfall import waterfall

__all__ = [
    "cache_hit_rate",
    "compaction_savings",
    "context_growth",
    "context_share",
    "cost_by",
    "cost_by_day",
    "cost_per_prompt",
    "counts",
    "counts_by_day",
    "dearest_turns",
    "is_empty",
    "png",
    "ranked",
    "request_latency",
    "retry_success",
    "retry_waste",
    "save",
    "svg",
    "titled",
    "together",
    "tokens_per_second",
    "tool_latency",
    "tool_latency_spread",
    "use_png",
    "waterfall",
]
