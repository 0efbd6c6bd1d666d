"""Texts for generated streams: JSON-escaped pieces, drawn from pools that are made once.

A text is a list of pieces (the deltas in which a model sends it), each already escaped for a JSON string. Whole texts
are drawn from pools made once, which is what lets the generator keep ahead of the readers.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from tests.bench.parts import joined, text_block, thinking_block

if TYPE_CHECKING:
    from random import Random

# Words of the recordings' length, and pieces that a careless reader trips over: escapes, raw line separators, records
# inside strings.
_PROSE: Final = (
    "The report lists every item that the shop keeps in stock with its price in pence and the day it came. "
    "Each line is read once, checked against the list, and added to the sum of the week without rounding. "
    "Nothing is written back before all of them agree."
)
_WORDS: Final = [word + " " for word in _PROSE.split()]
_TRAPS: Final = [
    "\\n", "\\n\\n", "- ", "`basket.py` ", "caf\u00e9 ", "\u4e94\u6708 ", "\U0001f34b ", '\\"so\\" ', "a\u2028b ", "C:\\\\shop ",
    '{\\"type\\":\\"message_end\\"} ', "\\u0000 ", "\\t", "\u0085",
]  # fmt: skip
HALVES: Final = (["\\ud83c"], ["\\ud83c", "\\udf4b"], ["\\udf4b "])
"""Half emojis as pi writes them when a model splits one over two deltas, or sends half of one."""

_WORDS_DRAWN: Final = 8192
_MAX_PIECES: Final = 1200
_POOL: Final = 512


class Texts:
    """Texts of one seed: short ones as in the recordings, or of the length of real work.

    Args:
        random: Where choices come from.
        halves: Whether one text in twenty holds half an emoji, which strict JSON parsers refuse.
        long: Whether texts have the length of real work.
    """

    def __init__(self, random: Random, *, halves: bool, long: bool) -> None:
        self._random = random
        self._halves = halves
        self._long = long
        words = random.choices(_WORDS * 6 + _TRAPS, k=_WORDS_DRAWN + _MAX_PIECES)
        # Real models send several words a delta once they are fast; three keep long answers near real delta sizes.
        self._words = ["".join(words[i : i + 3]) for i in range(0, len(words), 3)] * 3 if long else words
        lines = [
            f"row {i:05d}: sold {random.randrange(99)} of {random.choice(_WORDS)}at {random.randrange(999)}p\\n"
            for i in range(4000)
        ]
        signature = base64.b64encode(random.randbytes(3000)).decode()
        self.questions = [joined(self._pieces(3, 14)) for _ in range(_POOL)]
        self.texts = [text_block(self._pieces(2, 31)) for _ in range(_POOL)]
        self.thoughts = [
            thinking_block(
                self._pieces(8, 44),
                signature[: 400 + 4 * random.randrange(900)] if long else "c2lnLWZvci10ZXN0cw==",
            )
            for _ in range(_POOL)
        ]
        self.outputs = [self._output(lines) for _ in range(_POOL)]
        """What tools printed: some lines, or 2 to 50 kB."""
        self.files = [output[:8000].rpartition("\\n")[0] or "n" for output in self.outputs]
        """What goes into a file that a tool writes."""

    def _pieces(self, low: int, high: int) -> list[str]:
        """A text of `low` to `high` pieces; one in thirty is eighteen times as long, as in the recordings."""
        random = self._random
        count = random.uniform(low, high)
        if self._long:
            count *= 8
        elif random.random() < 0.033:
            count *= 18
        start = random.randrange(_WORDS_DRAWN)
        found = self._words[start : start + max(2, min(int(count), _MAX_PIECES))]
        if self._halves and random.random() < 0.05:
            at = random.randrange(len(found))
            found[at:at] = random.choice(HALVES)
        return found

    def _output(self, lines: list[str]) -> str:
        random = self._random
        # Squared, because most outputs are short and few reach pi's limit of 50 kB.
        count = int(50 + 1200 * random.random() ** 2) if self._long else random.randrange(1, 14)
        start = random.randrange(len(lines) - count)
        return "".join(lines[start : start + count])
