"""What a polars predicate says about `time`: the span outside of which no row can pass.

Read from the JSON form of the expression, which polars does not promise to keep: whatever is not understood bounds
nothing, so a change there makes queries slower, never wrong.
"""

from __future__ import annotations

import json
from math import inf
from typing import Any, Final

import polars as pl

Span = tuple[float, float]
"""Earliest and latest time, epoch ms, both included."""

ALWAYS: Final[Span] = (-inf, inf)
_UNITS: Final = {"Milliseconds": 1, "Microseconds": 1_000, "Nanoseconds": 1_000_000}
_MIRROR: Final = {"Gt": "Lt", "GtEq": "LtEq", "Lt": "Gt", "LtEq": "GtEq", "Eq": "Eq"}
_DAY_MS: Final = 86_400_000


def time_span(predicate: pl.Expr | None) -> Span:
    """Return the span in which `time` must be for a row to pass; a null time never passes a bounded one."""
    if predicate is None:
        return ALWAYS
    try:
        tree = json.loads(predicate.meta.serialize(format="json"))
    except (ValueError, TypeError, pl.exceptions.PolarsError):
        return ALWAYS  # an expression that has no JSON form, such as a Python function
    return _span(tree)


def _span(node: Any) -> Span:
    binary = _inside(node, "BinaryExpr")
    if binary is not None:
        operator, left, right = binary.get("op"), binary.get("left"), binary.get("right")
        if operator in {"And", "LogicalAnd"}:
            a, b = _span(left), _span(right)
            return max(a[0], b[0]), min(a[1], b[1])
        if operator in {"Or", "LogicalOr"}:
            a, b = _span(left), _span(right)
            return min(a[0], b[0]), max(a[1], b[1])
        if operator in _MIRROR:
            return _compared(left, operator, right) or _compared(right, _MIRROR[operator], left) or ALWAYS
        return ALWAYS
    function = _inside(node, "Function")
    between = _inside(_inside(function and function.get("function"), "Boolean"), "IsBetween")
    if function is None or between is None:
        return ALWAYS
    column, low, high = function["input"]
    a = _compared(column, "GtEq", low) or ALWAYS
    b = _compared(column, "LtEq", high) or ALWAYS
    return a[0], b[1]


def _compared(column: Any, operator: str, value: Any) -> Span | None:
    """Return the span of `time OPERATOR literal`, ends included: too wide by an instant is right enough."""
    if _is_time(column):
        low = high = _instant(value)
    elif _is_date_of_time(column):
        days = _inside(_inside(_inside(value, "Literal"), "Scalar"), "Date")
        low = None if type(days) is not int else float(days * _DAY_MS)
        high = None if low is None else low + _DAY_MS
    else:
        return None
    if low is None or high is None:
        return None
    return (-inf if operator in {"Lt", "LtEq"} else low), (inf if operator in {"Gt", "GtEq"} else high)


def _is_time(node: Any) -> bool:
    return isinstance(node, dict) and node.get("Column") == "time"


def _is_date_of_time(node: Any) -> bool:
    function = _inside(node, "Function")
    if function is None or _inside(function.get("function"), "TemporalExpr") != "Date":
        return False
    given = function.get("input")
    return isinstance(given, list) and len(given) == 1 and _is_time(given[0])


def _instant(node: Any) -> float | None:
    given = _inside(_inside(_inside(node, "Literal"), "Scalar"), "Datetime")
    if not isinstance(given, list) or len(given) != 3 or given[1] not in _UNITS or type(given[0]) is not int:
        return None
    zone = _inside(given[2], "inner")
    return given[0] / _UNITS[given[1]] if zone == "UTC" else None


def _inside(node: Any, name: str) -> Any:
    return node.get(name) if isinstance(node, dict) else None
