"""Tables that read well at any width, on a terminal and in a pipe.

A terminal that is too narrow for a table first gets shorter numbers (12.3M), then fewer columns (the least needed go
first), and only then shorter names, cut in the middle so that both ends can be told apart. In a pipe names are never
cut: a program may want them. Nothing wraps. Names from outside are escaped (`printable`), and never read as markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final, Protocol

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from pimetrics.names import MAX_LABEL_CHARS, printable

_GAP: Final = 2
"""Blanks between two columns."""

_SHORTEST_NAME: Final = 26
"""A name is cut to no less than this (see `Column.least`) while a column can still be left out instead."""

_LONGEST_NAME: Final = 40
"""In a pipe, where names are not cut, a longer one makes its line longer and does not cost columns."""


@dataclass(frozen=True)
class Cell:
    """What stands in a table: in full, and shorter where there is no room. Numbers are on the right, names on the left.

    Attributes:
        text: In full.
        short: Shorter; the same where there is nothing to gain.
        is_name: From outside: cut in the middle when there is no room.
        style: For terminals.
    """

    text: str
    short: str
    is_name: bool = False
    style: str = ""


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        title: Its heading.
        rank: 0 always stays; the highest goes first where there is no room.
        least: To how many cells its names may be cut before a column goes instead.
    """

    title: str
    rank: int = 0
    least: int = _SHORTEST_NAME


Row = Sequence[Cell]


def name(text: str | None, *, missing: str = "unknown") -> Cell:
    """Show a name from outside."""
    if not text:
        return Cell(missing, missing, is_name=True, style="dim")
    shown = printable(text[: 2 * MAX_LABEL_CHARS])
    if len(shown) > MAX_LABEL_CHARS:
        shown = middle(shown, MAX_LABEL_CHARS)
    return Cell(shown, shown, is_name=True)


def words(text: str, style: str = "") -> Cell:
    """Show our own words."""
    return Cell(text, text, style=style)


def middle(text: str, width: int) -> str:
    """Cut a text in the middle to at most `width` cells of the terminal."""
    if cell_len(text) <= width:
        return text
    if width < 2:
        return "…"[:width]
    tail, head = "", ""
    for char in reversed(text):  # the end says more: the last folder, the model's version
        if cell_len(char + tail) > (width - 1) - (width - 1) // 2:
            break
        tail = char + tail
    for char in text:
        if cell_len(head + char) > width - 1 - cell_len(tail):
            break
        head += char
    return f"{head}…{tail}"


class Writer(Protocol):
    """Where the parts of a report go: a terminal or pipe (`Terminal`), a page."""

    def facts(self, lines: Sequence[tuple[str, str, str]]) -> None:
        """Write (title, text, style) lines."""

    def table(self, title: str, columns: Sequence[Column], rows: Sequence[Row], total: Row | None = None) -> None:
        """Write a table with its title and, under a rule, its total."""

    def note(self, text: str, *, apart: bool = False) -> None:
        """Write a remark: on what stands before it, or apart from that."""


class Terminal:
    """Writes a report to a console."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def facts(self, lines: Sequence[tuple[str, str, str]]) -> None:
        """Print (title, text, style) lines."""
        facts(self._console, lines)

    def table(self, title: str, columns: Sequence[Column], rows: Sequence[Row], total: Row | None = None) -> None:
        """Print a table with its title and, under a rule, its total."""
        show(self._console, title, columns, rows, total)

    def note(self, text: str, *, apart: bool = False) -> None:
        """Print a dim remark."""
        if apart:
            self._console.print()
        paragraph(self._console, text, "dim")


def used(columns: Sequence[Column], rows: Sequence[Row]) -> list[int]:
    """Return the places of the columns that say something: in which a row has something, or that always stay."""
    return [
        i for i, column in enumerate(columns) if column.rank == 0 or any(row[i].text not in {"-", ""} for row in rows)
    ]


def show(
    console: Console, title: str, columns: Sequence[Column], rows: Sequence[Row], total: Row | None = None
) -> None:
    """Print a table with its title and, under a rule, its total.

    Columns in which no row has anything (`-` or empty) are left out, unless their rank is 0.
    """
    every = [*rows, total] if total else list(rows)
    kept = used(columns, every)
    short = False
    while _least(kept, columns, every, short=short, cuts=console.is_terminal) > console.width:
        droppable = [i for i in kept if columns[i].rank]
        if not short:
            short = True
        elif droppable:
            kept.remove(max(droppable, key=lambda i: (columns[i].rank, i)))
        else:
            break
    texts = [[row[i].short if short else row[i].text for i in kept] for row in every]
    titles = [columns[i].title for i in kept]
    named = [any(row[i].is_name for row in every) for i in kept]
    widths = [max(cell_len(each) for each in (title, *column)) for title, *column in zip(titles, *texts, strict=True)]
    if console.is_terminal:
        _fit(widths, titles, named, console.width)
        texts = [[middle(text, width) for text, width in zip(line, widths, strict=True)] for line in texts]

    def line(cells: Iterable[Text]) -> None:
        padded = []
        for at, cell in enumerate(cells):
            blanks = " " * (widths[at] - cell.cell_len)
            padded.append(cell + Text(blanks) if named[at] else Text(blanks) + cell)
        _print(console, Text(" " * _GAP).join(padded))

    rule = Text(("-" if console.options.ascii_only else "─") * (sum(widths) + _GAP * (len(kept) - 1)), style="dim")
    console.print()
    _print(console, Text(title, style="bold"))
    line(Text(each, style="bold") for each in titles)
    _print(console, rule)
    for row, found in zip(every, texts, strict=True):
        if row is total:
            _print(console, rule)
        line(Text(text, style="bold" if row is total else row[i].style) for i, text in zip(kept, found, strict=True))


def facts(console: Console, lines: Sequence[tuple[str, str, str]]) -> None:
    """Print (title, text, style) lines; on a terminal a long text goes on below its own beginning."""
    indent = max(len(title) for title, _, _ in lines) + _GAP
    for title, text, style in lines:
        parts = wrap(text, max(20, console.width - indent)) if console.is_terminal else [text]
        for at, part in enumerate(parts or [""]):
            head = Text(f"{'' if at else title:<{indent}}", style="dim")
            _print(console, head + Text(part, style=style))


def paragraph(console: Console, text: str, style: str = "", indent: str = "") -> None:
    """Print a text with a paragraph's indent; a terminal breaks it between words, never inside a path."""
    parts = [text]
    if console.is_terminal:
        width = max(20, console.width - len(indent))
        parts = wrap(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    for part in parts:
        _print(console, Text(f"{indent}{part}", style=style))


def _print(console: Console, line: Text) -> None:
    line.rstrip()
    # Nothing wraps: on a terminal the line fits, in a pipe lines have any length.
    console.print(line, no_wrap=True, crop=False, overflow="ignore", soft_wrap=True)


def _least(kept: list[int], columns: Sequence[Column], rows: Iterable[Row], *, short: bool, cuts: bool) -> int:
    """Return the width that a table needs when its names are cut."""
    widths = {i: cell_len(columns[i].title) for i in kept}
    for row in rows:
        for i in kept:
            cell = row[i]
            width = cell_len(cell.short if short else cell.text)
            widths[i] = max(
                widths[i], min(width, columns[i].least if cuts else _LONGEST_NAME) if cell.is_name else width
            )
    return sum(widths.values()) + _GAP * (len(kept) - 1)


def _fit(widths: list[int], titles: list[str], named: list[bool], width: int) -> None:
    """Narrow the columns of names until the table fits, the widest first."""
    cuttable = [at for at, is_name in enumerate(named) if is_name]
    excess = sum(widths) + _GAP * (len(widths) - 1) - width
    while cuttable and excess > 0:
        widest = max(cuttable, key=lambda at: widths[at])
        if widths[widest] <= max(4, cell_len(titles[widest])):
            break
        widths[widest] -= 1
        excess -= 1
