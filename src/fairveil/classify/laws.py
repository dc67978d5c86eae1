"""Laws of a private learner: what a fit does with a row that is too long, and what it hands out.

>>> from fairveil.classify.learners import PrivateLogistic
>>> check_learner(PrivateLogistic(epsilon=1.0))
['long_rows_are_clipped', 'nothing_exact_is_handed_out']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairveil.classify.learner import Learner
from fairveil.errors import ContractError
from fairveil.privacy.audit.mutants import Weakened
from fairveil.privacy.noise import Noise, SeededNoise
from fairveil.randomness import generator
from fairveil.registry import register

Law = Callable[[Learner], Any]
PEOPLE = 40
EXCESS = 1e4
"""How much too long a row comes."""
WIDER = (1.0, 1.0, 4.0, 4.0, 16.0, 16.0, 64.0, 64.0)
"""How much wider noise is drawn where a law asks whether a number depends on it."""
CLOSE = 1e-6
"""Relative difference that rounding may make in weights."""
FEW = {"rounds": 20, "groups": ("a", "b"), "rows": PEOPLE}
"""Fields, where a learner has them, that make a fit short and keep everything public fixed."""
STUMPS = {"hypotheses": "stumps", "attributes": None}
"""Fields of a game whose rules are over columns, not over a private score."""


class Crowd(NamedTuple):
    """People to fit."""

    features: NDArray[np.float64]
    labels: NDArray[np.int64]
    groups: NDArray[Any]


def _must(holds: object, problem: str, fix: str = "") -> None:
    if not holds:
        raise ContractError(problem, fix=fix)


def _people() -> Crowd:
    """Two yes-or-no features; labels and groups in all combinations."""
    place = np.arange(PEOPLE)
    features = 0.6 * np.stack([place % 2, place // 2 % 2], axis=1)
    return Crowd(features.astype(np.float64), (place // 4 % 2 ^ place % 2), np.where(place // 8 % 2, "a", "b"))


def _neighbours(table: Crowd) -> list[Crowd]:
    """The first person is another: other features, another label, another group, all of it."""
    turned, other, moved = table.features.copy(), table.labels.copy(), table.groups.copy()
    turned[0], other[0] = 0.6 - turned[0], 1 - other[0]
    moved[0] = "a" if table.groups[0] == "b" else "b"
    return [
        table._replace(features=turned), table._replace(labels=other), table._replace(groups=moved),
        Crowd(turned, other, moved),
    ]  # fmt: skip


def _fitted(learner: Any, table: Crowd, noise: Noise) -> dict[str, float]:
    """All numbers that a fit hands out, by where they stand."""
    given = FEW if getattr(learner, "over_score", False) else FEW | STUMPS
    known = {name: value for name, value in given.items() if name in learner.__dataclass_fields__}
    model = replace(learner, **known).estimator(noise, generator(1))
    groups = {} if learner.name == "private-logistic" else {"sensitive_features": table.groups}
    model.fit(table.features, table.labels, **groups)
    shown = {name: value for name, value in vars(model).items() if name.endswith("_") and not name.startswith("_")}
    return dict(_numbers(shown, ""))


def _numbers(value: Any, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _numbers(item, f"{path}.{key}")
    elif isinstance(value, np.ndarray | list | tuple):
        for place, item in enumerate(value):
            yield from _numbers(item, f"{path}[{place}]")
    elif isinstance(value, int | float | np.number):
        yield path, float(value)


def long_rows_are_clipped(learner: Learner) -> None:
    """A row far longer than the public bound counts as the row of that direction within it; no other row changes."""
    if not hasattr(learner, "bound_of_features"):
        return
    table, bound = _people(), learner.bound_of_features
    long, within = table.features.copy(), table.features.copy()
    direction = np.array([0.6, -0.8])
    long[0], within[0] = EXCESS * bound * direction, bound * direction
    first, second = (_fitted(learner, table._replace(features=rows), SeededNoise(1)) for rows in (long, within))
    same = first.keys() == second.keys() and all(
        np.isclose(first[name], second[name], rtol=CLOSE, atol=CLOSE, equal_nan=True) for name in first
    )
    _must(same, "a row that is too long counts for more than its bound", "clip rows to the public bound")


def nothing_exact_is_handed_out(learner: Learner) -> None:
    """A number of a fitted model that depends on one person also depends on the noise of the fit."""
    table = _people()
    of_worlds = [_fitted(learner, one, SeededNoise(0)) for one in (table, *_neighbours(table))]
    of_noises = [_fitted(learner, table, Weakened(SeededNoise(seed), factor)) for seed, factor in enumerate(WIDER)]
    for name in of_worlds[0]:
        told, hidden = (len({repr(found.get(name)) for found in all}) > 1 for all in (of_worlds, of_noises))
        _must(hidden or not told, f"{name.lstrip('.')} shows a person without noise", "draw noise for it")


LAWS: dict[str, Law] = {law.__name__: law for law in (long_rows_are_clipped, nothing_exact_is_handed_out)}


@register("laws", "learner")
def check_learner(learner: Learner) -> list[str]:
    """Run every law; returns their names, raises ContractError at the first that is broken."""
    for name, law in LAWS.items():
        try:
            law(learner)
        except ContractError as problem:
            raise ContractError(f"{name}: {problem.problem}", path=learner.name, fix=problem.fix) from None
    return list(LAWS)
