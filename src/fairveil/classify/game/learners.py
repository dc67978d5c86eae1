"""Public configurations of the paper's learners: `exponential-fair`, `private-game`, `fair-nr`, `private-fair-nr`."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Strict

from fairveil.classify.fair.accounting import NeighboursName, Plan
from fairveil.classify.game.exponential import Printed, Sound
from fairveil.classify.game.hypotheses import PUBLIC, UNIT, HypothesesName
from fairveil.classify.learner import ONE_ROW, BoundedLearner, Public, estimator_class
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.fairness.subgroups import Kind
from fairveil.fields import Count, Delta, Epsilon, NonNegative, Positive, described
from fairveil.privacy.conversions import zcdp_rho
from fairveil.privacy.events import ApproximateEvent, Event, ZcdpEvent
from fairveil.privacy.guarantee import Guarantee, Neighbours
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.registry import register

Attributes = dict[str, Annotated[tuple[str, ...], Strict(False)]]
Errors = Literal["false-positives", "false-negatives"]
FALSE_POSITIVES: Errors = "false-positives"
SCORE_SHARE = 0.6
"""Part of epsilon that pays for the private score under threshold pairs."""
PICKS: dict[str, type[Sound] | type[Printed]] = {"sound": Sound, "printed": Printed}
_rho = lru_cache(maxsize=64)(zcdp_rho)


class GameLearner(BoundedLearner):
    """What the four share: public names, a bound on the norm, and an estimator with the same parameters."""

    longterm = False
    attributes: dict[str, tuple[str, ...]] | None

    def with_public(self, public: Public) -> GameLearner:
        return self.told(norm_bound=public.norm_bound, attributes=dict(public.attributes) or None)


class FiniteLearner(GameLearner):
    """A private choice from a finite class; threshold pairs stand on a private score and read the group."""

    hypotheses: HypothesesName
    epsilon: float

    @property
    def over_score(self) -> bool:
        return self.hypotheses == "threshold-pairs"

    @property
    def reads_group(self) -> bool:
        return self.over_score

    @property
    def clips_rows(self) -> bool:
        return self.over_score

    def spent(self, fits: int) -> float:
        return fits * self.epsilon


@register("learner", "exponential-fair")
@configuration
class ExponentialFair(FiniteLearner):
    """Pick one rule of a finite class by unfairness plus error with the exponential mechanism (Algorithm 1).

    Guarantee (sound): epsilon-DP, pure, for one row taken out or replaced; over a private score (threshold-pairs)
    (epsilon, delta)-DP for one row taken out. ``epsilon`` is the total. ``variant="printed"``: not established.
    Cost: one pass over the rows for each hypothesis; memory O(hypotheses x groups).

    >>> ExponentialFair(epsilon=1.0).guarantee().definition.value
    'pure'

    Reference: Cummings, Gupta, Kimpara and Morgenstern (2019), Algorithm 1; docs/errata/fair-private-classification.md.
    """

    made = "fairveil.classify.game.estimators.ExponentialFairClassifier"
    epsilon: Epsilon = described("total budget", example=1.0)
    delta: Delta = described("for a private score alone", default=1e-5)
    hypotheses: HypothesesName = described("the finite class", default="stumps")
    count: Count = described("random linear rules", default=500)
    weight: Positive = described("weight of unfairness against error", default=1.0)
    neighbours: NeighboursName = described("whether a row is taken out or replaced", default="zero-out-row")
    variant: Literal["sound", "printed"] = described("the corrected or the published form", default="sound")
    norm_bound: Positive | None = described("public bound on a row's norm", default=None)
    attributes: Attributes | None = described("public categories by sensitive column", default=None)

    def __post_init__(self) -> None:
        if self.hypotheses == "threshold-pairs" and self.neighbours == "replace-row":
            raise SpecError(
                "a private score is for rows taken out", path="neighbours", given="replace-row", allowed="zero-out-row"
            )

    @property
    def pick_epsilon(self) -> float:
        return self.epsilon * (1 - SCORE_SHARE) if self.over_score else self.epsilon

    def score_plan(self) -> Plan:
        return score_plan(SCORE_SHARE * self.epsilon, self.delta, self.bound_of_features)

    def pick(self) -> Sound | Printed:
        """How the rule is picked, in this variant."""
        return PICKS[self.variant](self.pick_epsilon, self.weight, self.neighbours == "replace-row")

    def event(self) -> Event:
        return self.pick().event(self.epsilon, self.delta, over_score=self.over_score)

    def guarantee(self) -> Guarantee:
        return self.pick().guarantee(self.epsilon, self.delta, Neighbours(self.neighbours), over_score=self.over_score)


@register("learner", "private-game")
@configuration
class PrivateGame(FiniteLearner):
    """The fairness game over a finite class with private players: false positives of subgroups (sound Algorithm 3).

    Guarantee: rho-zCDP stated as (epsilon, delta), one row replaced; over a private score (threshold-pairs)
    (epsilon, delta)-DP for one row taken out.
    Cost: O(rounds x hypotheses x subgroups) after one pass over the rows for each hypothesis.

    >>> PrivateGame(epsilon=1.0, hypotheses="stumps").guarantee().definition.value
    'zcdp'

    Reference: Cummings, Gupta, Kimpara and Morgenstern (2019), Algorithm 3, corrected.
    """

    made = "fairveil.classify.game.estimators.PrivateGameClassifier"
    epsilon: Epsilon = described("total budget", example=1.0)
    delta: Delta = described("total delta", default=1e-5)
    rounds: Count = described("rounds of the game", default=60)
    bound: Positive = described("largest multiplier C", default=5.0)
    hypotheses: HypothesesName = described("the finite class", default="threshold-pairs")
    count: Count = described("random linear rules", default=500)
    norm_bound: Positive | None = described("public bound on a row's norm", default=None)
    attributes: Attributes | None = described("public categories by sensitive column", default=None)

    @property
    def rho(self) -> float:
        if self.over_score:
            return _rho((1 - SCORE_SHARE) * self.epsilon, self.delta / 2)
        return _rho(self.epsilon, self.delta)

    def score_plan(self) -> Plan:
        return score_plan(SCORE_SHARE * self.epsilon, self.delta / 2, self.bound_of_features)

    def event(self) -> Event:
        return ApproximateEvent(self.epsilon, self.delta) if self.over_score else ZcdpEvent(self.rho)

    def guarantee(self) -> Guarantee:
        facts: dict[str, Any] = {"model": "global", "unit": UNIT, "notes": (PUBLIC, ONE_ROW)}
        if self.over_score:
            return Guarantee.approximate(self.epsilon, self.delta, neighbours=Neighbours.ZERO_OUT_ROW, **facts)
        return Guarantee.zcdp(self.rho, self.delta, neighbours=Neighbours.REPLACE_ROW, **facts)


@register("learner", "fair-nr")
@configuration
class FairNR(GameLearner):
    """FairNR: follow the perturbed leader against the worst subgroup's false positives. No privacy.

    ``oracle``: ``least-squares``, ``exact`` (over the stumps of the encoded columns) or ``logistic``. ``subgroups``:
    the auditor's oracle answers exactly over the groups, their intersections or all linear thresholds of attributes.
    Cost: O(rounds x plays x rows x columns); memory O(rows x columns + rounds x plays x columns).

    Reference: Kearns, Neel, Roth and Wu (2018).
    """

    made = "fairveil.classify.game.no_regret.FairNRClassifier"
    longterm = True
    rounds: Count = described("rounds T", default=300)
    plays: Count = described("plays a round", default=3)
    bound: Positive = described("largest multiplier C", default=10.0)
    alpha: NonNegative = described("violation that the auditor tolerates", default=0.001)
    oracle: Literal["least-squares", "exact", "logistic"] = described("the learner's oracle", default="least-squares")
    subgroups: Kind = described("class over which the auditor's oracle answers", default="intersections")
    errors: Errors = described(
        "errors that subgroups share; false negatives by flipped labels", default=FALSE_POSITIVES
    )
    norm_bound: Positive | None = described("public bound on a row's norm", default=None)
    attributes: Attributes | None = described("public categories by sensitive column", default=None)

    def estimator(self, noise: Noise, rng: Generator) -> Any:
        return estimator_class(self.made)(**self.parameters(), random_state=int(rng.integers(2**31)))


@register("learner", "private-fair-nr")
@configuration
class PrivateFairNR(GameLearner):
    """Private-FairNR as printed (Algorithm 3). Its claim is not established; for the record and its audit only.

    Reference: Cummings, Gupta, Kimpara and Morgenstern (2019); docs/errata/fair-private-classification.md.
    """

    made = "fairveil.classify.game.no_regret.PrivateFairNRClassifier"
    epsilon: Epsilon = described("claimed budget", example=1.0)
    delta: Delta = described("claimed delta", default=1e-5)
    rounds: Count = described("rounds T", default=30)
    plays: Count = described("plays a round", default=3)
    bound: Positive = described("largest multiplier C", default=10.0)
    alpha: NonNegative = described("violation that the auditor tolerates", default=0.001)
    oracle: Literal["least-squares", "exact", "logistic"] = described("the learner's oracle", default="least-squares")
    subgroups: Kind = described("class over which the auditor's oracle answers", default="intersections")
    errors: Errors = described(
        "errors that subgroups share; false negatives by flipped labels", default=FALSE_POSITIVES
    )
    variant: Literal["printed"] = described("there is no sound form of this one", default="printed")
    norm_bound: Positive | None = described("public bound on a row's norm", default=None)
    attributes: Attributes | None = described("public categories by sensitive column", default=None)

    def event(self) -> Event:
        return ApproximateEvent(self.epsilon, self.delta)

    def spent(self, fits: int) -> float:
        return fits * self.epsilon

    def guarantee(self) -> Guarantee:
        why = (
            "the oracle reads raw features, the noise is for one round of costs where a sum of all is used, and the "
            "auditor reads exact rates"
        )
        return Guarantee.approximate(
            self.epsilon, self.delta, model="global", unit=UNIT, neighbours=Neighbours.REPLACE_ROW, established=False,
            notes=(why, ONE_ROW),
        )  # fmt: skip


def score_plan(epsilon: float, delta: float, norm_bound: float) -> Plan:
    """A private score and nothing else, for one row taken out."""
    return Plan(epsilon, delta, math.hypot(norm_bound, 1.0), count_share=0.0)
