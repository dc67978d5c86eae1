"""Groups as arrays: one instance or a batch of thousands, in the layout the compiled solvers take.

`measure` reads rates, losses, utilities and manipulation off given thresholds, for whole batches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairveil.compiling import njit
from fairveil.dynamics import search
from fairveil.dynamics import thresholds as rules
from fairveil.dynamics.distributions import Distribution, distribution, stack
from fairveil.dynamics.kernels import both, cdf
from fairveil.dynamics.mixtures import lead
from fairveil.dynamics.problem import CODES, FREE, LOSS_ABOVE, LOSS_BELOW, Instances, instance
from fairveil.errors import SpecError
from fairveil.fairness.notions import by_rule
from fairveil.task import threads

#: Thresholds scanned per group in a global search.
POINTS = 4096


@dataclass(frozen=True)
class Population:
    """Groups of one or many instances; arrays have shape (instances, groups) unless said otherwise.

    ``which[k, s, y]`` is the row of `codes` and `params` that holds the features of label y in group s, ``cost[k, s]``
    the row of the manipulation cost or -1. Distributions that repeat are stored once. ``several`` marks instances
    whose utility can have several peaks although nobody manipulates (no monotone likelihood ratio).
    """

    names: tuple[str, ...]
    share: np.ndarray
    qualified: np.ndarray
    which: np.ndarray
    cost: np.ndarray
    codes: np.ndarray
    params: np.ndarray
    gain: np.ndarray
    loss: np.ndarray
    distributions: tuple[Distribution, ...] = field(repr=False)
    several: np.ndarray | None = None

    @property
    def size(self) -> int:
        return self.share.shape[0]

    @property
    def groups(self) -> int:
        return self.share.shape[1]

    def batch(self, kind: int) -> Instances:
        """The arrays as the compiled solvers take them, for groups that share what ``kind`` says."""
        return Instances(
            kind,
            self.share,
            self.qualified,
            self.which,
            self.cost,
            self.codes,
            self.params,
            self.gain,
            self.loss,
        )

    def feature(self, instance: int, group: int, label: int) -> Distribution:
        return self.distributions[self.which[instance, group, label]]

    def features(self, instance: int, group: int) -> tuple[Distribution, Distribution]:
        """Features of a group's unqualified and of its qualified people."""
        return self.feature(instance, group, 0), self.feature(instance, group, 1)

    def reach(self, instance: int, group: int) -> tuple[float, float]:
        """The interval on which a group's features can lie, whatever the label."""
        f0, f1 = self.features(instance, group)
        return min(f0.reach[0], f1.reach[0]), max(f0.reach[1], f1.reach[1])

    def cost_of(self, instance: int, group: int) -> Distribution | None:
        row = self.cost[instance, group]
        return None if row < 0 else self.distributions[row]

    def each(self, of: Callable[..., Any], rows: np.ndarray) -> np.ndarray:
        """Something of every group of every instance that depends on distributions alone; ``rows`` name them.

        Distributions that repeat are looked at once.
        """
        kinds, place = np.unique(rows.reshape(-1, rows.shape[-1]), axis=0, return_inverse=True)
        found = np.array([of(*(self.distributions[row] for row in kind)) for kind in kinds])
        return found[place.reshape(-1)].reshape(self.share.shape)

    def select(self, rows: np.ndarray) -> Population:
        """Some instances of the batch."""
        return replace(
            self,
            share=self.share[rows],
            qualified=self.qualified[rows],
            which=self.which[rows],
            cost=self.cost[rows],
            gain=self.gain[rows],
            loss=self.loss[rows],
            several=None if self.several is None else self.several[rows],
        )

    def with_rates(self, qualified: np.ndarray | None = None, share: np.ndarray | None = None) -> Population:
        """The same features at other qualification rates or shares."""
        return replace(
            self,
            qualified=self.qualified if qualified is None else np.ascontiguousarray(qualified, dtype=float),
            share=self.share if share is None else np.ascontiguousarray(share, dtype=float),
        )


def population(
    instances: Sequence[Mapping[str, Any]] | Mapping[str, Any],
    utility: Sequence[Mapping[str, float]] | Mapping[str, float] | None = None,
) -> Population:
    """Pack groups tables (name -> share, qualified, features, cost) into a batch; one table makes a batch of one.

    Shares default to equal ones and are normalised. ``utility`` has ``gain`` and ``loss``, one for all or one each.

    >>> both = population({"a": {"qualified": 0.6, "features": {"0": ["normal", -5, 5], "1": ["normal", 5, 5]}},
    ...                    "b": {"qualified": 0.4, "features": {"0": ["normal", -5, 5], "1": ["normal", 5, 5]}}})
    >>> both.size, both.groups, both.share.tolist()
    (1, 2, [[0.5, 0.5]])
    """
    tables = [instances] if isinstance(instances, Mapping) else list(instances)
    names = tuple(tables[0])
    if utility is None or isinstance(utility, Mapping):
        one = utility or {"gain": 1.0, "loss": 1.0}
        utilities: list[Mapping[str, float]] = [one] * len(tables)
    else:
        utilities = list(utility)
    rows: dict[Distribution, int] = {}

    def row(spec: Any, path: str) -> int:
        return rows.setdefault(distribution(spec, path), len(rows))

    shape = (len(tables), len(names))
    share, qualified = np.empty(shape), np.empty(shape)
    which, cost = np.empty((*shape, 2), dtype=np.int64), np.full(shape, -1, dtype=np.int64)
    for k, table in enumerate(tables):
        if tuple(table) != names:
            raise SpecError("every instance must have the same groups", path="groups", given=list(table))
        for s, name in enumerate(names):
            group, path = table[name], f"groups.{name}"
            given = group.get("share")
            share[k, s] = 1.0 if given is None else float(given)
            qualified[k, s] = float(group["qualified"])
            for label in (0, 1):
                which[k, s, label] = row(group["features"][str(label)], f"{path}.features.{label}")
            if group.get("cost") is not None:
                cost[k, s] = row(group["cost"], f"{path}.cost")
    share /= share.sum(axis=1, keepdims=True)
    known = tuple(rows)
    codes, params = stack(known)
    gain = np.array([float(item["gain"]) for item in utilities])
    loss = np.array([float(item["loss"]) for item in utilities])
    return Population(names, share, qualified, which, cost, codes, params, gain, loss, known)


def constraint(name: str, rate: str = "tpr") -> int:
    """The solver's code of a constraint; ``eqopt`` equalises the rate named second (tpr or fpr)."""
    return CODES[by_rule(name, rate).level]


def optimal_thresholds(
    people: Population, fairness: str = "none", rate: str = "tpr", guess: np.ndarray | None = None
) -> np.ndarray:
    """Optimal thresholds (instances, groups) of a decision maker who takes features at face value.

    Accurate to about 1e-12; about 5 microseconds per instance and group (without a monotone likelihood ratio it is
    `best_thresholds`, a thousand times slower). Above the groups' overlap everybody is
    qualified, below nobody; ``eqloss`` takes the lower of the two thresholds with the common loss, ``eqloss-above`` the
    upper one. Thresholds of nearly the same problem as ``guess`` make it about three times faster, not different.
    Reference: lemmas 5-9 of the thesis (docs/errata/thesis.md).

    >>> people = population({"a": {"qualified": 0.6, "features": {"0": ["normal", -5, 5], "1": ["normal", 5, 5]}},
    ...                      "b": {"qualified": 0.4, "features": {"0": ["normal", -5, 5], "1": ["normal", 5, 5]}}})
    >>> optimal_thresholds(people).round(4).tolist()
    [[-1.0137, 1.0137]]
    """
    kind = constraint(fairness, rate)
    out = np.empty(people.share.shape) if guess is None else np.array(guess, dtype=float)
    spread_work(
        people.size,
        lambda first, last: rules.fair_batch(people.batch(kind), first, last, guess is not None, out),
    )
    if people.several is not None and people.several.any():
        rows = np.flatnonzero(people.several)
        some = people.select(rows)
        out[rows] = best_thresholds(replace(some, cost=np.full_like(some.cost, -1)), fairness, rate)
    return out


def best_thresholds(people: Population, fairness: str = "none", rate: str = "tpr", points: int = POINTS) -> np.ndarray:
    """Globally optimal thresholds (instances, groups), with manipulation where a group has a cost.

    Every peak near the best is found on a grid of ``points`` thresholds per group, refined with exact values and
    polished with the derivative. About 2 ms per instance with beta features.
    """
    kind = constraint(fairness, rate)
    out = np.empty(people.share.shape)
    equal_loss = kind in (LOSS_BELOW, LOSS_ABOVE)

    def work(first: int, last: int) -> None:
        search.best_batch(people.batch(FREE if equal_loss else kind), points, first, last, out)

    spread_work(people.size, work, least=8)
    if equal_loss:
        for k in range(people.size):
            rules.equal_loss(instance(people.batch(kind), k), out[k])
    return out


def spread_work(count: int, work: Callable[[int, int], None], least: int = 256) -> None:
    """Cut 0..count-1 into chunks for threads (compiled code holds no lock); results do not depend on the cut."""
    workers = min(threads(), max(1, count // least))
    if workers == 1:
        work(0, count)
        return
    cuts = np.linspace(0, count, 4 * workers + 1).astype(int)
    with ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(work, int(a), int(b)) for a, b in itertools.pairwise(cuts) if a < b]:
            done.result()


def halved(left: float, right: float, beyond: Callable[[float], bool]) -> float:
    """Where something changes between two points, as near as floats come: ``beyond`` holds on the side of the right."""
    for _ in range(200):
        middle = 0.5 * (left + right)
        if middle in (left, right):
            break
        left, right = (left, middle) if beyond(middle) else (middle, right)
    return 0.5 * (left + right)


@dataclass(frozen=True)
class Measures:
    """Arrays (instances, groups). Rates refer to features before manipulation."""

    below0: np.ndarray
    below1: np.ndarray
    above0: np.ndarray
    above1: np.ndarray
    manipulation: np.ndarray
    utility: np.ndarray
    qualified: np.ndarray

    @property
    def accepted(self) -> np.ndarray:
        """Acceptance rate of the whole group."""
        return self.qualified * self.above1 + (1.0 - self.qualified) * self.above0

    @property
    def loss(self) -> np.ndarray:
        """Expected 0-1 loss."""
        return self.qualified * self.below1 + (1.0 - self.qualified) * self.above0

    def rate(self, criterion: str) -> np.ndarray:
        """The rate a criterion equalises: tpr (or eqopt), fpr, dp."""
        return {"tpr": self.above1, "fpr": self.above0, "dp": self.accepted}[by_rule(criterion).level]


@njit(cache=True, nogil=True)
def _measure(
    alpha: np.ndarray,
    which: np.ndarray,
    cost: np.ndarray,
    codes: np.ndarray,
    params: np.ndarray,
    gain: np.ndarray,
    loss: np.ndarray,
    theta: np.ndarray,
    out: np.ndarray,
) -> None:
    """Nine arguments, one by one: taking a tuple of arrays apart would cost a third of a call with one instance."""
    for k in range(theta.shape[0]):
        for s in range(theta.shape[1]):
            i, j, c = which[k, s, 0], which[k, s, 1], cost[k, s]
            below0, above0 = both(codes[i], params[i], theta[k, s])
            below1, above1 = both(codes[j], params[j], theta[k, s])
            gap = lead(below0, above0, below1, above1)
            fraud = cdf(codes[c], params[c], gap) if c >= 0 else 0.0
            rest = 1.0 - alpha[k, s]
            out[0, k, s], out[1, k, s], out[2, k, s], out[3, k, s] = below0, below1, above0, above1
            out[4, k, s] = fraud
            out[5, k, s] = gain[k] * alpha[k, s] * above1 - loss[k] * rest * (above0 + gap * fraud)


def measure(people: Population, thresholds: np.ndarray) -> Measures:
    """Everything the models read off a set of thresholds; utility counts manipulation where a cost is given."""
    theta = np.ascontiguousarray(thresholds, dtype=float)
    out = np.empty((6, *theta.shape))
    _measure(
        people.qualified,
        people.which,
        people.cost,
        people.codes,
        people.params,
        people.gain,
        people.loss,
        theta,
        out,
    )
    below0, below1, above0, above1, manipulation, utility = out
    return Measures(below0, below1, above0, above1, manipulation, utility, people.qualified)
