"""What the three selection mechanisms share: scores on an integer grid and an integer scale."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property

from numpy.typing import ArrayLike

from fairveil.privacy.grid import to_units
from fairveil.privacy.mechanisms.base import Mechanism, as_scores
from fairveil.privacy.mechanisms.exact import grid_bits, units_above
from fairveil.privacy.noise import Ints


class Selection(Mechanism):
    """Base of mechanisms that pick one of several candidates with a high score.

    Scores are rounded toward zero to a grid on which both the sensitivity and the scale are at least 2^20 units;
    rounding moves two scores apart by at most the sensitivity in units, rounded up. The scale is an integer number of
    units, rounded up. Scores beyond 2^61 units saturate, which brings no two of them further apart.
    """

    sensitivity: float
    epsilon: float
    monotone: bool

    @property
    def _factor(self) -> int:
        # changing one record moves every score by up to the sensitivity, and the best one the other way;
        # monotone scores all move in one direction, so the gap to the best moves by one sensitivity only
        return 1 if self.monotone else 2

    @cached_property
    def bits(self) -> int:
        """Scores are counted in units of 2^-bits."""
        return grid_bits(self.sensitivity, Fraction(self.sensitivity) / Fraction(self.epsilon))

    @cached_property
    def scale_units(self) -> int:
        """factor * sensitivity / epsilon in units, rounded up to an integer."""
        units = self._factor * units_above(self.sensitivity, self.bits)
        return units_above(Fraction(units) / Fraction(self.epsilon), 0)

    def _units(self, scores: ArrayLike) -> Ints:
        return to_units(as_scores(scores), self.bits)

    def _gaps(self, scores: ArrayLike) -> Ints:
        """Distance of each score to the best one, in units: at least 0, and below 2^63 because scores saturate."""
        units = self._units(scores)
        return units.max() - units
