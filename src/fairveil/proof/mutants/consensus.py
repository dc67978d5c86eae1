"""Privacy mistakes planted in the served code of consensus algorithms: each must be caught by an audit or a law."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fairveil.arrays import Floats
from fairveil.consensus.family import AdmmLocal
from fairveil.consensus.losses import Logistic
from fairveil.consensus.perturbation import PrintedObjective
from fairveil.consensus.private_admm import GradientLocal, PrivateAdmm
from fairveil.consensus.release_plan import ReleasePlan
from fairveil.consensus.rows import Rows, UnitRows
from fairveil.consensus.solver import LocalSolver
from fairveil.consensus.task import train_loss
from fairveil.federated import Inbox
from fairveil.privacy.noise import Noise, ZeroNoise
from fairveil.proof import AuditPair
from fairveil.proof.engine.bounds import FinerClaim
from fairveil.proof.mutants import Method, Mutant, broken_copy, in_method, method, no_clip, rule, twin
from fairveil.proof.mutants.everywhere import noise_mutants
from fairveil.proof.pairs.consensus import STATISTIC, WORLDS, TwoNodes, centre, ratio_of, rows_of
from fairveil.randomness import Generator


def local_of(algorithm: Any) -> type:
    """The class whose `draw` serves people."""
    return GradientLocal if algorithm.everybody else AdmmLocal


@twin
def read_again(original: Method, self: AdmmLocal, iteration: int) -> Any:
    """The recycled step solves its problem on the rows again, without noise."""
    if self.solver is None:
        return original(self, iteration)
    kept, self.perturbation = self.perturbation, None
    try:
        return self.draw(iteration, self.solver.rows, None)
    finally:
        self.perturbation = kept


@twin
def steeper(original: Method, self: UnitRows, weights: Any, steepest: int) -> Any:
    """A row pulls with its whole slope, whatever the bound that its noise was made for."""
    return original(self, weights, 2**16)


@twin
def bare_curvature(original: Method, self: ReleasePlan, which: int, units: Any, noise: Noise) -> Any:
    """The curvature goes out without noise: only the gradients are thought to be data."""
    return original(self, which, units, ZeroNoise() if which < 2 else noise)


@rule
def consensus_mutants(kind: str, thing: Any) -> list[Mutant]:
    """What applies to the private algorithms."""
    if kind != "algorithm" or not thing.private:
        return []
    found = [
        *noise_mutants(lambda algorithm, change: method(local_of(algorithm), "draw", change)),
        Mutant("no-clip", "rows enter as they come", no_clip),
        Mutant(
            "drawn-on-retry",
            "a message that is asked for twice is drawn twice",
            in_method(Inbox, "own", lambda _: lambda self, sync: None),
        ),
    ]
    if thing.everybody:
        found.append(Mutant("steeper", "a pull without its bound", in_method(UnitRows, "pulls", steeper)))
        found.append(
            Mutant("bare-curvature", "curvature without noise", in_method(ReleasePlan, "noisy", bare_curvature))
        )
    elif thing.recycles:
        found.append(
            Mutant("read-again", "a recycled step that reads the rows", in_method(AdmmLocal, "recycle", read_again))
        )
    return found


def _one_round(epsilon: float) -> tuple[ReleasePlan, FinerClaim]:
    scene = TwoNodes.of(PrivateAdmm(epsilon=epsilon, rounds=1), 1)
    assert isinstance(scene.algorithm, PrivateAdmm)
    plan = scene.algorithm.plan(scene.setting)
    return plan, FinerClaim("mu", plan.total)


def _gradients(plan: ReleasePlan, rows: UnitRows, noise: Noise, trials: int) -> Floats:
    """First gradients of many nodes."""
    units = np.tile(rows.pulls(np.zeros(2), plan.steepest), trials)
    return np.ldexp((units + noise.gaussian(plan.scales[2], len(units))).astype(np.float64), -plan.grids[2]).reshape(
        trials, -1
    )


def _seen_gradient(epsilon: float, make: Callable[..., Floats], words: str, trials: int = 100_000) -> AuditPair:
    plan, claim = _one_round(epsilon)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        return make(plan, world, trials, noise)

    return AuditPair(run, words, STATISTIC, epsilon, 1e-5, claim, trials=trials)


@broken_copy("algorithm:private-admm/scaled-by-the-maximum")
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


@broken_copy("algorithm:private-admm/stops-on-raw-loss")
def stops_on_raw_loss(epsilon: float) -> AuditPair:
    """The run ends when the raw training loss is low: that it ended is a release nobody paid for."""

    def make(plan: ReleasePlan, world: int, trials: int, noise: Noise) -> Floats:
        rows = rows_of(world)
        seen = _gradients(plan, UnitRows(rows, plan.bits, plan.reach), noise, trials)
        single = Rows(rows.values[1:], rows.columns[1:], rows.signs[1:], rows.width)
        stopped = np.array([train_loss([single], -point[None, :]) < np.log(2) for point in seen])
        return np.where(stopped, 1.0, -1.0) * np.sign(-seen[:, 0])

    return _seen_gradient(epsilon, make, WORLDS)


@broken_copy("algorithm:private-m-admm/loose-solver")
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


@broken_copy("algorithm:private-m-admm/alpha-of-the-centre")
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
