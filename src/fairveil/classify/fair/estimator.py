"""`PrivateFairClassifier`: a private score, noisy audits and a margin, as a scikit-learn classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from fairveil.arrays import Floats, Ints
from fairveil.classify.fair.auditor import AwareMargin, BlindMargin, Margin, Plays, Steps, play, votes
from fairveil.classify.fair.learner import PrivateFair
from fairveil.classify.fair.score import eta, extended, fit_blocks, fit_score, memberships
from fairveil.classify.fair.zones import (
    Blocks,
    Zones,
    choose_blocks,
    least_people,
    release_report,
    release_zones,
    summary,
)
from fairveil.classify.mixins import SPENDING, Configured, Randomised, estimator_of
from fairveil.classify.people import groups_of
from fairveil.classify.spending import Spending
from fairveil.data.inputs import classes_of, features_of, refuse_weights
from fairveil.fairness.groups import Counter, Groups
from fairveil.fairness.notions import Notion
from fairveil.privacy.noise import Noise


@estimator_of(PrivateFair, also=SPENDING, epsilon=1.0, norm_bound=1.0)
class PrivateFairClassifier(Configured, Spending, Randomised):
    """Differentially private classification under a group fairness constraint.

    Guarantee: (epsilon, delta)-DP for one person's whole row (features, group and label), taken out
    (``neighbours="zero-out-row"``) or replaced, over all ``retrainings``; everything fitted, ``report_`` included, is
    covered. Every fit is a release: pass ``ledger=`` to have it charged; without one, clones share a counter, and
    held-out scores of a search are not protected by it. Noise comes from the operating system unless ``random_state``
    is given, which marks the fit as ``simulated_``.
    Cost: O(columns^2 rows) for the score and O(rounds x rows) for the audits; memory O(rows).

    ``plays_`` are the multipliers and offsets of the mixture, ``weights_`` its weights; ``predict_proba`` is the
    probability that ``predict`` says each class, ``score_proba`` the private score.

    >>> rng = np.random.default_rng(0)
    >>> group = rng.choice(["a", "b"], 3000)
    >>> x = np.stack([rng.normal(size=3000), group == "a"], axis=1)
    >>> y = (x[:, 0] + 0.5 * x[:, 1] + rng.normal(size=3000) > 0.5).astype(int)
    >>> model = PrivateFairClassifier(epsilon=3.0, norm_bound=2.0, groups=("a", "b"), random_state=0)
    >>> model = model.fit(x, y, sensitive_features=group)
    >>> model.guarantee_.epsilon, model.predict(x[:2], sensitive_features=group[:2], random_state=0).shape
    (3.0, (2,))

    Reference: docs/guarantees/private-fair.md.
    """

    private = True

    def learner(self) -> PrivateFair:
        """The public configuration; raises SpecError for a parameter out of range."""
        Notion.of(self.fairness)
        made: PrivateFair = self._configured(groups=None if self.groups is None else tuple(map(str, self.groups)))
        return made

    def fit(self, X: ArrayLike, y: ArrayLike, *, sensitive_features: Any = None, **extra: Any) -> PrivateFairClassifier:
        """Charge, then score, zones, block models, audits and report: one release of all of them together."""
        refuse_weights(extra)
        learner = self.learner()
        self._check_budget(learner.event())
        features, labels = features_of(self, X, y, reset=True)
        self.classes_ = classes_of(labels, self.classes, type(self).__name__)
        truth = (labels == self.classes_[1]).astype(np.int64)
        notion = Notion.of(self.fairness)
        members = groups_of(sensitive_features, self.groups, len(features)) if notion.labels else None
        names = () if members is None else members.names
        learner.check_groups(len(names))
        noise = self._source("private-fair")
        fit = _Fit(learner, notion, features, truth, members)
        published = self._spend(learner, learner.guarantee(), learner.event(), learner.fits, noise, fit.release)
        self._take(learner, notion, names, published)
        return self

    def _take(self, learner: PrivateFair, notion: Notion, names: tuple[str, ...], found: dict[str, Any]) -> None:
        """Fitted attributes, from what was published and nothing else."""
        self.group_names_ = names
        self.coef_, self.intercept_ = found["score"][None, :-1], found["score"][-1:]
        self._score_weights, self._notion = found["score"], notion
        self.report_ = self.error_ = self.discrimination_ = None
        self.blocks_: tuple[tuple[str, ...], ...] = ()
        if not notion.labels:
            return
        self._blocks = Blocks(found["blocks"], int(found["blocks"].max()) + 1, int(found["largest"]))
        self._models = found["models"]
        kept = Plays(found["multipliers"], found["offsets"])
        self.plays_, self.weights_ = kept, np.full(len(kept), 1 / len(kept))
        self.multipliers_ = kept.multipliers.mean(axis=0)
        self.blocks_ = self._blocks.names(names)
        plan = learner.plan(len(names))
        sigma = plan.report_sigma(len(kept)) / len(kept)
        report = summary(found["report"], Zones(found["zones"], plan.zone_sigma), sigma, names)
        self.report_ = report.under(self.guarantee_, simulated=self.simulated_)
        self.report_["blocks"] = [list(block) for block in self.blocks_]
        self.error_, self.discrimination_ = self.report_["error"], self.report_["discrimination"]

    def decision_chance(self, X: ArrayLike, *, sensitive_features: Any = None) -> Floats:
        """Probability that `predict` says the second class: the share of the plays that accept."""
        check_is_fitted(self, "coef_")
        rows = extended(features_of(self, X, reset=False)[0], float(self.norm_bound))
        score = eta(self._score_weights, rows)
        if not self._notion.labels:
            return (score > 0.5).astype(np.float64)
        margin: Margin
        if self.awareness == "aware":
            groups = groups_of(sensitive_features, self.group_names_, len(rows), deciding=True)
            margin = AwareMargin(self._notion, score, self._blocks.of[groups.index])
        else:
            margin = _blind(self._notion, score, rows, self._models, self._blocks)
        return votes(margin, self.plays_) / len(self.plays_)

    def score_proba(self, X: ArrayLike) -> Floats:
        """The private score: estimated probabilities of both classes."""
        check_is_fitted(self, "coef_")
        second = eta(self._score_weights, extended(features_of(self, X, reset=False)[0], float(self.norm_bound)))
        return np.stack([1 - second, second], axis=1)


class _Fit:
    """One fit on validated rows. `release` alone meets noise, and everything it returns is paid for."""

    def __init__(
        self, learner: PrivateFair, notion: Notion, features: Floats, labels: Ints, members: Groups | None
    ) -> None:
        self.learner, self.notion, self.labels, self.members = learner, notion, labels, members
        self.rows = extended(features, learner.bound_of_features)
        self.public_rows = max(learner.rows or len(features), learner.most_rows or 0, len(features))

    def release(self, noise: Noise) -> dict[str, Any]:
        """Steps 1 to 6: score, zones, blocks, block models, audits, report."""
        names = () if self.members is None else self.members.names
        plan = self.learner.plan(len(names))
        weights = fit_score(plan, self.rows, self.labels, self.public_rows, noise)
        if self.members is None:
            return {"score": weights}
        score, index, learner = eta(weights, self.rows), self.members.index, self.learner
        zones = release_zones(score, self.labels, index, len(names), plan.zone_sigma, noise)
        most = learner.block_models + 1 if learner.blind else None
        least = least_people(learner.least, plan.mu, learner.count_parts[1])
        blocks = choose_blocks(zones.sizes, self.notion, least, most)
        member = blocks.of[index]
        models = np.zeros((0, self.rows.shape[1] + 1))
        margin: Margin = AwareMargin(self.notion, score, member)
        if learner.blind:
            models = fit_blocks(plan, self.rows, self.labels, member, blocks.models, self.public_rows, noise)
            margin = _blind(self.notion, score, self.rows, models, blocks)
        counter = Counter(member, self.labels, blocks.count)
        steps = Steps(learner.rounds, learner.slack, learner.cap, plan.audit_sigma)
        plays = play(margin, counter, zones, blocks, self.notion, steps, noise)[learner.rounds // 2 :]
        plays = plays if learner.randomised else plays.mean()
        by_group = Counter(index, self.labels, len(names))
        report = release_report(by_group, votes(margin, plays), len(plays), plan.report_sigma(len(plays)), noise)
        return {
            "score": weights,
            "models": models,
            "blocks": blocks.of,
            "largest": blocks.largest,
            "zones": zones.counts,
            "multipliers": plays.multipliers,
            "offsets": plays.offsets,
            "report": report,
        }


def _blind(notion: Notion, score: Floats, rows: Floats, models: Floats, blocks: Blocks) -> BlindMargin:
    none, some = (memberships(models, blocks.models, blocks.count, rows, label) for label in (0, 1))
    return BlindMargin(notion, score, (none, some))
