"""Numbers as people read them: money, tokens, durations, shares, times."""

from __future__ import annotations

from datetime import datetime

from pimetrics.names import PICO
from pimetrics.reports.layout import Cell

NOTHING = Cell("-", "-", style="dim")
UNPRICED = "unpriced"


def count(number: int | None) -> Cell:
    """Show a whole number: 12,345,678, or 12.3M where there is no room."""
    if not number:
        return NOTHING if number is None else Cell("0", "0", style="dim")
    return Cell(f"{number:,}", compact(number))


def compact(number: float) -> str:
    """Show a number with three digits and K, M, G, T; up to 9,999 that would save nothing."""
    if abs(number) < 9999.5:
        return f"{number:,.0f}"
    for unit in "KMGT":
        number /= 1000
        if abs(number) < 999.5 or unit == "T":
            digits = 2 if abs(number) < 9.995 else 1 if abs(number) < 99.95 else 0
            return f"{number:.{digits}f}{unit}"
    raise AssertionError


def decimals(amounts_pico: list[int]) -> int:
    """Return how many decimals a column of money needs: two when its largest amount is ten dollars or more."""
    return 2 if max((abs(amount) for amount in amounts_pico), default=0) >= 10 * PICO else 4


def money(amount_pico: int, digits: int | None = None, *, no_price: int = 0, used: bool = True) -> Cell:
    """Show USD, and never $0 for what has no price.

    Args:
        amount_pico: Pico-dollars.
        digits: Decimals; None takes two from ten dollars on, four below.
        no_price: How much of it (usage rows) has tokens and no price.
        used: Whether anything was used; nothing is `-`.
    """
    if not amount_pico:
        return Cell(UNPRICED, UNPRICED, style="yellow") if no_price else NOTHING if not used else Cell("$0", "$0")
    text = usd(amount_pico, digits)
    return Cell(f"{text}+", f"{text}+") if no_price else Cell(text, text)


def usd(amount_pico: int, digits: int | None = None) -> str:
    """Show an amount of pico-dollars; less than the last decimal shows as that, with a < before it."""
    if digits is None:
        digits = decimals([amount_pico])
    least = PICO // 10**digits
    if 0 < amount_pico < least:
        return f"<${1 / 10**digits:.{digits}f}"
    return f"${amount_pico / PICO:,.{digits}f}"


def length(seconds: float | None) -> str:
    """Show a duration in the unit that reads best."""
    if seconds is None:
        return "-"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m"


def duration(seconds: float | None) -> Cell:
    """Show a duration in a table."""
    return NOTHING if seconds is None else Cell(length(seconds), length(seconds))


def size(number: int) -> Cell:
    """Show bytes."""
    if not number:
        return NOTHING
    text = f"{compact(number)}B"
    return Cell(text, text)


def share(part: float | None) -> Cell:
    """Show a share of one as percent."""
    if part is None:
        return NOTHING
    text = f"{part * 100:.1f}%"
    return Cell(text, text)


def moment(iso_time: str | None) -> Cell:
    """Show a local time (ISO 8601) to the minute."""
    if iso_time is None:
        return Cell("time unknown", "unknown", style="dim")
    when = datetime.fromisoformat(iso_time)
    return Cell(f"{when:%Y-%m-%d %H:%M}", f"{when:%Y-%m-%d %H:%M}")
