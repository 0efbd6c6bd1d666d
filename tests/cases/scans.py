"""Cases from public reports, as they lie in the fixtures: inputs and the right outcome."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

CASES = Path(__file__).parents[1] / "fixtures" / "cases"


class Case(NamedTuple):
    """One case: its inputs, and what is right when they are scanned together."""

    id: str
    files: tuple[Path, ...]
    right: dict


def case(number: str) -> Case:
    """Return a case by its number."""
    path = next(CASES.glob(f"{number}-*.json"))
    found = json.loads(path.read_text(encoding="utf-8"))
    right = found["right"]
    if isinstance(right.get("scan"), dict):
        right = right["scan"]
    return Case(found["id"], tuple(CASES / name for name in found.get("files", ())), right)
