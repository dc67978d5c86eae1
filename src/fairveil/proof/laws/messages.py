"""Exact cost of all messages of a node of a consensus, each given those that were published before it.

Two nodes run; at each iteration the first one is asked what it would send of its rows and of neighbouring ones, with
everything public as it is. Sums and perturbed solutions are linear in their draws. Noise of density exp(-a |e|) in an
objective is not: there another noise, moved by the gradient that the rows differ by, gives the same solution in the
other world, and the loss is a (|e'| - |e|) and the ratio of the determinants, at its worst over directions and lengths.

>>> from fairveil.consensus.private_admm import PrivateAdmm
>>> all(cost <= claim * (1 + 1e-4) for _, cost, claim in algorithm_costs(PrivateAdmm(epsilon=1.0)))
True
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fairveil.arrays import Floats
from fairveil.consensus.algorithm import Setting
from fairveil.consensus.graphs import make_graph
from fairveil.consensus.node import Node
from fairveil.consensus.perturbation import Objective, exact_noise
from fairveil.consensus.private import PrivateFamily
from fairveil.consensus.private_admm import PrivateAdmm
from fairveil.consensus.rows import Rows
from fairveil.errors import SpecError
from fairveil.privacy.noise import Noise, SeededNoise, ZeroNoise
from fairveil.proof.laws.costs import WORST, Costs, people
from fairveil.proof.laws.sums import draw_effects, priced
from fairveil.proof.mutants import function

SETTING = Setting(make_graph("star", 2), (20, 20), 2, 1, 2)
LONGER = replace(SETTING, iterations=4)
ROUNDS: tuple[dict[str, Any], ...] = tuple(
    {"definition": definition, "rounds": rounds, "share": share, "slope": slope}
    for definition, rounds, share, slope in itertools.product(("pure", "gaussian"), (1, 9), (0.1, 0.5), (0.3, 1.0))
)
FAMILY: tuple[dict[str, Any], ...] = tuple(
    {"epsilon": epsilon, "penalty": penalty, **more}
    for epsilon, penalty in ((1.0, 0.5), (4.0, 0.5), (4.0, 0.05))
    for more in ({}, {"loss": {"name": "huber-hinge"}}, {"perturb": "gaussian-primal", "delta": 1e-5})
)
NOISES = [
    length * np.array([math.cos(turn), math.sin(turn)])
    for length in (1e-3, 0.3, 3.0, 30.0)
    for turn in np.linspace(0, 2 * math.pi, 12, endpoint=False)
]
"""Noise in the objective, in numbers of 1/a."""


def algorithm_costs(algorithm: Any) -> Costs:
    """What the worst row costs a node in all its messages, and what is promised, by configuration."""
    if isinstance(algorithm, PrivateAdmm):
        for keys in ROUNDS:
            full = replace(algorithm, **keys).complete(SETTING)
            plan, words = full.plan(SETTING), ", ".join(f"{key} {value}" for key, value in keys.items())
            pure = plan.definition == "pure"
            yield words, spent(full, SETTING, partial(linear_price, pure=pure), pure), plan.total
    elif isinstance(algorithm, PrivateFamily) and algorithm.form.established:
        for keys in FAMILY:
            try:
                made: Any = replace(algorithm, **keys).complete(LONGER)
            except SpecError:
                continue  # what is refused is no configuration of it
            words = ", ".join(f"{key} {value}" for key, value in keys.items())
            if keys.get("perturb") is None:
                yield words, spent(made, LONGER, objective_price, True), float(made.totals(LONGER)[-1, 0])
            else:
                count = len(made.schedule(LONGER).releases)
                yield words, spent(made, LONGER, linear_price, False), made.mu(LONGER) * math.sqrt(count)


def spent(full: Any, setting: Setting, price: Callable[..., Floats], pure: bool) -> float:
    """The dearest of all other first rows over a whole run of the first node."""
    rows, others = held(None), [held(changed) for changed in WORST]
    nodes = [Node(full, setting, i, rows, noise_of=lambda t: SeededNoise(1, t)) for i in (0, 1)]
    total = np.zeros(len(others))
    for iteration in range(1, full.iterations(setting) + 1):
        if nodes[0].local.reads(iteration):
            costs = price(nodes[0].local, iteration, rows, others)
            total += costs if pure else costs**2
        sent = [node.send() for node in nodes]
        for node, other in zip(nodes, reversed(sent), strict=True):
            node.receive(other)
    worst = float(total.max())
    return worst if pure else math.sqrt(worst)


def held(changed: Any) -> Rows:
    """What a node holds; its first row may be another."""
    rows, labels = people(changed)
    rows = rows[:20] / np.maximum(1.0, np.linalg.norm(rows[:20], axis=1))[:, None]
    return Rows.dense(rows, 2.0 * labels[:20] - 1)


def linear_price(local: Any, iteration: int, rows: Rows, others: list[Rows], pure: bool = False) -> Floats:
    """A message that is linear in its draws."""

    def shown(held: Rows, noise: Noise) -> Floats:
        sent = local.draw(iteration, held, noise)
        return np.concatenate([np.asarray(sent[name], np.float64).ravel() for name in sorted(sent)])

    base, effects = draw_effects(partial(shown, rows))
    return np.array([priced(effects, base - shown(other, ZeroNoise()), pure) for other in others])


def objective_price(local: Any, iteration: int, rows: Rows, others: list[Rows]) -> Floats:
    """Solutions with noise in the objective: at the worst noise, with the last noise that hides how they are found."""
    made: Objective = local.perturbation
    rate, served, drawn = made.rates[iteration - 1], exact_noise, np.zeros(rows.width)
    reach = served(rate, rows.width, made.shift, SeededNoise(1))[1]
    kappa = local.ridge + 2 * local.schedule.penalty[iteration - 1, local.node] * len(local.neighbours)
    far = 1.01 * math.sqrt(rows.width) * 2 * (made.tolerance + reach) / kappa
    worst = np.zeros(len(others))

    def found(held: Rows, given: Floats) -> tuple[Floats, Floats, float]:
        """The solution with this noise; gradient and determinant of the rows there."""
        drawn[:] = given
        weights = local.draw(iteration, held, ZeroNoise())["f"]
        return weights, *curved(local, held, weights, kappa)

    with function(served, lambda *given: (drawn.copy(), reach)):
        for noise in (each / rate for each in NOISES):
            weights, pull, volume = found(rows, noise)
            for place, other in enumerate(others):
                gradient, turned = curved(local, other, weights, kappa)
                moved = noise + pull - gradient
                apart = float(np.abs(found(other, moved)[0] - weights).sum())
                loss = rate * float(np.linalg.norm(moved) - np.linalg.norm(noise)) + volume - turned
                price = abs(loss) + made.tail if apart <= far else math.inf  # no noise there gives this solution
                worst[place] = max(worst[place], price)
    return worst


def curved(local: Any, rows: Rows, weights: Floats, kappa: float) -> tuple[Floats, float]:
    """Gradient of a node's own rows, and the logarithm of the determinant of its curvature."""
    gradient, matrix = rows.curvature(weights, local.algorithm.loss_function)
    whole = local.scale * matrix + kappa * np.eye(len(weights))
    return local.scale * gradient, float(np.linalg.slogdet(whole)[1])
