"""What `doctor` found, as plain data and for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from pimetrics.decoding.dialect import FOREIGN, HEADER_ONLY
from pimetrics.examination import Examination, Examined
from pimetrics.ledger.totals import pico
from pimetrics.names import printable
from pimetrics.reports import wording
from pimetrics.reports.layout import Column, Row, name, paragraph, show, words

_MOST_LINES: Final = 20
"""Findings of one sort that are shown to people; `--json` has all."""


def as_dict(result: Examination, folders: Sequence[tuple[Path, str]]) -> dict[str, Any]:
    """Return everything as plain data."""
    return {
        "ok": not result.is_wrong,
        "folders": [{"path": str(path), "chosen_by": why, "exists": path.is_dir()} for path, why in folders],
        "files": [
            {
                "path": each.path,
                "kind": each.kind,
                "dialect": each.dialect,
                "pi_versions": each.versions,
                "records": each.records,
                "size_bytes": each.size,
                "sessions": sorted(each.sessions),
                "rejects": [{"line_number": reject.line, "reason": reject.reason} for reject in each.rejects],
                "unknown": dict(sorted(each.unknown.items())),
                "unknown_types": sorted(each.unknown_types),
                "clock": dict(sorted(each.clock.items())),
                "unreadable": each.unreadable,
                "copy_of": each.copy_of,
            }
            for each in result.files
        ],
        "sessions_in_several_files": [{"session_id": session, "files": paths} for session, paths in result.shared],
        "usage_rows_in_several_files": result.repeated,
        "reported_by_tools": {"cost_usd": result.tool_cost_usd, "child_sessions": result.child_sessions},
    }


class Diagnosis:
    """Writes what was found to a console."""

    def __init__(self, console: Console, result: Examination) -> None:
        self._console = console
        self._result = result

    def all(self, folders: Sequence[tuple[Path, str]]) -> None:
        """Say everything: where, what, what is wrong, what is worth knowing, and the verdict."""
        self._folders(folders)
        self._files()
        for title, lines in self._wrong():
            self._list(title, lines, "red")
        self._list("Worth knowing", self._notes(), "yellow")
        verdict = "Nothing is wrong." if not self._result.is_wrong else "Something is wrong, see above."
        if not self._result.files:
            verdict = "There is nothing to read: run pi once, or name a file or folder."
        self._console.print()
        paragraph(self._console, verdict, "bold")

    def _folders(self, folders: Sequence[tuple[Path, str]]) -> None:
        rows: list[Row] = [
            [name(str(path)), words("found") if path.is_dir() else words("not there", "yellow"), name(why)]
            for path, why in folders
        ]
        if rows:
            show(self._console, "Folders", [Column("folder"), Column("is"), Column("chosen by", 1)], rows)

    def _files(self) -> None:
        groups: dict[tuple[str, str, str], list[Examined]] = {}
        for each in self._result.files:
            kind = "unreadable" if each.unreadable else each.kind
            groups.setdefault((kind, each.dialect or "", each.versions), []).append(each)
        rows: list[Row] = [
            [
                name(kind),
                name(dialect, missing="-"),
                name(versions, missing="-"),
                wording.count(len(same)),
                wording.count(sum(each.records for each in same)),
                wording.size(sum(each.size for each in same)),
            ]
            for (kind, dialect, versions), same in sorted(groups.items())
        ]
        if rows:
            columns = [Column("kind"), Column("dialect", 1), Column("pi versions"), Column("files"), Column("records")]
            total: Row = [
                words("total"),
                words(""),
                words(""),
                wording.count(len(self._result.files)),
                wording.count(sum(each.records for each in self._result.files)),
                wording.size(sum(each.size for each in self._result.files)),
            ]
            show(self._console, "Files", [*columns, Column("size", 2)], rows, total)

    def _wrong(self) -> Iterator[tuple[str, list[str]]]:
        """Yield findings by their sort."""
        files = self._result.files
        readable = [each for each in files if not each.unreadable]
        ours = [each for each in readable if each.kind != FOREIGN]
        yield "Files that cannot be read", [printable(each.unreadable) for each in files if each.unreadable]
        yield (
            "Lines that gave no record",
            [
                f"{printable(each.path)}:{reject.line}: {_REASONS.get(reject.reason, reject.reason)}"
                for each in ours
                for reject in each.rejects
            ],
        )
        yield (
            "Odd clocks",
            [
                f"{printable(each.path)}: {what}: {number:,}"
                for each in ours
                for what, number in sorted(each.clock.items())
            ],
        )
        yield (
            "Files without one record of pi (move them out of the folder)",
            [printable(each.path) for each in readable if each.kind == FOREIGN],
        )

    def _notes(self) -> list[str]:
        result = self._result
        notes = []
        unknown: Counter[str] = Counter()
        for each in result.files:
            if each.kind != FOREIGN:
                unknown.update(each.unknown)
        types: Counter[str] = Counter()
        for each in result.files:
            types.update(each.unknown_types if each.kind != FOREIGN else {})
        if unknown:
            kinds = ", ".join(f"{kind.replace('_', ' ')} {number:,}" for kind, number in sorted(unknown.items()))
            holder = next(each.path for each in result.files if each.unknown and each.kind != FOREIGN)
            named = f"; record types {', '.join(printable(each) for each in sorted(types))}" if types else ""
            notes.append(f"unknown to this version of pimetrics: {kinds}{named} (first in {printable(holder)})")
        notes += [
            f"{printable(each.path)} is a copy of {printable(each.copy_of)}; what both hold counts once"
            for each in result.files
            if each.copy_of
        ]
        if result.shared:
            notes.append(
                "sessions in several files (stream and session file, or two processes with one id): "
                f"{len(result.shared):,}; usage rows met again, which count once: {result.repeated:,}"
            )
        notes += [
            f"{printable(each.path)} was written by {each.versions.replace('several,', 'several versions of pi,')}"
            for each in result.files
            if each.versions.startswith("several")
        ]
        if result.tool_cost_usd and result.child_sessions:
            cost = wording.usd(pico(result.tool_cost_usd))
            notes.append(
                f"tools reported {cost}, and sessions with a parent are there ({result.child_sessions:,}): the same "
                "spending may stand in both, so report shows what tools reported beside the cost"
            )
        headers = sum(each.kind == HEADER_ONLY for each in result.files)
        if headers:
            notes.append(f"files with a session header only, in which nothing was asked yet: {headers:,}")
        return notes

    def _list(self, title: str, lines: list[str], style: str) -> None:
        if not lines:
            return
        self._console.print()
        paragraph(self._console, title, f"bold {style}")
        for line in lines[:_MOST_LINES]:
            paragraph(self._console, line, indent="  ")
        if len(lines) > _MOST_LINES:
            paragraph(self._console, f"{len(lines) - _MOST_LINES:,} more with --json", "dim", indent="  ")


_REASONS: Final = {
    "invalid_json": "no JSON (invalid_json)",
    "not_object": "JSON, but no object (not_object)",
    "invalid_utf8": "bytes that are no UTF-8 (invalid_utf8)",
    "nul_padding": "only NULs, as a crash leaves them (nul_padding)",
    "truncated": "the last line is cut off (truncated)",
    "too_long": "longer than any line that is read (too_long)",
}
