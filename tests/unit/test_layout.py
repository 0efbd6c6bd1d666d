"""Tables on terminals and in pipes, and numbers as people read them."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console

from pimetrics.names import PICO
from pimetrics.reports import wording
from pimetrics.reports.layout import Column, middle, name, show, words
from tests.reporting import terminal

LONG = "/home/somebody/with/a/very/long/path/to/the/project-that-matters"


def test_a_narrow_terminal_cuts_names_in_the_middle_and_keeps_numbers():
    """Both ends of a name stay; a number is never cut."""
    console = terminal(50)
    show(console, "T", [Column("project"), Column("tokens")], [[name(LONG), wording.count(123_456_789)]])
    row = console.file.getvalue().splitlines()[-1]
    assert cell_len(row) <= 50
    assert row.startswith("/home/")
    assert "…" in row
    assert "matters " in row
    assert row.endswith(("123M", "123,456,789"))


def test_the_least_needed_columns_go_first():
    """Where numbers do not fit even shortened, columns of a high rank go and those of rank 0 stay."""
    columns = [Column("name"), Column("rare", 9), Column("often", 1), Column("cost")]
    row = [name("x" * 40), *[wording.count(123_456_789)] * 3]
    console = terminal(44)
    show(console, "T", columns, [row])
    heading = console.file.getvalue().splitlines()[2].split()
    assert heading == ["name", "often", "cost"]


def test_a_pipe_never_cuts_a_name():
    """A program finds the whole name, on one line."""
    console = Console(file=StringIO(), width=40)
    show(console, "T", [Column("project"), Column("n")], [[name(LONG), wording.count(1)]])
    assert f"{LONG}  1" in console.file.getvalue().splitlines()[-1]


def test_columns_without_anything_are_left_out():
    """A column of dashes says nothing, unless the table is about it."""
    console = terminal(80)
    show(
        console,
        "T",
        [Column("name"), Column("none", 1), Column("cost")],
        [[name("a"), wording.NOTHING, wording.NOTHING]],
    )
    assert console.file.getvalue().splitlines()[2].split() == ["name", "cost"]


def test_the_total_stands_under_a_rule():
    """Rows, rule, total."""
    console = terminal(80)
    rows = [[name("a"), wording.count(1)], [name("b"), wording.count(2)]]
    show(console, "T", [Column("name"), Column("n")], rows, [words("total"), wording.count(3)])
    lines = console.file.getvalue().splitlines()
    assert lines[-1].split() == ["total", "3"]
    assert set(lines[-2]) == {"─"}


@pytest.mark.parametrize("hostile", ["[/]", "[bold]x", "<script>alert(1)</script>", ":boom:", "{}", "%s"])
def test_markup_in_names_is_text(hostile):
    """Names that mean something to a terminal library, a page or a format stand as they are."""
    console = terminal(80)
    show(console, "T", [Column("tool")], [[name(hostile)]])
    assert console.file.getvalue().splitlines()[-1] == hostile


@pytest.mark.parametrize(
    "hostile", ["a\nb", "a\x1b[2Jb", "a\u202eb", "a\u2066b", "a\rb", "a\u2028b", "a\x00b", "a\ud83db"]
)
def test_names_that_would_move_text_are_escaped(hostile):
    """Newlines, escapes, bidi controls and half characters show as escapes, on one line."""
    console = terminal(80)
    show(console, "T", [Column("tool")], [[name(hostile)]])
    shown = console.file.getvalue().splitlines()[-1]
    assert shown.isprintable()
    assert shown.startswith("a\\")
    assert shown.endswith("b")


@pytest.mark.parametrize("width", range(1, 12))
def test_middle_never_exceeds_its_width(width):
    """Wide characters count twice."""
    for text in ("abcdefghijkl", "日本語プロジェクト", "a日b本c"):
        assert cell_len(middle(text, width)) <= width
        assert middle(text, 40) == text


def test_a_huge_name_is_bounded_even_in_a_pipe():
    """A tool name of a megabyte does not make a megabyte of a line."""
    assert len(name("x" * 1_000_000).text) <= 200


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0"), (9_999, "9,999"), (10_000, "10.0K"), (999_499, "999K"), (999_500, "1.00M"), (1_234_567_890, "1.23G")],
)
def test_compact_numbers(number, shown):
    """Three digits and a unit, and no jump at its border."""
    assert wording.compact(number) == shown


@pytest.mark.parametrize(
    ("usd", "shown"),
    [(0.25, "$0.2500"), (12.345, "$12.35"), (0.000012, "<$0.0001"), (1234.5, "$1,234.50"), (9.99999, "$10.0000")],
)
def test_money(usd, shown):
    """Four decimals below ten dollars, two from there on, and what is less than that is not nothing."""
    assert wording.money(round(usd * PICO)).text == shown


def test_money_without_a_price():
    """Unpriced is a word, a partial sum has a plus, unused is a dash."""
    assert wording.money(0, no_price=1).text == "unpriced"
    assert wording.money(PICO, no_price=1).text == "$1.0000+"
    assert wording.money(0, used=False).text == "-"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "-"),
        (0.0304, "30 ms"),
        (0.9996, "1.0 s"),
        (59.94, "59.9 s"),
        (59.97, "1m 00s"),
        (3599.7, "1h 00m"),
        (7265, "2h 01m"),
    ],
)
def test_lengths(seconds, shown):
    """The unit that reads best, and no 60 seconds in a minute."""
    assert wording.length(seconds) == shown
