"""The value of other rules on the decisions of this one: all rules asked for in one release, with one budget.

Unit and neighbours as in a fairness report: one place. Every rule adds its pair of sums (of
`fairveil.evaluate.private`) to one vector; a row moves every pair, so m rules have m times the l1 and root-m times the
l2 sensitivity of one. The clip of a rule is W, the largest weight that the design of the logging rule allows: nothing
is cut off, and the interval holds what it says. A place at which a rule has no law (the caller named no baseline)
counts with weight 0.

With ``blanks`` a place may count for nobody: its reward is NaN, it is in no sum, and the number of the others is one
more noisy sum. A row that becomes blank moves the pair of a rule by |u| + k u^2 and the count by ``COUNT``: l1 at most
3/4 m + 1/5 <= m, squared l2 at most (1/4 + 3.33^2/16) m + 1/25 <= m, so the count costs nothing beside the pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from pydantic import Strict

from fairveil.arrays import Floats, Ints
from fairveil.configuration import configuration
from fairveil.data.logs import Log
from fairveil.errors import InputError, SpecError
from fairveil.evaluate.private import PrivateValue, with_gaussian, with_laplace
from fairveil.evaluate.targets import Target, importance
from fairveil.fields import Delta, Epsilon, OpenUnit, Positive, Vector, described
from fairveil.ledger import Ledger
from fairveil.ledger.account import OneEvent, adopted, release_once
from fairveil.privacy.encodings import ONE_ROW, RowEncoding, computed, noisy_vector
from fairveil.privacy.events import Event
from fairveil.privacy.guarantee import CHOSEN, Guarantee
from fairveil.privacy.noise import Noise
from fairveil.privacy.vectors import ONE, NoisyVector, Price
from fairveil.registry import build, register
from fairveil.reports.document import plain
from fairveil.reports.fairness import BLANK
from fairveil.reports.words import evaluation_words

Names = Annotated[tuple[str, ...], Strict(False)]
MOST_TARGETS = 8
COUNT = ONE // 5
"""What one place adds to the count of places that count for somebody, in grid units."""


@register("report", "evaluation")
@configuration
class Evaluation:
    """The values of up to eight rules from the decisions of another, with intervals.

    Guarantee: epsilon-DP, (epsilon, delta)-DP, rho-zCDP or mu-GDP for two tables of the same number of places that
    differ in one of them. Cost: two draws a rule.

    >>> from fairveil.privacy.noise import SeededNoise
    >>> arms = np.arange(4000) % 2
    >>> log = Log(("a", "b"), arms, np.where(arms == 1, 0.7, 0.3), np.full(4000, 0.5))
    >>> asked = Evaluation(("always b",), (2.0,), rho=0.05)
    >>> weights = asked.weights(log, {"always b": {"name": "arm", "arm": "b"}})
    >>> found = asked.release(weights, log.outcomes, SeededNoise(1))
    >>> found["targets"][0]["low"] < 0.7 < found["targets"][0]["high"]
    True
    """

    targets: Names = described("names of the rules that are valued", example=("uniform",))
    largest_weights: Vector = described("W of each rule: the largest weight the design allows", example=(4.0,))
    epsilon: Epsilon | None = described("budget of the whole release, Laplace noise", default=None, example=1.0)
    delta: Delta | None = described("chance that epsilon is exceeded: Gaussian noise", default=None)
    rho: Positive | None = described("budget in zCDP, instead of epsilon", default=None)
    mu: Positive | None = described("budget in Gaussian DP, instead of epsilon", default=None)
    level: OpenUnit = described("coverage of the intervals", default=0.95)
    low: float = described("smallest possible reward", default=0.0)
    high: float = described("largest possible reward", default=1.0)
    blanks: bool = described("a place may count for nobody (reward NaN), and nobody sees which", default=False)
    partial: Names = described("rules that have no law for some rows, which count with weight 0", default=())

    def __post_init__(self) -> None:
        if not 1 <= len(self.targets) <= MOST_TARGETS or len(self.targets) != len(self.largest_weights):
            raise SpecError(
                "every rule has a name and a largest weight", path="targets",
                given=(len(self.targets), len(self.largest_weights)), allowed=f"1 to {MOST_TARGETS} of each",
            )  # fmt: skip
        _ = self.values

    @cached_property
    def values(self) -> tuple[PrivateValue, ...]:
        budget: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho, "mu": self.mu}
        return tuple(PrivateValue(clip=w, largest_weight=w, **budget) for w in self.largest_weights)

    @property
    def price(self) -> Price:
        return self.values[0].price

    @cached_property
    def vector(self) -> NoisyVector:
        return noisy_vector(self.price, ONE_ROW, self.encoding)

    @cached_property
    def encoding(self) -> RowEncoding:
        """What one place becomes."""
        pairs = self.values[0].encoding(len(self.values))
        return replace(pairs, dimension=pairs.dimension + 1) if self.blanks else pairs

    def event(self) -> Event:
        return self.vector.event()

    def guarantee(self) -> Guarantee:
        return self.price.guarantee(
            model="global",
            unit="one place: one decision that is reported",
            neighbours="replace-row",
            notes=(
                f"public: the number of places{'' if self.blanks else ' and in how many of them a reward came'}, the "
                "rules and their largest weights, the range of rewards, the level",
                f"published: two noisy sums a rule{' and a noisy count' if self.blanks else ''}; values and intervals "
                "are computed from them",
                "a person who stands in several places has that many units",
                computed(ONE_ROW, self.encoding),
                CHOSEN,
                *((BLANK,) if self.blanks else ()),
            ),
        )

    def weights(self, log: Log, rules: Mapping[str, Target | dict[str, Any]]) -> Floats:
        """Weights of every rule on every row of a log, shape (rows, rules)."""
        columns = []
        for name in self.targets:
            rule = rules[name]
            held = rule if isinstance(rule, Target) else build("target", rule, f"targets.{name}")
            columns.append(importance(log, held.probabilities(log)))
        return np.stack(columns, axis=1)

    def units(self, weights: Floats, rewards: Floats) -> Ints:
        """The sums in grid units; they add up over pages of rows. Rewards in [0, 1]."""
        held = np.asarray(weights, np.float64)
        if held.ndim != 2 or held.shape[1] != len(self.targets):
            raise InputError("there is not one weight a rule", path="weights", allowed=f"{len(self.targets)} columns")
        if not self.blanks:
            return np.concatenate([value.units(held[:, at], rewards) for at, value in enumerate(self.values)])
        kept = ~np.isnan(rewards)
        pairs = [value.units(held[kept, at], rewards[kept]) for at, value in enumerate(self.values)]
        return np.concatenate([*pairs, [COUNT * kept.sum()]])

    def draws(self, weights: Floats, rewards: Floats, noise: Noise, count: int = 1) -> Floats:
        """The noisy sums of so many independent releases, one a row: the only step where noise meets data."""
        return self.vector.releases(self.units(weights, rewards), noise, count)

    def release(self, weights: Floats, rewards: Floats, noise: Noise) -> dict[str, Any]:
        """One noisy vector of these rows, and what it says."""
        return self.read(self.draws(weights, rewards, noise)[0], len(rewards))

    def release_under(self, ledger: Ledger, block: str, weights: Floats, rewards: Floats,
                      noise: Noise | None = None) -> dict[str, Any]:  # fmt: skip
        """The same through a ledger: charged first, drawn once under the id ``block``, stored; again it is free."""

        def draw(source: Noise) -> dict[str, Any]:
            return {"sums": self.draws(weights, rewards, source)[0], "places": len(rewards)}

        found = adopted(release_once(OneEvent(ledger, self.event()), block, draw, noise))
        return self.read(np.asarray(found["sums"], np.float64), int(found["places"]))

    def read(self, sums: Floats, places: int, answered: int | None = None) -> dict[str, Any]:
        """The document of a release: post-processing of its noisy sums.

        ``answered``: in how many places a reward came, where that is public; the others were left out of the sums, and
        values are means over those that are in. With ``blanks`` it is read from the noisy count.
        """
        std, rows, level = self.vector.std, [], self.level
        counted, reach = places if answered is None else answered, list[int]()
        if self.blanks:  # half of the level's error is the count's
            level = (1 + level) / 2
            counted, *reach = self._counted(float(sums[-1]), places, level)
        for at, (name, value) in enumerate(zip(self.targets, self.values, strict=True)):
            pair = sums[2 * at : 2 * at + 2]
            found = value.estimate(pair, max(counted, 1), level, std)
            if self.blanks:
                reached = [value.estimate(pair, one, level, std) for one in reach]
                found = replace(found, low=min(r.low for r in reached), high=max(r.high for r in reached))
            scaled = found.scaled(self.low, self.high)
            inside = [min(max(end, self.low), self.high) for end in (scaled.low, scaled.high)]
            rows.append({"name": name, "value": scaled.value, "low": inside[0], "high": inside[1],
                         "largest_weight": value.clip})  # fmt: skip
        table: dict[str, Any] = {
            "kind": "evaluation",
            "places": places,
            "answered": counted,
            "counted": "noisy" if self.blanks else "exact",
            "level": self.level,
            "noise": {
                "law": "laplace" if self.price.laplace else "gaussian",
                "std": std,
                "sums": self.encoding.dimension,
            },
            "charge": self.price.to_dict(),
            "guarantee": self.guarantee().to_dict(),
            "range": [self.low, self.high],
            "targets": rows,
            "partial": list(self.partial),
        }
        table["words"] = evaluation_words(table)
        found_plain: dict[str, Any] = plain(table)
        return found_plain

    def _counted(self, noisy: float, places: int, level: float) -> tuple[int, int, int]:
        """How many places count for somebody: about so many, and between these two at this level."""
        share, joined = COUNT / ONE, with_laplace if self.price.laplace else with_gaussian
        half = joined(0.0, self.vector.std, level)
        low, middle, high = (min(max(round((noisy + off) / share), 1), max(places, 1)) for off in (-half, 0.0, half))
        return middle, low, high

    def half_widths(self, places: int) -> list[float]:
        """Expected half-width for each rule before anything is drawn, on the scale of the rewards.

        The second moment of u is at most 1/(4 W), because weights have mean 1 and none is above W.
        """
        halves = []
        for value in self.values:
            second = float(value.square_factor) * places / (4 * value.clip)
            half = value.half_width(0.0, second, max(places, 1), self.level, self.vector.std)
            halves.append(half * (self.high - self.low))
        return halves

    def says_nothing(self, places: int) -> list[str]:
        """Rules whose expected interval is wider than the range of rewards."""
        halves = self.half_widths(places)
        return [name for name, half in zip(self.targets, halves, strict=True) if 2 * half > self.high - self.low]


def asked(names: Sequence[str], weights: Mapping[str, float], price: Price, level: float, low: float,
          high: float) -> Evaluation:  # fmt: skip
    """An evaluation of some declared rules."""
    budget: dict[str, Any] = price.to_dict()
    return Evaluation(tuple(names), tuple(weights[name] for name in names), level=level, low=low, high=high, **budget)
