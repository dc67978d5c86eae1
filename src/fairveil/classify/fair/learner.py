"""`private-fair`: the public configuration of private and fair classification."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field, Strict

from fairveil.classify.fair.accounting import NeighboursName, Plan
from fairveil.classify.learner import ONE_ROW, PlannedLearner, Public
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.fairness.notions import FairnessName, Notion
from fairveil.fields import Count, Delta, Epsilon, OpenUnit, Positive, described
from fairveil.privacy.events import Event
from fairveil.privacy.guarantee import Guarantee, Neighbours
from fairveil.registry import register

Rounds = Annotated[int, Strict(), Field(ge=20, le=100_000)]
Slack = Annotated[float, Strict(), Field(ge=0.0, lt=1.0, allow_inf_nan=False)]
Parts = Annotated[tuple[OpenUnit, OpenUnit, OpenUnit], Strict(False)]
Models = Annotated[int, Strict(), Field(ge=1, le=50)]
Names = Annotated[tuple[str, ...], Strict(False)]


@register("learner", "private-fair")
@configuration
class PrivateFair(PlannedLearner):
    """Private classification under a group fairness constraint: private score, noisy audits, plug-in margin.

    Guarantee: (epsilon, delta)-DP, global, one person's row with its group and label, taken out (zero-out-row) or
    replaced; over all ``retrainings``. The rule, the blocks and the report are covered.
    Cost: the Renyi curves of the fits and of all counts, added and converted once. An aware rule reads the group when
    it decides; a blind one never does, and pays for it where the features say little about the groups.
    Runtime: fit O(rows columns^2) a Newton step and O(rounds x rows) for the audits; memory O(rows).

    >>> PrivateFair(epsilon=1.0).guarantee().neighbours.value
    'zero-out-row'

    Reference: Cummings, Gupta, Kimpara and Morgenstern (2019) for the game; docs/guarantees/private-fair.md.
    """

    made = "fairveil.classify.fair.estimator.PrivateFairClassifier"
    epsilon: Epsilon = described("budget over all retrainings", example=1.0)
    delta: Delta = described("delta over all retrainings", default=1e-5)
    fairness: FairnessName = described("what is to be equal between groups", default="equal-opportunity")
    awareness: Literal["aware", "blind"] = described(
        "whether the rule reads the group when it decides", default="aware"
    )
    slack: Slack = described("gap that is tolerated", default=0.0)
    neighbours: NeighboursName = described("whether a row is taken out or replaced", default="zero-out-row")
    norm_bound: Positive | None = described("public bound on a row's norm; the encoding's own by default", default=None)
    groups: Names | None = described("public names of the groups; read from the data by default", default=None)
    randomised: bool = described("hand out the mixture of plays, or one play at their mean", default=True)
    classes: Annotated[tuple[Any, Any], Strict(False)] | None = described("the two public labels", default=(0, 1))
    rounds: Rounds = described("audits", default=Plan.rounds)
    count_share: OpenUnit = described("part of the budget for counts", default=Plan.count_share)
    count_parts: Parts = described("parts of the counts: zones, audits, report", default=Plan.count_parts)
    score_share: OpenUnit = described("blind: part of the rest that the score gets", default=Plan.score_share)
    block_models: Models = described("blind: most models of blocks", default=3)
    least: Positive = described("people in a block, in standard deviations of its noise", default=8.0)
    cap: Positive = described("largest multiplier", default=4.0)
    strength: Positive | None = described("regularisation; chosen from the budget by default", default=None)
    retrainings: Count | None = described("public number of fits the budget covers", default=None)
    rows: Count | None = described("public number of rows; the number given to fit by default", default=None)
    most_rows: Count | None = described("most rows that can come", default=None)

    def __post_init__(self) -> None:
        if not math.isclose(sum(self.count_parts), 1.0, abs_tol=1e-9):
            raise SpecError(
                "the parts of the counts do not sum to 1", path="count_parts", given=self.count_parts,
                allowed="three positive numbers with sum 1",
            )  # fmt: skip
        self.check_numbers()
        if self.groups is not None and len(set(self.groups)) != len(self.groups):
            raise SpecError("the names of the groups repeat themselves", path="groups", given=self.groups)
        self.check_groups(0 if self.groups is None else len(self.groups))
        plan = self.plan(2)
        if not math.isfinite(plan.strength) or plan.strength > 1e12:
            raise SpecError("this budget is too small for the grid", path="epsilon", given=self.epsilon)
        if self.fairness != "none" and max(plan.audit_sigma, plan.report_sigma(self.rounds)) > 2.0**50:
            raise SpecError("this budget is too small: the noise leaves the grid", path="epsilon", given=self.epsilon)

    @property
    def blind(self) -> bool:
        return self.awareness == "blind"

    @property
    def reads_group(self) -> bool:
        return self.fairness != "none" and not self.blind

    def check_groups(self, count: int) -> None:
        from fairveil.classify.people import MAX_GROUPS

        if count > MAX_GROUPS:
            raise SpecError("there are too many groups", path="groups", given=count, allowed=f"at most {MAX_GROUPS}")

    def plan(self, groups: int) -> Plan:
        """Noise and cost for this public number of groups."""
        counts = self.fairness != "none"
        return _plan(
            self.epsilon,
            self.delta,
            math.hypot(self.bound_of_features, 1.0),
            self.neighbours,
            self.fits,
            min(self.block_models, max(groups - 1, 0)) if self.blind and counts else 0,
            self.rounds,
            self.count_share if counts else 0.0,
            self.count_parts,
            self.score_share,
            self.strength,
        )

    def with_public(self, public: Public) -> PrivateFair:
        return self.told(groups=public.groups, norm_bound=public.norm_bound)

    def event(self) -> Event:
        return self.plan(2).event()

    def spent(self, fits: int) -> float:
        groups = 2 if self.groups is None else len(self.groups)
        return self.plan(groups).spent(fits)

    def guarantee(self) -> Guarantee:
        return Guarantee.approximate(
            self.epsilon,
            self.delta,
            model="global",
            unit="one person's row (features, group and label)"
            + ("" if self.fits == 1 else f" in all {self.fits} retrainings"),
            neighbours=Neighbours(self.neighbours),
            notes=_notes(self),
        )


@lru_cache(maxsize=64)
def _plan(*public: Any) -> Plan:
    return Plan(*public)


def _notes(learner: PrivateFair) -> tuple[str, ...]:
    notes = [
        "public: bounds and bins of the features, the two labels, the names of the groups; group sizes are read "
        "through noise only",
        "the rule is protected; a decision shown to a person also depends on that person's own features"
        + (" and group" if learner.reads_group else ""),
        ONE_ROW,
    ]
    if learner.fits > 1:
        notes.append(f"the budget is split over {learner.fits} retrainings; a person may be in every one")
    if learner.rows is None:
        notes.append("the number of rows is taken as public")
    else:
        notes.append(f"should more than {max(learner.rows, learner.most_rows or 0)} rows come, their number is public")
    if learner.groups is None and Notion.of(learner.fairness).labels:
        notes.append("the names of the groups are read from the data and taken as public")
    if learner.classes is None:
        notes.append("the two labels are read from y and taken as public")
    return tuple(notes)
