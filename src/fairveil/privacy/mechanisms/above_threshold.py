"""Above-threshold (the sparse vector technique) done right: one noisy threshold, fresh query noise, one answer."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, Strict

from fairveil.arrays import Ints
from fairveil.configuration import configuration
from fairveil.errors import HorizonError
from fairveil.fields import Epsilon, Positive, described
from fairveil.privacy.grid import float_above, to_units, units_above
from fairveil.privacy.mechanisms.base import OnFineGrid, as_scores, as_vector, in_blocks
from fairveil.privacy.noise import Noise
from fairveil.registry import register
from fairveil.state import State


@register("mechanism", "above-threshold")
@configuration
class AboveThreshold(OnFineGrid):
    """Find the first of a stream of queries that exceeds a public threshold, for the price of one.

    Guarantee: epsilon-DP (pure) for the stopping time, for any number of queries, chosen adaptively.
    Sensitivity: one record changes each query by at most ``sensitivity``; with ``monotone`` it moves all of them in the
    same direction (running sums), and the query noise is halved.
    Proof: let s be the sensitivity in units (rounded up). The threshold noise z, drawn once, has scale 2 s/epsilon.
    Shifting z by s keeps every "below" below in the neighbouring world and costs epsilon/2; then only the last query
    must still be above, for which its own noise is shifted by 2 s (scale 4 s/epsilon), or by s if monotone (scale
    2 s/epsilon; when the queries fall, z need not be shifted at all): epsilon/2 more. Queries below the threshold are
    free. The answer is the stopping time alone: neither z nor a noisy query is published, and after one "above" the
    instance is used up.
    Cost: one draw a query, O(1) memory. The state holds z: keep it as secret as the data.

    >>> from fairveil.privacy.noise import SeededNoise
    >>> int(AboveThreshold(sensitivity=1.0, epsilon=1.0, threshold=50.0).release([0.0, 1.0, 100.0], SeededNoise(1)))
    2

    Reference: Dwork and Roth 2014, section 3.6; Lyu, Su and Li 2017.
    """

    sensitivity: Positive = described("how far one answer may move between neighbours", example=1.0)
    epsilon: Epsilon = described("budget of the whole stream, up to the first answer above", example=1.0)
    threshold: Annotated[float, Strict(), Field(allow_inf_nan=False)] = described(
        "public value that answers are compared with", example=10.0
    )
    monotone: bool = described(
        "whether every score moves in one direction between neighbours (then half the noise does)", default=False
    )

    @cached_property
    def threshold_scale(self) -> float:
        return float_above(2 * units_above(self.sensitivity, self.bits) / Fraction(self.epsilon))

    @cached_property
    def query_scale(self) -> float:
        factor = 2 if self.monotone else 4
        return float_above(factor * units_above(self.sensitivity, self.bits) / Fraction(self.epsilon))

    def start(self, noise: Noise) -> State:
        """Draw the noisy threshold, once."""
        limit = to_units(self.threshold, self.bits) + noise.laplace(self.threshold_scale)
        return {"limit": limit, "open": np.ones(1, bool)}

    def ask(self, state: State, value: float, noise: Noise) -> tuple[State, bool]:
        """Is this query above? After the first yes the instance refuses every further question."""
        if not state["open"][0]:
            raise HorizonError(
                "this threshold has been passed", path="state", fix="start a new instance and charge for it"
            )
        units = to_units(as_vector(value, 1), self.bits)
        above = bool((units + noise.laplace(self.query_scale) >= state["limit"])[0])
        return {"limit": state["limit"].copy(), "open": np.array([not above])}, above

    def releases(self, value: ArrayLike, noise: Noise, count: int) -> Ints:
        """For each release the index of the first query above, or the number of queries if none is."""
        units = to_units(as_scores(value), self.bits)

        def stops(size: int) -> Ints:
            limits = to_units(self.threshold, self.bits) + noise.laplace(self.threshold_scale, size)
            drawn = noise.laplace(self.query_scale, size * len(units)).reshape(size, len(units))
            above = units + drawn >= limits[:, None]
            return np.where(above.any(1), above.argmax(1), len(units))

        return in_blocks(stops, count, len(units))
