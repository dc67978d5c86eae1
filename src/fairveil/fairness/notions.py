"""The one vocabulary of group fairness: what is to be equal between groups, and what every package calls it.

Classifiers constrain rates by label, fairlearn has a class for the same constraint, the models of `fairveil.dynamics`
link thresholds, and pictures and claims say it in words. A new notion is one row here, its gap in
`fairveil.fairness.metrics`, and its level in `fairveil.dynamics.problem` where thresholds can keep to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fairveil.arrays import Floats
from fairveil.errors import SpecError, did_you_mean

Model = Literal["participation", "qualification", "strategic"]
EVERYWHERE: tuple[Model, ...] = ("participation", "qualification", "strategic")


@dataclass(frozen=True)
class Notion:
    """One notion. An empty name says that a package does not have it.

    >>> Notion.of("equalized-odds").labels, Notion.of("equalized-odds").optimizer
    (((1,), (0,)), 'equalized_odds')
    """

    name: str
    words: str
    """In pictures and claims; no two notions share them."""
    labels: tuple[tuple[int, ...], ...] = ()
    """One constraint for each entry, over the people of these labels; empty where rates do not say it."""
    short: str = ""
    """Constraint of ``fair-reductions``."""
    fairlearn: str = ""
    """Class of `fairlearn.reductions`."""
    rule: str = ""
    """``fairness`` of a dynamics spec."""
    rate: str = ""
    """``rate`` of a dynamics spec, where ``rule`` alone does not say which."""
    models: tuple[Model, ...] = ()
    """Models of the dynamics that have the rule."""
    cutoffs: str = ""
    """Criterion of ``participation-trained``. Equal false negatives are equal true positives."""
    thesis: str = ""
    """Short name in the thesis. Its EqOpt equalises false positives in chapter 4 and true positives after that."""

    @classmethod
    def of(cls, name: str) -> Notion:
        """The notion that a classifier is to keep to."""
        known = {notion.name: notion for notion in NOTIONS if notion.classifies}
        if name not in known:
            raise SpecError(
                "the fairness notion is not known", path="fairness", given=name, allowed=", ".join(known),
                fix=did_you_mean(name, tuple(known)),
            )  # fmt: skip
        return known[name]

    @property
    def classifies(self) -> bool:
        """Whether a classifier can be asked to keep to it."""
        return bool(self.labels) or self.rule == "none"

    @property
    def parity(self) -> bool:
        """Acceptance of everybody, whatever the label."""
        return self.labels == ((0, 1),)

    @property
    def level(self) -> str:
        """What thresholds share in the dynamics: nothing, a rate, the loss; a key of `fairveil.dynamics.problem`."""
        return self.rate or self.rule

    @property
    def optimizer(self) -> str:
        """Constraint of fairlearn's threshold optimizer."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self.fairlearn).lower()

    def sizes(self, sizes: Floats) -> Floats:
        """How many people of each group the notion is about, from sizes by group and label."""
        return np.min([sizes[:, list(labels)].sum(axis=1) for labels in self.labels], axis=0)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A stored notion is its name: what 0.1.0 stored knew labels and nothing else."""
        self.__dict__.update(vars(Notion.of(state["name"])))


NOTIONS = (
    Notion("none", "no constraint", rule="none", models=EVERYWHERE, thesis="UN"),
    Notion(
        "simple", "one common threshold", rule="simple", models=("participation", "qualification"), cutoffs="simple",
        thesis="Simple",
    ),
    Notion(
        "demographic-parity", "demographic parity", ((0, 1),), "dp", "DemographicParity", rule="dp", models=EVERYWHERE,
        thesis="DP",
    ),
    Notion(
        "equal-opportunity", "equal opportunity", ((1,),), "eqopt", "TruePositiveRateParity", rule="eqopt", rate="tpr",
        models=EVERYWHERE, cutoffs="fnr", thesis="EqOpt",
    ),
    Notion("equalized-odds", "equalized odds", ((1,), (0,)), "odds", "EqualizedOdds"),
    Notion(
        "false-positive", "equal false positives", ((0,),), "fp", "FalsePositiveRateParity", rule="eqopt", rate="fpr",
        models=EVERYWHERE, cutoffs="fpr", thesis="EqOpt",
    ),
    Notion("equal-loss", "equal loss", rule="eqloss", models=("participation",), cutoffs="eqloss", thesis="EqLos"),
    Notion("equal-loss-above", "equal loss, upper thresholds", rule="eqloss-above", models=("participation",)),
)  # fmt: skip


def by_constraint(short: str) -> Notion:
    """The notion that ``fair-reductions`` calls so."""
    return next(notion for notion in NOTIONS if notion.short == short)


def by_rule(rule: str, rate: str = "tpr") -> Notion:
    """The notion of a dynamics spec; ``eqopt`` equalises the rate named second. A rate alone names its notion, too.

    >>> by_rule("eqopt", "fpr").words
    'equal false positives'
    """
    for notion in NOTIONS:
        if notion.rule and rule in (notion.rule, notion.rate) and (rule != "eqopt" or notion.rate == rate):
            return notion
    allowed = ", ".join(dict.fromkeys(name for notion in NOTIONS for name in (notion.rule, notion.rate) if name))
    raise SpecError("this is not a fairness criterion", path="fairness", given=rule, allowed=allowed)


def by_cutoffs(criterion: str) -> Notion:
    """The notion of a criterion of ``participation-trained``."""
    return next(notion for notion in NOTIONS if notion.cutoffs == criterion)


def rules(model: Model) -> tuple[str, ...]:
    """What ``fairness`` may be in specs of a model of the dynamics."""
    return tuple(dict.fromkeys(notion.rule for notion in NOTIONS if model in notion.models))


def thesis_words(rate: str) -> dict[str, str]:
    """Short names of the thesis in words, where its EqOpt equalises this rate."""
    return {notion.thesis: notion.words for notion in NOTIONS if notion.thesis and notion.rate in ("", rate)}


if TYPE_CHECKING:
    FairnessName = str
    ConstraintName = str
    CutoffsName = str
    ParticipationRule = str
    QualificationRule = str
    StrategicRule = str
else:
    FairnessName = Literal[tuple(notion.name for notion in NOTIONS if notion.classifies)]
    ConstraintName = Literal[tuple(notion.short for notion in NOTIONS if notion.short)]
    CutoffsName = Literal[tuple(notion.cutoffs for notion in NOTIONS if notion.cutoffs)]
    ParticipationRule, QualificationRule, StrategicRule = (Literal[rules(model)] for model in EVERYWHERE)
RateName = Literal["tpr", "fpr"]
