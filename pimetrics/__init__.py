"""What the pi coding agent does and costs, as polars tables and Prometheus metrics.

    import pimetrics as pm
    t = pm.read("~/.pi/agent/sessions")
    t.usage.group_by("model").agg(pl.sum("cost_usd"))

Importing this package loads neither polars nor anything else that takes time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = ["PimetricsError", "SourceError", "Tables", "__version__", "read", "scan"]

if TYPE_CHECKING:
    from pimetrics.api import read as read
    from pimetrics.api import scan as scan
    from pimetrics.errors import PimetricsError as PimetricsError
    from pimetrics.errors import SourceError as SourceError
    from pimetrics.sinks.frames import Tables as Tables

_HOMES = {
    "read": "pimetrics.api",
    "scan": "pimetrics.api",
    "Tables": "pimetrics.sinks.frames",
    "PimetricsError": "pimetrics.errors",
    "SourceError": "pimetrics.errors",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'pimetrics' has no attribute {name!r}")
    import importlib  # noqa: PLC0415  only when something is asked for

    return getattr(importlib.import_module(home), name)
