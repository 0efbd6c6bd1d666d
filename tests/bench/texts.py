"""Texts for generated streams: JSON-escaped pieces, drawn from pools that are made once.

A text is a list of pieces (the deltas in which a model sends it), each already escaped for a JSON string. Slices of
pools made once cost a fraction of drawing each word, which is what lets the generator keep ahead of the readers.
"""

from __future__ import annotations

import base64
from random import Random
from typing import Final

# Words of the recordings' length, and pieces that a careless reader trips over: escapes, raw line separators, records
# inside strings.
_WORDS: Final = [
    word + " "
    for word in (
        "The report lists every item that the shop keeps in stock with its price in pence and the day it came. "
        "Each line is read once, checked against the list, and added to the sum of the week without rounding. "
        "Nothing is written back before all of them agree."
    ).split()
]
_TRAPS: Final = [
    "\\n", "\\n\\n", "- ", "`basket.py` ", "caf\u00e9 ", "\u4e94\u6708 ", "\U0001f34b ", '\\"so\\" ', "a\u2028b ", "C:\\\\shop ",
    '{\\"type\\":\\"message_end\\"} ', "\\u0000 ", "\\t", "\u0085",
]  # fmt: skip
HALVES: Final = (["\\ud83c"], ["\\ud83c", "\\udf4b"], ["\\udf4b "])
"""Half emojis as pi writes them when a model splits one over two deltas, or sends half of one."""

_POOL: Final = 8192
_MAX_SLICE: Final = 1200


class Texts:
    """Texts of one seed: short ones as in the recordings, or of the length of real work.

    Args:
        random: Where choices come from.
        halves: Whether one text in forty holds half an emoji, which strict JSON parsers refuse.
        long: Whether texts have the length of real work.
    """

    def __init__(self, random: Random, *, halves: bool, long: bool) -> None:
        self._random = random.random
        self._halves = halves
        words = random.choices(_WORDS * 6 + _TRAPS, k=_POOL + _MAX_SLICE)
        # Real models send several words a delta once they are fast; three keep long answers near real delta sizes.
        self._pieces = (
            ["".join(words[i : i + 3]) for i in range(0, len(words), 3)] * 3 if long else words
        )  # the same length either way, so slices need no other bounds
        self._lines = [
            f"row {i:05d}: sold {random.randrange(99)} of {random.choice(_WORDS)}at {random.randrange(999)}p\\n"
            for i in range(4000)
        ]
        self._signature = base64.b64encode(random.randbytes(6000)).decode()
        self.long = long

    def pieces(self, low: float, high: float) -> list[str]:
        """A text of `low` to `high` pieces; one in thirty is eighteen times as long, as in the recordings."""
        rnd = self._random
        count = low + (high - low) * rnd()
        if self.long:
            count *= 8
        elif rnd() < 0.033:
            count *= 18
        start = int(rnd() * _POOL)
        found = self._pieces[start : start + max(2, min(int(count), _MAX_SLICE))]
        if self._halves and rnd() < 0.025:
            at = int(rnd() * len(found))
            found[at:at] = HALVES[int(rnd() * 3)]
        return found

    def output(self) -> str:
        """What a tool printed: some lines, or 2 to 50 kB."""
        rnd = self._random
        # Squared, because most outputs are short and few reach pi's limit of 50 kB.
        count = int(50 + 1200 * rnd() ** 2) if self.long else 1 + int(13 * rnd())
        start = int(rnd() * (4000 - count))
        return "".join(self._lines[start : start + count])

    def signature(self) -> str:
        """The signature of a thinking block: base64, hundreds to thousands of characters in real work."""
        if not self.long:
            return "c2lnLWZvci10ZXN0cw=="
        return self._signature[: 400 + 4 * int(self._random() * 900)]


def joined(pieces: list[str]) -> str:
    """The whole text of its pieces; two halves that meet become the raw emoji, as in JavaScript."""
    return "".join(pieces).replace("\\ud83c\\udf4b", "\U0001f34b")
