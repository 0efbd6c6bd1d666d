"""The colours of charts, measured: contrast with the ground, and distance from each other in colour-blind eyes."""

from __future__ import annotations

from itertools import combinations

import pytest

from pimetrics.plots.theme import DARK, LIGHT, Theme

Vector = tuple[float, float, float]

SEEING = {
    "full colour vision": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}
"""What becomes of linear RGB (Machado, Oliveira and Fernandes 2009, severity 1)."""

LEAST_DISTANCE = 14
"""CIE76; about 2.3 is the smallest difference that is seen at all."""


def linear(colour: str) -> Vector:
    """Return linear RGB, 0 to 1."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return red, green, blue


def luminance(rgb: Vector) -> float:
    return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG, 1 to 21."""
    low, high = sorted((luminance(linear(one)), luminance(linear(other))))
    return (high + 0.05) / (low + 0.05)


def seen(colour: str, eyes: str) -> Vector:
    """Return CIE Lab of a colour as these eyes see it."""
    r, g, b = (min(1.0, max(0.0, sum(m * v for m, v in zip(row, linear(colour), strict=True)))) for row in SEEING[eyes])

    def f(t: float) -> float:
        return t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116

    x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505
    y = luminance((r, g, b))
    z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089
    return 116 * f(y) - 16, 500 * (f(x) - f(y)), 200 * (f(y) - f(z))


def distance(one: str, other: str, eyes: str) -> float:
    return sum((a - b) ** 2 for a, b in zip(seen(one, eyes), seen(other, eyes), strict=True)) ** 0.5


@pytest.mark.parametrize("eyes", list(SEEING))
@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_categories_can_be_told_apart(theme: Theme, eyes: str) -> None:
    """Any two colours of a palette, and the grey of the rest, differ for every kind of eyes."""
    pairs = combinations([*theme.palette, theme.other], 2)
    assert min(distance(one, other, eyes) for one, other in pairs) > LEAST_DISTANCE


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_everything_stands_out_from_the_ground(theme: Theme) -> None:
    """Texts have the contrast that WCAG asks of texts, marks nearly that of graphics."""
    assert contrast(theme.ink, theme.ground) > 7
    assert contrast(theme.dim, theme.ground) > 4.5
    assert min(contrast(each, theme.ground) for each in (*theme.palette, theme.other)) > 2.7


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_every_colour_is_its_own(theme: Theme) -> None:
    """No two colours of a theme are equal, so one theme can be translated into the other."""
    assert len(set(theme.colours())) == len(theme.colours())


def test_the_measure_measures() -> None:
    """Red and green of one lightness are near for those who cannot tell them apart, and far for the rest."""
    assert distance("#c00000", "#5f6a00", "deuteranopia") < distance("#c00000", "#5f6a00", "full colour vision") / 2
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
