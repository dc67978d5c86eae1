"""Laws of private reports: no neighbour moves the sums further than their noise allows, and only noisy sums speak."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.privacy.noise import Noise
from fairveil.privacy.vectors import ONE
from fairveil.proof.engine.everything import check_audited
from fairveil.proof.laws import ThoughtOf, check_laws, must
from fairveil.proof.laws.sums import SLACK, cost_of, promised
from fairveil.proof.pairs.reports import winner
from fairveil.registry import register
from fairveil.reports.evaluation import Evaluation
from fairveil.reports.export import as_json
from fairveil.reports.fairness import FairnessReport
from fairveil.reports.rows import PlaceRows

Report = FairnessReport | Evaluation
BUDGETS: tuple[dict[str, Any], ...] = tuple(
    {"epsilon": None, "delta": None, "rho": None, "mu": None} | budget
    for budget in ({"epsilon": 0.5}, {"rho": 0.02}, {"mu": 0.3})
)
SHAPES: tuple[dict[str, Any], ...] = (
    {},
    {"rewards": False},
    {"missing": "public"},
    {"missing": "private", "group_privacy": "private", "most_shown": 3},
    {"group_privacy": "private", "most_shown": 2},
    {"family": "nash", "actions": ("x", "y")},
    {"family": "nash", "actions": ("x", "y"), "missing": "private"},
    {"family": "nash", "actions": ("x", "y"), "group_privacy": "private"},
    {"family": "nash", "actions": ("x", "y"), "group_privacy": "private", "missing": "public"},
    {"family": "exposure"},
    {"family": "exposure", "blanks": True},
    {"family": "exposure", "blanks": True, "groups": ("a", "b", "c")},
    {"blanks": True},
    {"blanks": True, "missing": "public"},
    {"family": "nash", "actions": ("x", "y"), "blanks": True},
    {"family": "nash", "actions": ("x", "y"), "blanks": True, "missing": "public"},
)
REWARDS = (0.0, 1.0, 0.5, float("nan"), -5.0, 9.0)


class GivenNoise(ThoughtOf):
    """Hands out these integers, whatever level is asked for."""

    __slots__ = ("integers",)

    def __init__(self, integers: Ints) -> None:
        self.integers = np.asarray(integers, np.int64)

    def drawn(self, levels: Floats) -> Ints:
        return self.integers[: levels.size]


def neighbours(report: FairnessReport) -> Iterator[list[PlaceRows]]:
    """Sets of single rows any two of which may stand for each other: what is public is the same in all of them."""
    groups = range(len(report.names))
    if report.family == "exposure":
        corners = np.eye(len(report.names))
        laws = [*corners, np.full(len(report.names), 1 / len(report.names)), np.full(len(report.names), 7.0)]
        none = np.zeros((1, len(report.names)))
        blank = [PlaceRows(group=np.array([-1]), played=none, deserved=none)] if report.blanks else []
        first = np.zeros(1, np.int64)
        yield blank + [
            PlaceRows(group=first, played=one[None], deserved=two[None]) for one, two in itertools.product(laws, laws)
        ]
        return
    rewards = [r for r in REWARDS if report.missing != "default" or r == r]
    if report.family == "nash":
        cells = [list(groups)] if report.private_groups else [[g] for g in groups]
        answers = [rewards]
        if not report.private_groups and report.missing == "public":
            answers = [[r for r in rewards if r == r]]
        for held, own in itertools.product(cells, answers):
            blank = [_row(-1, None, float("nan"), 0)] if report.blanks else []
            yield blank + [_row(g, None, r, 0) for g, r in itertools.product(held, own)]
        return
    shown = [np.ones(len(report.names), np.int64)]
    if report.private_groups:
        sizes = range(1, (report.most_shown or 1) + 1)
        everybody = [who for size in sizes for who in itertools.combinations_with_replacement(groups, size)]
        shown = [np.bincount(who, minlength=len(report.names)) for who in everybody]
    blank = [_row(-1, shown[0], float("nan"), None)] if report.blanks else []
    yield blank + [_row(g, s, r, None) for g, s, r in itertools.product(groups, shown, rewards)]


def _row(group: int, shown: Ints | None, reward: float, arm: int | None) -> PlaceRows:
    return PlaceRows(
        group=np.array([group]), shown=None if shown is None else shown[None], reward=np.array([reward]),
        arm=None if arm is None else np.array([arm]),
    )  # fmt: skip


def furthest(vectors: list[Ints]) -> tuple[tuple[int, int], tuple[int, int]]:
    """The largest l1 distance and squared l2 distance, and the two vectors that are furthest apart by l1."""
    held = np.array(vectors)
    apart = held[:, None] - held[None]
    one, two = np.abs(apart).sum(axis=-1), (apart * apart).sum(axis=-1)
    at = np.unravel_index(int(one.argmax()), one.shape)
    return (int(one.max()), int(two.max())), (int(at[0]), int(at[1]))


def forms(report: Report) -> Iterator[Report]:
    for budget in BUDGETS:
        for shape in SHAPES if isinstance(report, FairnessReport) else ({}, {"blanks": True}):
            yield replace(report, **budget, **shape)


def sets_of(report: Report) -> Iterator[list[Any]]:
    """Sets of arguments of `units` any two of which are neighbours."""
    if isinstance(report, FairnessReport):
        for rows in neighbours(report):
            yield [(one,) for one in rows]
        return
    weights = [np.array([w]) * report.largest_weights for w in (0.0, 0.5, 1.0, 50.0)]
    rewards = (-2.0, 0.0, 0.3, 0.381966, 1.0, 7.0)
    blank = [(np.array([weights[-1]]), np.array([np.nan]))] if report.blanks else []
    yield blank + [(np.array([w]), np.array([r])) for w, r in itertools.product(weights, rewards)]


def sensitivity_is_kept(report: Report) -> None:
    """No two neighbouring rows move the sums further than the noise is calibrated for, in every form."""
    for one in forms(report):
        for found in sets_of(one):
            (l1, square), _ = furthest([one.units(*given) for given in found])
            moved, bound = (l1, one.vector.l1) if one.price.laplace else (square, one.vector.square)
            must(moved <= bound, "a row moves the sums further than the noise is calibrated for")


def noise_is_enough(report: Report) -> None:
    """The worst change of a row costs no more than is promised, computed from the draws themselves."""
    for one in forms(report):
        for found in sets_of(one):
            _, at = furthest([one.units(*given) for given in found])

            def shown(world: int, noise: Noise, one: Any = one, found: Any = found, at: Any = at) -> Floats:
                return np.asarray(one.draws(*found[at[world]], noise)[0])

            if at[0] != at[1]:
                cost = cost_of(shown, one.price.laplace)
                must(cost <= promised(one) * (1 + SLACK), "the worst row costs more than is promised")


def only_noisy_sums_speak(report: Report) -> None:
    """Two tables whose noisy sums are equal make one document: nothing is read from a row beside its noisy sums.

    A group that is left out because few people are in it, a rate with noise of its own, a sum without noise and a
    count of places that count for nobody all differ here.
    """
    for blanks in (False, True):
        _one_document(replace(report, **BUDGETS[1], blanks=blanks))


def _one_document(one: Any) -> None:
    if isinstance(one, Evaluation):
        weights, rewards = np.tile(one.largest_weights, (40, 1)), np.ones(40)
        if one.blanks:
            rewards[:5] = np.nan
        tables: list[Any] = [(weights, np.zeros(40)), (weights, rewards)]
    else:
        tables = [(_many(one, world),) for world in (0, 1)]
    exact = [one.units(*given) for given in tables]
    noise = np.arange(len(exact[0])) * ONE
    documents = [
        as_json(one.release(*tables[0], GivenNoise(noise))),
        as_json(one.release(*tables[1], GivenNoise(noise + exact[0] - exact[1]))),
    ]
    must(documents[0] == documents[1], "a document says more than its noisy sums", "decide on noisy numbers")


def _many(report: FairnessReport, world: int) -> PlaceRows:
    """Forty places in which nobody of the last group won, or all of the first three winners are of it."""
    few = [winner(report, at) for at in ([0] * 20, [1] * 20)[world]]
    group = np.concatenate([np.zeros(20, np.int64), np.full(20, world * (len(report.names) - 1))])
    if report.blanks and world:
        group[:5] = -1
    return PlaceRows(
        group=group,
        shown=np.ones((40, len(report.names)), np.int64),
        arm=np.zeros(40, np.int64),
        reward=np.concatenate([one.reward[-2:] for one in few if one.reward is not None]),
    )


def audited(report: Report) -> None:
    """It has pairs of worlds that call its served methods, and mutants."""
    check_audited("report", report)


LAWS: dict[str, Callable[[Report], None]] = {
    law.__name__: law for law in (sensitivity_is_kept, noise_is_enough, only_noisy_sums_speak, audited)
}


@register("laws", "report")
def check_report(report: Report) -> list[str]:
    """Run every law; returns their names, raises ContractError at the first that is broken."""
    return check_laws(LAWS, report)
