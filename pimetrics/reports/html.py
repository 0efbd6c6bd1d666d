"""A report as one page: nothing to load, no script, readable in light and dark, on a phone and on paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Final, NamedTuple

from pimetrics.look import LOOK
from pimetrics.reports.layout import Cell, Column, Row, used

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""Even where an escape were missed, nothing would run or be loaded."""


class Picture(NamedTuple):
    """A chart on the page.

    Attributes:
        title: What is seen.
        said: What it says.
        svg: The picture.
    """

    title: str
    said: str
    svg: str


class Html:
    """Writes a report as a page (a `Writer`).

    Args:
        title: What the page is about.
        subtitle: Of when it is.
        pictures: Gives the pictures that stand above the table of a title.
        colours: CSS that turns the pictures dark.
    """

    def __init__(self, title: str, subtitle: str, pictures: Callable[[str], Sequence[Picture]], colours: str) -> None:
        self._title = title
        self._subtitle = subtitle
        self._pictures = pictures
        self._colours = colours
        self._parts: list[str] = []
        self._contents: list[str] = []

    def facts(self, lines: Sequence[tuple[str, str, str]]) -> None:
        """Add (title, text, style) lines; bold ones are what people look for first."""
        items = "".join(
            f"<div{' class=bold' if style == 'bold' else ''}><dt>{escape(title)}</dt><dd>{escape(text)}</dd></div>"
            for title, text, style in lines
        )
        self._parts.append(f'<dl class="facts">{items}</dl>')

    def table(self, title: str, columns: Sequence[Column], rows: Sequence[Row], total: Row | None = None) -> None:
        """Add a section: its heading, its pictures, and the table in a box that scrolls by itself."""
        kept = used(columns, [*rows, total] if total else rows)
        named = [any(row[i].is_name for row in rows) for i in kept]

        def line(row: Row) -> str:
            tags = ["th scope=row", *["td"] * (len(kept) - 1)]
            cells = zip(tags, kept, named, strict=True)
            return f"<tr>{''.join(_cell(tag, row[i], is_name=is_name) for tag, i, is_name in cells)}</tr>"

        heads = "".join(
            f"<th scope=col{'' if is_name else ' class=number'}>{escape(columns[i].title)}</th>"
            for i, is_name in zip(kept, named, strict=True)
        )
        foot = f"<tfoot>{line(total)}</tfoot>" if total else ""
        # What it cost is what a table is read for: it stays in sight while the rest scrolls.
        kept_in_sight = " class=kept" if columns[kept[-1]].title == "cost" else ""
        self._contents.append(title)
        self._parts.append(
            f'<section id="{_anchor(title)}"><h2>{escape(title)}</h2>{"".join(map(_figure, self._pictures(title)))}'
            f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(title)}">'
            f"<table{kept_in_sight}><caption>{escape(title)}</caption><thead><tr>{heads}</tr></thead>"
            f"<tbody>{''.join(map(line, rows))}</tbody>{foot}</table></div></section>"
        )

    def note(self, text: str, *, apart: bool = False) -> None:
        """Add a remark to the section before it, or apart from it."""
        said = f'<p class="dim">{escape(text)}</p>'
        if apart or not self._parts or not self._parts[-1].endswith("</section>"):
            self._parts.append(said)
        else:
            self._parts[-1] = f"{self._parts[-1].removesuffix('</section>')}{said}</section>"

    def document(self, footer: str) -> str:
        """Return the page."""
        links = "".join(f"<a href='#{_anchor(title)}'>{escape(title)}</a>" for title in self._contents)
        return "\n".join(
            [
                "<!doctype html>",
                '<html lang="en"><head><meta charset="utf-8">',
                f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                f"<title>{escape(self._title)}</title>",
                f"<style>{LOOK}\n{_STYLE}",
                f"@media screen and (prefers-color-scheme: dark) {{\n{self._colours}\n}}",
                "</style></head><body>",
                f'<header><h1>{escape(self._title)}</h1><p class="dim">{escape(self._subtitle)}</p></header>',
                f'<nav aria-label="Sections">{links}</nav><main>',
                *self._parts,
                f"</main><footer>{escape(footer)}</footer></body></html>",
                "",
            ]
        )


def _figure(picture: Picture) -> str:
    return (
        f'<figure><figcaption><strong>{escape(picture.title)}</strong> <span class="dim">{escape(picture.said)}</span>'
        f'</figcaption><div class="scroll" tabindex="0" role="region" aria-label="{escape(picture.title)}">'
        f"{picture.svg}</div></figure>"
    )


def _anchor(title: str) -> str:
    return "-".join(word for word in "".join(c if c.isalnum() else " " for c in title.lower()).split())


def _text(cell: Cell) -> str:
    # Each name in its own direction, so that none can turn its neighbours round.
    return f"<bdi>{escape(cell.text)}</bdi>" if cell.is_name else escape(cell.text)


def _cell(tag: str, cell: Cell, *, is_name: bool) -> str:
    classes = " ".join(word for word in ("" if is_name else "number", _CLASSES.get(cell.style, "")) if word)
    attribute = f' class="{classes}"' if classes else ""
    return f"<{tag}{attribute}>{_text(cell)}</{tag.partition(' ')[0]}>"


_CLASSES: Final = {"dim": "dim", "yellow": "warn"}

_STYLE: Final = """
body { max-width: 74rem; }
header p { margin: .1rem 0 0; }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; margin: 1rem 0; font-size: .9rem; }
.facts { margin: 1.2rem 0; display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.2rem; }
.facts div { display: contents; }
.facts dt, .facts dd { margin: 0; align-self: baseline; }
.facts dd { font-variant-numeric: tabular-nums; }
.facts .bold dd { font-size: 1.65rem; font-weight: 600; line-height: 1.3; }
section { padding: 1.1rem 1.3rem; margin: 1.2rem 0; }
h2 { font-size: 1.15rem; }
section > p { margin: .6rem 0 0; font-size: .85rem; }
figure { margin: .6rem 0 1.4rem; }
figcaption { margin-bottom: .4rem; }
figcaption span { display: block; font-size: .85rem; }
.scroll { overflow-x: auto; }
.scroll:focus-visible { outline: 2px solid var(--mark); outline-offset: 2px; }
svg { display: block; }
table { font-size: .85rem; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
th, td { text-align: left; vertical-align: top; padding: .3rem 0 .3rem .9rem; border-top: 1px solid var(--line); }
thead th { border-top: 0; vertical-align: bottom; white-space: nowrap; }
th[scope=row] { font-size: inherit; color: var(--ink); min-width: 11rem; max-width: 22rem; overflow-wrap: anywhere; }
td:not(.number) { min-width: 9rem; max-width: 22rem; overflow-wrap: anywhere; }
tr > :first-child { padding-left: 0; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tr > .number:first-child { text-align: left; }
td.dim, th.dim { color: var(--dim); }
.warn { color: var(--warn); }
tfoot th, tfoot td { font-weight: 600; border-top: 2px solid var(--line); }
.kept tr > :last-child {
  position: sticky; right: 0; padding-left: 1.8rem;
  background: linear-gradient(to right, transparent, var(--sheet) 1.6rem);
}
@media (max-width: 40rem) {
  body { padding: 1rem .75rem 2rem; }
  .facts { grid-template-columns: 1fr; gap: 0; }
  .facts dd { margin-bottom: .5rem; }
  section { padding: .9rem .8rem; }
  th[scope=row], td:not(.number) { min-width: 7rem; max-width: 10rem; }
}
@media print {
  :root { color-scheme: light; --ground: #fff; --sheet: #fff; --ink: #1d1f23; --dim: #5f636b; --line: #d5d3cd; }
  @page { size: landscape; margin: 10mm; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav { display: none; }
  section { border: 0; padding: 0; margin: 0 0 8mm; }
  h2, figcaption, figure:last-of-type { break-after: avoid; }
  section > p, main > p { break-before: avoid; }
  main > p { margin: 0; }
  footer { break-before: avoid; margin: 4mm 0 0; padding: 0; }
  figure, tr { break-inside: avoid; }
  thead { display: table-header-group; }
  tfoot { display: table-row-group; }
  .scroll { overflow: visible; }
  svg { max-width: 100%; height: auto; }
  table { font-size: 7pt; }
  thead th { white-space: normal; font-size: inherit; }
  th, td { padding: .15rem 0 .15rem .5rem; }
  th[scope=row], td:not(.number) { min-width: 5rem; max-width: 12rem; }
  .kept tr > :last-child { position: static; padding-left: .5rem; background: none; }
}
""".strip()
