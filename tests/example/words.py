"""What is said in the example archive: short and invented. Every choice comes from the random numbers it is given."""

from __future__ import annotations

from random import Random
from typing import Any, Final

PROMPTS: Final = (
    "Find out why the weekly report is a day late.", "Add a test for empty baskets.", "Rename price_of to unit_price.",
    "The import fails for files with a BOM. Fix it.", "Explain how rounding works here.", "Make the build green again.",
    "Split report.py into reading and printing.", "Write a migration for the new column.", "Why is this query slow?",
    "Update the changelog for the release.", "Replace the hand-written parser by a table.", "Review the last commit.",
    "Add a --dry-run option.", "Find dead code in src and remove it.", "Port the shell script to Python.",
    "The tide table is wrong for leap years.", "Show an error when the list is empty.", "Document the settings.",
)  # fmt: skip
FOLLOW_UPS: Final = (
    "Now the same for returns.", "Run the tests again.", "Simplify that.", "Good. Commit it.", "Also handle the empty case.",
    "Use the helper in util.py instead.", "Undo the last change.", "What did you change?", "Go on.",
)  # fmt: skip
NAMES: Final = ("weekly report", "leap years", "green build", "new column", "faster import", "release notes")
SAID: Final = (
    "I will look at the code first. ", "The test fails in one place. ", "This is caused by the rounding. ",
    "The list is read twice. ", "I found the reason. ", "Now I run the tests. ", "Two files need the change. ",
    "The old name is still used here. ", "All tests pass. ", "Done; the change is small. ", "It was off by one. ",
)  # fmt: skip
THOUGHTS: Final = (
    "The report is built in two steps. ", "Check the caller before changing it. ", "An empty list is the odd case. ",
    "The cache may be stale. ", "Tests first, then the change. ",
)  # fmt: skip
FILES: Final = (
    "src/prices.py", "src/basket.py", "src/report.py", "src/tides.py", "src/util.py", "tests/test_basket.py",
    "tests/test_report.py", "docs/settings.md", "README.md", "pyproject.toml", "web/app.ts", "web/table.ts",
)  # fmt: skip
COMMANDS: Final = (
    "pytest -q", "pytest -q tests/test_report.py", "git status --short", "git diff --stat", "ls src", "npm run build",
    "make lint", "python -m report --week 41", "git log --oneline -5",
)  # fmt: skip
TASKS: Final = (
    "Look for other places with the same fault.", "List all callers of unit_price.", "Read the docs on rounding.",
    "Check the tests for gaps.", "Summarise src/report.py.",
)  # fmt: skip
PAGES: Final = ("docs.example/api/rounding", "docs.example/guide/tables", "news.example/leap-seconds")
LINES: Final = (
    "def unit_price(item, day):\n", "    return round(table[item] * rate(day), 2)\n", "for row in rows:\n",
    "    total += row.count * row.price\n", "    if not row:\n        continue\n", "import csv\nimport sys\n",
    "tests/test_basket.py ....                [ 40%]\n", "tests/test_report.py ..F.                [ 80%]\n",
    "row 0114: apples sold 9, milk sold 3\n", "row 0115: apples sold 3, milk sold 8\n", "# what is left over\n",
    "class Basket:\n    items: list[Item]\n", "warning: table is read twice\n", "3 passed, 1 failed in 2.31s\n",
)  # fmt: skip
FAILURES: Final = {
    "bash": "E   assert 12 == 13\n1 failed, 8 passed in 3.02s\n\n\nCommand exited with code 1",
    "edit": "Could not find the exact text in the file. The old text must match exactly.",
    "read": "ENOENT: no such file or directory, access 'src/old.py'",
    "write": "EACCES: permission denied, open 'dist/app.js'",
    "grep": "Path not found: lib",
    "web_fetch": "404 Not Found",
}
ABORTED: Final = "collecting ...\n\n\nCommand aborted"


def text(dice: Random, pool: tuple[str, ...], low: int, high: int) -> str:
    """Some sentences of a pool."""
    return "".join(dice.choices(pool, k=dice.randint(low, high))).strip()


def arguments(dice: Random, tool: str) -> dict[str, Any]:
    """What a model hands to a tool."""
    path = dice.choice(FILES)
    if tool == "bash":
        return {"command": dice.choice(COMMANDS)}
    if tool == "edit":
        return {"path": path, "edits": [{"oldText": dice.choice(LINES), "newText": dice.choice(LINES)}]}
    if tool == "write":
        return {"path": path, "content": "".join(dice.choices(LINES, k=dice.randint(2, 12)))}
    if tool == "grep":
        return {"pattern": "price", "path": path.split("/")[0]}
    if tool == "web_fetch":
        return {"url": f"https://{dice.choice(PAGES)}"}
    if tool == "subagent":
        return {"task": dice.choice(TASKS)}
    return {"path": path}


def output(dice: Random, tool: str) -> str:
    """What a tool gives back when all is well; long for what reads, one line for what writes."""
    if tool in {"edit", "write"}:
        return f"Successfully wrote to {dice.choice(FILES)}"
    if tool == "subagent":
        return text(dice, SAID, 3, 7)
    longest = {"read": 13, "bash": 8, "grep": 7, "web_fetch": 22}[tool]
    return "".join(dice.choices(LINES, k=1 + int(longest * dice.random() ** 2)))
