"""Which sums one release holds, and how far one unit of privacy can move them: the table of sensitivities.

The unit is one place: its row is replaced by any other row that its public facts allow. All sums of a release are one
vector, in units of 2^-20; y is mapped to [0, 1] and centred, c = y - 1/2, so that |c| <= 2^19 units exactly.

| part | one row changes | l1 | l2^2 |
|---|---|---|---|
| `chosen` A_g | one winner less here, one more there | 2 | 2 |
| `reward` Q_g = sum of c | the winner (g, y) becomes (g', y'): |c| + |c'|; in one cell |c - c'| | 1; 1 | 1/2; 1 |
| `answered` N_g | as `chosen`; in one cell (c -> no answer): 1 and |c| | 2; 3/2 with Q | 2; 5/4 with Q |
| `shown` S_g | at most m candidates become m others | 2 m | 2 m^2 |
| `rounds` n_g, with `shown` | their groups become others of the G there are | min(2 m, G) | 2 |
| `played` E_g, `deserved` M_g | a point of the simplex moves to another | 2 each | 2 each |

Candidates of one group that become candidates of s others move S_g by m^2 + (m - s + 1)^2 + s - 1 in the square at most
and n_g by 1 + s: together that is largest at s = 1. A move between groups and a change inside one cell are two cases;
the sensitivity is the larger one. Where groups and arms are public, only the second is possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

from fairveil.privacy.encodings import RowEncoding
from fairveil.privacy.vectors import ONE

Part = Literal["chosen", "answered", "reward", "shown", "rounds", "played", "deserved"]
HALF = Fraction(1, 2)
MOVES: dict[str, tuple[Fraction, Fraction]] = {
    "chosen": (Fraction(2), Fraction(2)),
    "answered": (Fraction(2), Fraction(2)),
    "reward": (Fraction(1), HALF),
    "played": (Fraction(2), Fraction(2)),
    "deserved": (Fraction(2), Fraction(2)),
}
"""l1 and squared l2 of each part when a row moves to another group."""


@dataclass(frozen=True)
class VectorLayout:
    """The parts of a release, each of ``cells`` numbers, in order; ``moves``: whether a row can change its group.

    ``most``: candidates of a place, where who was shown is in it.

    >>> VectorLayout(("chosen", "reward"), 4).l1 / ONE, VectorLayout(("chosen", "reward"), 4).square / ONE**2
    (3.0, 2.5)
    >>> VectorLayout(("reward",), 4, moves=False).square == ONE**2
    True
    """

    parts: tuple[Part, ...]
    cells: int
    moves: bool = True
    most: int = 1

    @property
    def dimension(self) -> int:
        return len(self.parts) * self.cells

    @cached_property
    def _cases(self) -> list[tuple[Fraction, Fraction]]:
        found = []
        if self.moves:
            each = [self._moved(part) for part in self.parts]
            found.append((sum(one for one, _ in each), sum(two for _, two in each)))
        if "reward" in self.parts:
            found.append((Fraction(1), Fraction(1)))
            if "answered" in self.parts:
                found.append((3 * HALF, Fraction(5, 4)))
        elif "answered" in self.parts:
            found.append((Fraction(1), Fraction(1)))
        return found  # type: ignore[return-value]

    def _moved(self, part: Part) -> tuple[Fraction, Fraction]:
        """l1 and squared l2 of a part when everything about a row changes."""
        if part == "shown":
            return Fraction(2 * self.most), Fraction(2 * self.most**2)
        if part == "rounds":
            return Fraction(min(2 * self.most, max(self.cells, 2))), Fraction(2)
        return MOVES[part]

    @property
    def l1(self) -> int:
        return int(max(one for one, _ in self._cases) * ONE)

    @property
    def square(self) -> int:
        return int(max(two for _, two in self._cases) * ONE**2)

    @property
    def encoding(self) -> RowEncoding:
        """What one place becomes."""
        return RowEncoding(self.l1, self.square, self.dimension, f"in the sums {', '.join(self.parts)} of its group")

    def slice(self, part: Part) -> slice | None:
        """Where a part stands in the vector; None where it is not in it."""
        if part not in self.parts:
            return None
        first = self.parts.index(part) * self.cells
        return slice(first, first + self.cells)
