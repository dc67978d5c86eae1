"""The built-in learners: plain, private, and fair by reductions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

from fairveil.classify.fair.accounting import NeighboursName, zero_out_budget
from fairveil.classify.learner import ONE_ROW, Learner, PlannedLearner, Public, estimator_class, scikit_learn
from fairveil.classify.perturbation import Perturbation
from fairveil.configuration import configuration
from fairveil.errors import DependencyError, SpecError
from fairveil.fairness.notions import ConstraintName, FairnessName
from fairveil.fields import Count, Delta, Epsilon, NonNegative, Positive, described
from fairveil.privacy.calibration.fits import fit_mu
from fairveil.privacy.events import ApproximateEvent, Event
from fairveil.privacy.guarantee import Guarantee, Neighbours
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.registry import register


@register("learner", "logistic")
@configuration
class Logistic(Learner):
    """Logistic regression of scikit-learn, no privacy, no fairness.

    >>> Logistic().event().kind
    'nothing'
    """

    strength: Positive = described("regularisation", default=1.0)

    def estimator(self, noise: Noise, rng: Generator) -> Any:
        scikit_learn()
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(C=1 / self.strength, solver="newton-cholesky")


@register("learner", "fair-reductions")
@configuration
class FairReductions(Learner):
    """Logistic regression under a fairness constraint by fairlearn's exponentiated gradient, no privacy.

    ``constraint``: ``dp`` (equal acceptance rates), ``eqopt`` (equal true positive rates), ``odds`` (those and equal
    false positive rates) or ``fp`` (equal false positive rates alone), up to ``slack``.

    Reference: Agarwal, Beygelzimer, Dudik, Langford and Wallach (2018).
    """

    constraint: ConstraintName = described("what is made equal across groups", default="dp")
    slack: NonNegative = described("how far groups may differ", default=0.02)
    strength: Positive = described("regularisation of the classifiers", default=1.0)
    iterations: Count = described("rounds of the game against the constraint", default=30)

    def estimator(self, noise: Noise, rng: Generator) -> Any:
        return _with_fairlearn("ReductionsClassifier")(**vars(self))


@register("learner", "threshold-optimizer")
@configuration
class ThresholdOptimizer(Learner):
    """Logistic regression with a threshold per group by fairlearn's post-processing, no privacy. Reads the group.

    ``fairness`` is named as in ``private-fair``.

    Reference: Hardt, Price and Srebro (2016).
    """

    fairness: FairnessName = described("what is made equal across groups", default="equal-opportunity")
    strength: Positive = described("regularisation of the classifier", default=1.0)

    @property
    def reads_group(self) -> bool:
        return self.fairness != "none"

    def estimator(self, noise: Noise, rng: Generator) -> Any:
        return _with_fairlearn("ThresholdClassifier")(**vars(self))


@register("learner", "private-logistic")
@configuration
class PrivateLogistic(PlannedLearner):
    """Differentially private logistic regression by output or objective perturbation.

    Guarantee: (epsilon, delta)-DP, or epsilon-DP with ``definition="pure"``, over all ``retrainings`` together, for one
    person's row replaced (every variant's default) or, with ``neighbours="zero-out-row"``, taken out; a person may be
    in every retraining.
    Rows are clipped to ``norm_bound`` (left out: the encoding's own bound in a classify task, else 1); the solver's
    ``tolerance`` (relative to the row norm) is charged; left out, it is the least that the solver provably keeps on
    every data set of the public number of rows, and a smaller one is refused from public numbers: when the
    configuration is made, or once the numbers of rows and columns are known.
    Cost: mu^2 (or epsilon) is split equally over the retrainings. Fit O(n d^2) a Newton step.

    ``strength`` is the public regularisation; left out, it is chosen from the public number of rows, the budget and the
    width. ``rows`` fixes that number in advance and ``most_rows`` the largest that can come; left out, the number of
    rows given to ``fit`` is taken as public.

    >>> round(PrivateLogistic(epsilon=2.0, retrainings=4).guarantee().epsilon, 6)
    2.0

    Reference: Chaudhuri, Monteleoni and Sarwate (2011); Kifer, Smith and Thakurta (2012); docs/guarantees/classify.md.
    """

    epsilon: Epsilon = described("budget of all planned fits", example=1.0)
    delta: Delta = described("chance that the budget is exceeded", default=1e-5)
    method: Literal["output", "objective"] = described("noise on the result, or in the objective", default="objective")
    definition: Literal["gaussian", "pure"] = described(
        "Gaussian noise, or noise for a pure budget", default="gaussian"
    )
    norm_bound: Positive | None = described("public bound of a row's norm; longer rows are scaled down", default=None)
    intercept: bool = described("whether to fit a constant", default=True)
    strength: Positive | None = described("regularisation; chosen from public numbers when left out", default=None)
    tolerance: Positive | None = described(
        "how exactly the problem is solved; the finest provable when left out", default=None
    )
    rows: Count | None = described("public number of rows that noise is planned for", default=None)
    most_rows: Count | None = described("public bound on the number of rows", default=None)
    retrainings: Count | None = described("how many fits share the budget", default=None)
    neighbours: NeighboursName = described("what is hidden: a row's value, or that it is there", default="replace-row")

    def __post_init__(self) -> None:
        if self.tolerance is not None and self.tolerance > 0.1:
            raise SpecError("the tolerance is too loose", path="tolerance", given=self.tolerance, allowed="at most 0.1")
        self.check_numbers()
        self.perturbation(rows=1, width=1).check()

    @property
    def bound(self) -> float:
        """Norm of the longest row, with its intercept entry."""
        reach = self.bound_of_features
        return math.hypot(reach, 1.0) if self.intercept else reach

    def with_public(self, public: Public) -> PrivateLogistic:
        return self.told(norm_bound=public.norm_bound)

    @property
    def _steps(self) -> tuple[int, float, float]:
        """How many steps between neighbours, and the budget of one: Gaussian objective noise is for a row taken out."""
        if self.method == "objective" and self.definition == "gaussian" and self.neighbours == "replace-row":
            return 2, *zero_out_budget(self.epsilon, self.delta, self.neighbours)
        return 1, self.epsilon, self.delta

    def perturbation(self, rows: int, width: int) -> Perturbation:
        """Everything public that one fit needs. ``width`` counts the intercept."""
        made = Perturbation(
            self.method,
            self.definition,
            *self._steps[1:],
            self.fits,
            self.bound,
            1.0,
            1.0,
            moved=2 if self.neighbours == "replace-row" else 1,
        )
        count = self.rows or rows
        made = replace(made, strength=self.strength or _strength(made, count, width))
        least = made.least_tolerance(max(self.most_rows or 0, count, rows), width)
        if self.tolerance is not None and self.tolerance < least:
            raise SpecError(
                "no solver in floating point keeps this tolerance on every data set of this size",
                path="tolerance",
                given=self.tolerance,
                allowed=f"at least {least:.3g} for these numbers of rows and columns and this strength",
                fix="leave it out",
            )
        relative = least if self.tolerance is None else self.tolerance
        return replace(made, tolerance=relative * self.bound)

    def estimator(self, noise: Noise, rng: Generator) -> Any:
        made = estimator_class("fairveil.classify.estimator.PrivateLogisticRegression")
        given = {**self.parameters(), "retrainings": self.fits}
        return made(fit_intercept=given.pop("intercept"), **given, classes=(0, 1), noise=noise)

    def event(self) -> Event:
        if self.method == "objective" and self.definition == "gaussian":
            return ApproximateEvent(self.epsilon, self.delta)
        return self.perturbation(rows=1, width=1).event()

    def spent(self, fits: int) -> float:
        return min(self.epsilon, self._steps[0] * self.perturbation(rows=1, width=1).spent(fits))

    def guarantee(self) -> Guarantee:
        facts: dict[str, Any] = {
            "model": "global",
            "unit": "one person's row" if self.fits == 1 else f"one person's rows in all {self.fits} retrainings",
            "neighbours": Neighbours(self.neighbours),
            "notes": _notes(self),
        }
        if self.definition == "pure":
            return Guarantee.pure(self.epsilon, **facts)
        return Guarantee.approximate(self.epsilon, self.delta, **facts)


def _with_fairlearn(name: str) -> Any:
    try:
        return estimator_class(f"fairveil.classify.with_fairlearn.{name}")
    except ImportError:
        raise DependencyError("this needs fairlearn", fix="pip install 'fairveil[lab]'") from None


def _notes(learner: PrivateLogistic) -> tuple[str, ...]:
    notes = [
        "the fitted weights are protected; a decision shown to a person also depends on that person's own features",
        ONE_ROW,
    ]
    if learner.fits > 1:
        notes.append("a person may be in every retraining, with the same row or another each time")
    if learner.rows is None:
        notes.append("the number of rows is taken as public")
    else:
        most = max(learner.rows, learner.most_rows or 0)
        notes.append(f"should more than {most} rows come, their number is taken as public")
    if learner.method == "objective" and learner.definition == "pure":
        notes.append(
            "but for noise beyond 800 scales (below 10^-342 a fit), where the solver's tolerance is not proved"
        )
    return tuple(notes)


def _strength(made: Perturbation, rows: int, width: int) -> float:
    """A regularisation from public numbers: noise cost against shrinkage, for weights of norm about four.

    Output noise of std 2L/(strength m) costs about L^4/(2 strength^2 m^2) in log loss a row, shrinkage 8 strength/rows;
    the sum is least at strength^3 = L^4 rows/(8 m^2). Objective noise matters less, so there the regularisation only
    keeps the determinant's part of the budget to an eighth.
    """
    if made.method == "objective":
        return max(1.0, made.bound**2 / (4 * math.expm1(min(made.fit_epsilon / 8, 100.0))))
    if made.definition == "pure":
        precision = made.fit_epsilon / math.sqrt(2 * width)
    else:
        precision = fit_mu(made.epsilon, made.delta, made.fits)
    return max(1e-3, (made.bound**4 * rows / (8 * precision**2)) ** (1 / 3))
