"""`ConsensusClassifier`: nodes that learn together, as a scikit-learn classifier. Importing this needs scikit-learn."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from fairveil import registry
from fairveil.arrays import Floats, Ints
from fairveil.configuration import field_names
from fairveil.consensus.algorithm import Algorithm, Setting, warn_of_delta
from fairveil.consensus.graphs import make_graph
from fairveil.consensus.rows import Rows
from fairveil.consensus.transport import NodePlan, make_transport
from fairveil.data.inputs import InputProblem, classes_of, features_of, refuse_weights
from fairveil.privacy.grid import clip_norm
from fairveil.privacy.guarantee import REFUSED
from fairveil.privacy.tally import Counted


@dataclass(eq=False, repr=False)
class ConsensusClassifier(Counted, ClassifierMixin, BaseEstimator):
    """A linear classifier learned by nodes that keep their rows.

    ``fit(X, y, groups=node_of_row)`` (or ``node_of_row`` here) gives every row to the node that its group names;
    without either rows are dealt evenly to ``nodes`` nodes. ``algorithm`` is a name or a table, ``epsilon`` its budget.
    Rows are divided by ``norm_bound`` and clipped to norm 1 (``strict`` refuses longer ones); columns must be scaled by
    public bounds before. Noise comes from the operating system unless ``random_state`` is given, which makes the result
    repeatable and marks it ``simulated_``.
    ``classes`` are the two public labels; left out they are read from ``y`` and taken as public. No intercept: add a
    constant column where you need one. Attributes: ``coef_`` (mean classifier), ``node_coef_``, ``guarantee_``,
    ``history_`` (the released classifiers of every iteration), ``simulated_``.

    >>> x = np.random.default_rng(0).normal(size=(2000, 3)) / 3
    >>> model = ConsensusClassifier(nodes=4, epsilon=5.0, random_state=0).fit(x, x[:, 0] > 0)
    >>> bool(model.score(x, x[:, 0] > 0) > 0.9), model.guarantee_.epsilon
    (True, 5.0)
    """

    nodes: int = 5
    _: KW_ONLY
    graph: Any = "ring"
    algorithm: Any = "private-admm"
    epsilon: float | None = 1.0
    iterations: int = 50
    norm_bound: float = 1.0
    nonzeros: int | None = None
    node_of_row: ArrayLike | None = None
    strict: bool = False
    classes: tuple[Any, Any] | None = None
    random_state: Any = None

    def _algorithm(self) -> Algorithm:
        table = {"name": self.algorithm} if isinstance(self.algorithm, str) else dict(self.algorithm)
        known = field_names(registry.get("algorithm", table.get("name", ""), "algorithm.name"))
        if self.epsilon is not None and "epsilon" in known and not {"epsilon", "alpha"} & set(table):
            table["epsilon"] = float(self.epsilon)
        made: Algorithm = registry.build("algorithm", table, "algorithm")
        return made

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None, **extra: Any) -> ConsensusClassifier:
        """Let the nodes agree. Every call is a whole run and costs each row again: ``guarantee_`` adds them up."""
        refuse_weights(extra)
        algorithm = self._algorithm()
        features, labels = features_of(self, X, y, reset=True)
        self.classes_ = classes_of(labels, self.classes, type(self).__name__)
        signs = np.where(labels == self.classes_[1], 1.0, -1.0)
        parts = self._parts(len(features), self.node_of_row if groups is None else groups)
        scaled = features / float(self.norm_bound)
        rows = [Rows.dense(scaled[part], signs[part], strict=self.strict) for part in parts]
        seed = None if self.random_state is None else int(check_random_state(self.random_state).randint(2**31 - 1))
        graph = make_graph(self.graph, len(parts), 0 if seed is None else seed)
        width = features.shape[1]
        most = width if self.nonzeros is None else min(int(self.nonzeros), width)
        setting = Setting(graph, tuple(len(part) for part in parts), width, most, int(self.iterations))
        algorithm = algorithm.complete(setting)
        promise = algorithm.guarantee(setting)
        warn_of_delta(promise, setting)
        if promise is not None and self.strict:
            promise = replace(promise, notes=(*promise.notes, REFUSED))
        stated = None if promise is None else self._counter().count((algorithm, setting), promise, 1)
        noise = "secure" if seed is None else "seeded"
        plans = [
            NodePlan(algorithm, setting, node, own, noise=noise, path=(seed or 0, "consensus-classifier"))
            for node, own in enumerate(rows)
        ]
        transport = make_transport("inline", plans)
        self.history_ = np.array([seen.weights for seen in transport.iterations()])
        self.node_coef_ = self.history_[-1]
        self.coef_ = self.node_coef_.mean(0, keepdims=True)
        self.intercept_ = np.zeros(1)
        self.n_iter_ = len(self.history_)
        self.guarantee_ = stated
        self.simulated_ = noise != "secure" or not algorithm.protects
        return self

    def _parts(self, count: int, groups: ArrayLike | None) -> list[Ints]:
        if groups is None:
            return [part for part in np.array_split(np.arange(count), min(int(self.nodes), count)) if len(part)]
        owner = np.asarray(groups)
        if owner.shape != (count,):
            raise InputProblem("groups name a node for every row", path="groups", given=f"shape {owner.shape}")
        names = np.unique(owner)
        self.node_names_ = names
        return [np.flatnonzero(owner == name) for name in names]

    def decision_function(self, X: ArrayLike) -> Floats:
        """f.x of the mean classifier; rows are scaled and clipped as in training."""
        check_is_fitted(self)
        features = features_of(self, X, reset=False)[0]
        scored: Floats = clip_norm(features / float(self.norm_bound), 1.0) @ self.coef_[0]
        return scored

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Probabilities of both classes by the logistic link."""
        second = expit(self.decision_function(X))
        return np.stack([1 - second, second], axis=1)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The likelier class."""
        check_is_fitted(self)
        found: NDArray[Any] = self.classes_[(self.decision_function(X) > 0).astype(int)]
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        tags.non_deterministic = self.random_state is None
        return tags
