"""Broken twins of the consensus algorithms: one planted mistake each. An audit that misses one is worth nothing.

Each twin claims what the sound algorithm claims and protects less. They are registered as ``audit-twin``, so that
`fairveil audit all` plants them beside the sound ones; nothing else may import them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fairveil.consensus.audit import STATISTIC, WORLDS, Scene, centre, ratio_of, rows_of
from fairveil.consensus.clipped_sums import UnitRows
from fairveil.consensus.losses import Logistic
from fairveil.consensus.measure import train_loss
from fairveil.consensus.printed import PrintedObjective, float_noise
from fairveil.consensus.private_admm import PrivateAdmm
from fairveil.consensus.release_plan import ReleasePlan
from fairveil.consensus.rows import Rows
from fairveil.consensus.solver import LocalSolver
from fairveil.privacy.audit import AuditPair
from fairveil.privacy.audit.bounds import FinerClaim
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.registry import register

Floats = NDArray[np.float64]


def _one_round(epsilon: float) -> tuple[ReleasePlan, FinerClaim]:
    scene = Scene.of(PrivateAdmm(epsilon=epsilon, rounds=1), 1)
    assert isinstance(scene.algorithm, PrivateAdmm)
    plan = scene.algorithm.plan(scene.setting)
    return plan, FinerClaim("mu", plan.total)


def _gradients(plan: ReleasePlan, rows: UnitRows, noise: Noise, trials: int, scale: float = 1.0) -> Floats:
    """First gradients with ``scale`` times the noise they need."""
    units = np.tile(rows.pulls(np.zeros(2), plan.steepest), trials)
    drawn = np.rint(scale * noise.gaussian(plan.scales[2], len(units))).astype(np.int64)
    return np.ldexp((units + drawn).astype(np.float64), -plan.grids[2]).reshape(trials, -1)


def _seen_gradient(epsilon: float, make: Callable[..., Floats], words: str, trials: int = 100_000) -> AuditPair:
    plan, claim = _one_round(epsilon)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        return make(plan, world, trials, noise)

    return AuditPair(run, words, STATISTIC, epsilon, 1e-5, claim, trials=trials)


@register("audit-twin", "consensus-half-noise")
def half_noise(epsilon: float) -> AuditPair:
    """Noise for a row that is added or removed, while the promise is for one that is replaced."""

    def make(plan: ReleasePlan, world: int, trials: int, noise: Noise) -> Floats:
        known = [UnitRows(rows_of(w), plan.bits, plan.reach) for w in (0, 1)]
        seen = _gradients(plan, known[world], noise, trials, scale=0.5)
        return ratio_of(plan, 2, seen, [centre(plan, one, 2, np.zeros(2)) for one in known])

    return _seen_gradient(epsilon, make, WORLDS)


@register("audit-twin", "consensus-unclipped-row")
def unclipped_row(epsilon: float) -> AuditPair:
    """Nobody clips: the row in question has norm 2."""

    def make(plan: ReleasePlan, world: int, trials: int, noise: Noise) -> Floats:
        known = []
        for w in (0, 1):
            rows = UnitRows(rows_of(w), plan.bits, plan.reach)
            rows.units[1] *= 2
            known.append(rows)
        seen = _gradients(plan, known[world], noise, trials)
        return ratio_of(plan, 2, seen, [centre(plan, one, 2, np.zeros(2)) for one in known])

    return _seen_gradient(epsilon, make, WORLDS + ", twice as long as allowed")


@register("audit-twin", "consensus-fresh-noise-on-retry")
def fresh_noise_on_retry(epsilon: float) -> AuditPair:
    """A message that is asked for twice is drawn twice."""

    def make(plan: ReleasePlan, world: int, trials: int, noise: Noise) -> Floats:
        known = [UnitRows(rows_of(w), plan.bits, plan.reach) for w in (0, 1)]
        centres = [centre(plan, one, 2, np.zeros(2)) for one in known]
        both = [ratio_of(plan, 2, _gradients(plan, known[world], noise, trials), centres) for _ in range(2)]
        return both[0] + both[1]

    return _seen_gradient(epsilon, make, WORLDS, trials=1_200_000)


@register("audit-twin", "consensus-gradient-read-again")
def gradient_read_again(epsilon: float) -> AuditPair:
    """The recycled step computes the gradient from the rows instead of from the optimality condition."""

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        rows = rows_of(world)
        out = np.empty(trials)
        for trial in range(trials):
            released = float_noise(1.0, 2, noise)  # whatever was released: everybody knows it
            step = released - rows.gradient(released, Logistic()) / 3.0
            read = (released - step) * 3.0  # the observer solves the even step for the gradient
            known = [rows_of(w).gradient(released, Logistic()) for w in (0, 1)]
            out[trial] = np.linalg.norm(read - known[1]) - np.linalg.norm(read - known[0])
        return out

    return AuditPair(run, WORLDS, "the even step solved for the gradient", epsilon, trials=1_500)


@register("audit-twin", "consensus-scaled-by-the-maximum")
def scaled_by_the_maximum(epsilon: float) -> AuditPair:
    """Columns are divided by the largest entry in the data: one long row shortens all others."""
    crowd = np.ones((40, 1))

    def make(plan: ReleasePlan, world: int, trials: int, noise: Noise) -> Floats:
        known = []
        for last in (1.0, 10.0):
            values = np.concatenate([crowd, [[last]]])
            rows = Rows.dense(np.concatenate([values / values.max(), np.zeros((41, 1))], axis=1), np.ones(41))
            known.append(UnitRows(rows, plan.bits, plan.reach))
        seen = _gradients(plan, known[world], noise, trials)
        return ratio_of(plan, 2, seen, [centre(plan, one, 2, np.zeros(2)) for one in known])

    return _seen_gradient(epsilon, make, "one of 41 rows is 1, or 10, and columns are scaled by their maximum")


@register("audit-twin", "consensus-stops-on-raw-loss")
def stops_on_raw_loss(epsilon: float) -> AuditPair:
    """The run ends when the raw training loss is low: that it ended is a release nobody paid for."""

    def make(plan: ReleasePlan, world: int, trials: int, noise: Noise) -> Floats:
        rows = rows_of(world)
        seen = _gradients(plan, UnitRows(rows, plan.bits, plan.reach), noise, trials)
        single = Rows(rows.values[1:], rows.columns[1:], rows.signs[1:], rows.width)
        stopped = np.array([train_loss([single], -point[None, :]) < np.log(2) for point in seen])
        return np.where(stopped, 1.0, -1.0) * np.sign(-seen[:, 0])

    return _seen_gradient(epsilon, make, WORLDS)


@register("audit-twin", "consensus-loose-solver")
def loose_solver(epsilon: float) -> AuditPair:
    """Noise in the objective, a solver that stops early, and nothing that hides where it stopped.

    One Newton step is enough for the solver, and its length depends on the curvature: some solutions are out of reach
    in one world.
    """
    scale, kappa = 4.0, 2.0
    rate = (epsilon - float(np.log1p(0.25 * scale / kappa))) / (2 * scale)
    tolerance = 0.8 / rate

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        rows = Rows.dense([[1.0 if world == 0 else 0.0]], [1.0])
        how = PrintedObjective(2 * scale, tolerance, (rate,))
        solved = (
            how.release(LocalSolver(rows, Logistic(), scale), 1, kappa, np.zeros(1), noise) for _ in range(trials)
        )
        return np.abs(np.concatenate(list(solved)))

    return AuditPair(run, "the only row is 1 or 0", "size of the released weight", epsilon, trials=8_000)


@register("audit-twin", "consensus-alpha-of-the-centre")
def alpha_of_the_centre(epsilon: float) -> AuditPair:
    """One alpha for all nodes of a star, by the bound of the node with most neighbours: a leaf adds a quarter of it."""
    leaves = 4
    kappa, jacobian = 2.0, float(np.log1p(0.25 / 2.0))
    alpha = (epsilon - jacobian) * leaves  # q alpha/(eta V) of the centre, eta = q = 1
    rate = alpha / 2  # a leaf adds 2 eta V e with V = 1

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        rows = [Rows.dense([[side]], [1.0]) for side in (1.0, -1.0)]
        how = PrintedObjective(2.0, 1e-9, (rate,))
        out = np.empty(trials)
        for trial in range(trials):
            solver = LocalSolver(rows[world], Logistic(), 1.0)
            found = how.release(solver, 1, kappa, np.zeros(1), noise)
            noises = [abs(float(one.gradient(found, Logistic())[0] + kappa * found[0])) for one in rows]
            out[trial] = rate * (noises[1] - noises[0])
        return out

    return AuditPair(run, "the only row of a leaf is 1 or -1", STATISTIC, epsilon, trials=10_000)
