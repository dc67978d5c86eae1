"""Convergence and sample-size theorems of the thesis as functions: premises, what fails, at which node, by how much.

Each function takes public numbers and returns a `Finding`. Where the printed form and the right one differ both are
computed. Reference: Zhang, *Socially Responsible Machine Learning*, chapter 2 and appendix A; errata:
docs/errata/consensus.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from fairveil.arrays import Floats
from fairveil.consensus.graphs import Graph
from fairveil.errors import SpecError


@dataclass(frozen=True)
class Finding:
    """Whether the premises hold; if not, which inequality fails first, where, and the numbers in it."""

    holds: bool
    premises: tuple[str, ...]
    fails: str = ""
    node: int | None = None
    iteration: int | None = None
    numbers: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def check_theorem_1(
    graph: Graph, eta: Any, theta: Any, T: int | None = None, *, grows_for_ever: bool = False
) -> Finding:
    """Theorem 1 (M-ADMM converges): eta_i(t+1) >= eta_i(t) >= theta > 0 at every node, bounded.

    ``eta`` and ``theta``: a number, one a node, one row an iteration and one column a node, or (with ``T``, the number
    of iterations) a function of the iteration, counted from 1. The proof also uses x'(W - theta I)(D - A)x >= 0, which
    fails when penalties differ between nodes (`weak_step`): reported as a note.

    >>> from fairveil.consensus.graphs import make_graph
    >>> found = check_theorem_1(make_graph("ring", 3), [[1.0, 1.0, 1.0], [1.0, 0.9, 1.0]], 0.5)
    >>> found.holds, found.node, found.iteration, found.fails
    (False, 1, 2, 'eta_i(t) >= eta_i(t-1)')
    >>> check_theorem_1(make_graph("ring", 3), lambda t: 1.1 ** (t - 1), 0.5, 10).holds
    True
    """
    eta, theta = (_by_iteration(name, value, T, len(graph)) for name, value in (("eta", eta), ("theta", theta)))
    eta, theta = np.broadcast_arrays(eta, theta) if len(eta) == 1 or len(theta) == 1 else (eta, theta)
    if eta.shape != theta.shape:
        raise SpecError("eta and theta cover other iterations", path="theta", given=len(theta), allowed=str(len(eta)))
    premises = ("eta_i(t) >= eta_i(t-1)", "eta_i(t) >= theta", "theta > 0", "eta_i(t) is bounded")
    notes: list[str] = []
    if not np.allclose(eta, eta[:, :1]):
        notes.append(
            "the proof uses that (W - theta I)(D - A) is positive semidefinite, which fails for node-dependent "
            f"penalties: smallest eigenvalue {weak_step(graph, eta[-1], float(theta[-1].min())):.3g}"
        )
    if not np.allclose(theta, theta[:, :1]):
        notes.append("the dual step differs between nodes: the limit is not the optimum")
    for t, i in zip(*np.nonzero(eta[1:] < eta[:-1] * (1 - 1e-12))):
        return _fails(premises, 0, i, t + 2, {"eta": float(eta[t + 1, i]), "before": float(eta[t, i])}, notes)
    for t, i in zip(*np.nonzero(theta <= 0)):
        return _fails(premises, 2, i, t + 1, {"theta": float(theta[t, i])}, notes)
    for t, i in zip(*np.nonzero(eta < theta * (1 - 1e-12))):
        return _fails(premises, 1, i, t + 1, {"eta": float(eta[t, i]), "theta": float(theta[t, i])}, notes)
    if grows_for_ever:
        notes.append("the penalty grows without bound: the proof does not apply and the method freezes")
    return Finding(True, premises, notes=tuple(notes))


def _by_iteration(name: str, value: Any, T: int | None, nodes: int) -> Floats:
    """One row an iteration, one column a node."""
    if callable(value):
        if T is None:
            raise SpecError("a function of the iteration needs their number", path="T", allowed="iterations, from 1 on")
        value = [np.broadcast_to(np.asarray(value(t), float), (nodes,)) for t in range(1, T + 1)]
    found = np.atleast_2d(np.asarray(value, float))
    if found.shape[1] not in (1, nodes) or (T is not None and len(found) not in (1, T)):
        raise SpecError(
            "a schedule has one row an iteration and one column a node", path=name, given=f"shape {found.shape}",
            allowed=f"({'iterations' if T is None else T}, {nodes}), {nodes} numbers, or one",
        )  # fmt: skip
    return np.broadcast_to(found, (len(found) if T is None else T, nodes))


def _fails(
    premises: tuple[str, ...], which: int, node: Any, iteration: Any, numbers: dict[str, Any], notes: list[str]
) -> Finding:
    return Finding(False, premises, premises[which], int(node), int(iteration), numbers, tuple(notes))


def weak_step(graph: Graph, penalty: ArrayLike, theta: float) -> float:
    """Smallest eigenvalue of the symmetric part of (W - theta I)(D - A): the proof of Theorem 1 needs it >= 0.

    >>> from fairveil.consensus.graphs import make_graph
    >>> round(weak_step(make_graph("star", 2), [1.5, 0.5], 0.5), 4)
    -0.2071
    """
    product = (np.diag(np.asarray(penalty, float)) - theta * np.eye(len(graph))) @ graph.laplacian
    return float(np.linalg.eigvalsh((product + product.T) / 2)[0])


def rate_theorem_2(graph: Graph, eta: ArrayLike, theta: float, m: float, M: float) -> Finding:
    """Theorem 2 (linear rate of M-ADMM): the largest delta over mu, by (2.33) as printed and corrected.

    ``m`` and ``M`` are the smallest strong convexity and the largest smoothness of the local objectives. Corrected: on
    the consensus direction (D - A) 1 = 0, so the numerator is 2 m, not 2 m + 2 sigma_min; and the denominator has
    sigma_max((W - theta I)(D - A)), as in (A.28).
    """
    eta = np.asarray(eta, float) * np.ones(len(graph))
    spread = (np.diag(eta) - theta * np.eye(len(graph))) @ graph.laplacian
    tilde = float(np.linalg.norm(np.diag(eta) @ graph.signless, 2))
    values = np.linalg.svd(spread, compute_uv=False)
    bar = float(values[0])
    least = float(values[values > 1e-12 * max(bar, 1e-300)].min()) if bar > 0 else 0.0
    second = float(graph.spectrum[1])

    def rate(mu: Floats, numerator: float, size: float) -> Floats:
        first = theta * second / (mu**2 * tilde)
        below = (mu**2 * M**2 + mu * size**2) / (theta * second * (mu - 1)) + tilde
        return np.minimum(first, numerator / below)

    mu = 1 + np.geomspace(1e-3, 1e3, 4001)
    printed, right = rate(mu, 2 * m + 2 * least, tilde).max(), rate(mu, 2 * m, bar).max()
    premises = ("eta_i(t) >= theta > 0", "m > 0", "M finite")
    numbers = {
        "printed": float(printed),
        "corrected": float(right),
        "iterations_per_digit": math.log(10) / float(right),
    }
    if (eta < theta).any():
        node = int(np.argmin(eta))
        return Finding(False, premises, premises[0], node, None, {**numbers, "eta": float(eta[node]), "theta": theta})
    return Finding(True, premises, numbers=numbers)


def check_theorem_3(graph: Graph, eta: ArrayLike, gamma: float, M: float) -> Finding:
    """Theorem 3 (MR-ADMM converges), conditions (i) and (ii) with symmetrised matrices, searched over L and mu.

    ``numbers``: the best margin (smallest eigenvalue of left minus right, positive when both hold), the L and mu that
    give it, and the smallest gamma that works (None: no gamma does, as on every bipartite graph, where D + A is
    singular and (ii) is false in its null direction whatever gamma is). Reported, never enforced: the conditions are
    sufficient only, and far from what the method needs.
    """
    eta = np.asarray(eta, float) * np.ones(len(graph))
    premises = ("(i)", "(ii)", "D + A is positive definite")
    margin, best = _margins(graph, eta, gamma, M)
    numbers: dict[str, Any] = {"margin": margin, "L": best[0], "mu": best[1], "gamma": gamma, "least_gamma": None}
    if graph.bipartite:
        notes = ("the graph is bipartite: condition (ii) can never hold, whatever gamma",)
        return Finding(False, premises, premises[2], numbers=numbers, notes=notes)
    numbers["least_gamma"] = _least_gamma(graph, eta, M)
    failing = "" if margin > 0 else premises[best[2]]
    return Finding(margin > 0, premises, failing, numbers=numbers)


def _margins(graph: Graph, eta: Floats, gamma: float, M: float) -> tuple[float, tuple[float, float, int]]:
    W, plus, minus = np.diag(eta), graph.signless, graph.laplacian
    inverse = np.diag(1 / (2 * eta * graph.degrees + gamma))
    least = float((2 * eta * graph.degrees + gamma).min())
    pseudo = np.linalg.pinv(W @ minus)
    best = -math.inf, (1.0, 2.0, 1)
    for L in np.geomspace(1e-4, 1e6, 61):
        two = W @ plus - W @ plus @ inverse @ (W @ minus + 2 / L * W @ plus)
        one = np.eye(len(eta)) + W @ plus @ inverse
        for mu in (1.01, 1.1, 1.5, 2.0, 4.0, 16.0, 128.0):
            first = one - L * mu / (2 * least) * pseudo * M**2
            second = two - L * mu / (2 * least * (mu - 1)) * np.eye(len(eta)) * M**2
            lows = [float(np.linalg.eigvalsh((x + x.T) / 2)[0]) for x in (first, second)]
            if min(lows) > best[0]:
                best = min(lows), (float(L), mu, int(np.argmin(lows)))
    return best


def _least_gamma(graph: Graph, eta: Floats, M: float) -> float | None:
    """Bisection on a logarithmic scale; the margin rises with gamma."""
    low, high = 0.0, 12.0
    if _margins(graph, eta, 10**high, M)[0] <= 0:
        return None
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if _margins(graph, eta, 10**middle, M)[0] > 0 else (middle, high)
    return float(10**high)


def samples_theorem_6(reference: float, excess: float, delta: float, *, w: float = 1.0) -> Finding:
    """Theorem 6: rows a node needs without privacy, w |f_ref|^2 log(1/delta)/(tau - Delta)^2.

    The constant w is not given in the thesis: 1 here unless told.
    """
    _check(excess, delta)
    count = w * reference**2 * math.log(1 / delta) / excess**2
    return Finding(True, ("tau > Delta",), numbers={"rows": count}, notes=(f"the constant w is unknown: {w:g}",))


def samples_theorem_7(
    reference: float, excess: float, delta: float, *, dimension: int, C: float, alpha: float, nodes: int = 5,
    w: float = 1.0, a: float = 0.0,
) -> Finding:  # fmt: skip
    """Theorem 7: rows a node needs with noise of density exp(-alpha |e|); none suffices if the denominator is not > 0.

    ``least_alpha`` is where it becomes positive. Its limit for large alpha is twice Theorem 6's number, not the same.
    Nine arguments, since the theorem has as many numbers.

    >>> found = samples_theorem_7(10.0, 0.1, 0.05, dimension=105, C=1750.0, alpha=2.0)
    >>> found.holds, round(found.numbers["least_alpha"], 1)
    (False, 64.9)
    """
    _check(excess, delta)
    signal = nodes * C * excess**2 / (2 * reference**2)
    noise = (1 + a) * nodes * dimension**2 / C * math.log(dimension / delta) ** 2
    least = math.sqrt(noise / signal)
    below = signal - noise / alpha**2
    premise = ("N C (tau - Delta)^2/(2 |f_ref|^2) > (1 + a) N d^2 log(d/delta)^2/(C alpha^2)",)
    notes = (f"the constants w and a are unknown: {w:g} and {a:g}",)
    numbers = {
        "denominator": below,
        "least_alpha": least,
        "limit": 2 * w * reference**2 * math.log(1 / delta) / excess**2,
    }
    if below <= 0:
        return Finding(False, premise, "no sample size: the denominator is not positive", numbers=numbers, notes=notes)
    return Finding(True, premise, numbers={**numbers, "rows": w * C * nodes * math.log(1 / delta) / below}, notes=notes)


def _check(excess: float, delta: float) -> None:
    if not excess > 0:
        raise SpecError("the theorem needs tau > Delta", path="excess", given=excess, allowed="above 0")
    if not 0 < delta < 1:
        raise SpecError("delta is a probability", path="delta", given=delta, allowed="above 0, below 1")


def wrong_limit(slopes: ArrayLike, targets: ArrayLike, penalty: ArrayLike) -> tuple[float, float]:
    """Where printed MR-ADMM ends for scalar quadratics a_i (f - b_i)^2/2, and the optimum.

    With the own penalty as dual step sum_i lam_i/eta_i stays 0, so the limit solves sum_i a_i (f - b_i)/eta_i = 0.

    >>> [round(x, 4) for x in wrong_limit([1, 2, 3], [0, 1, 5], [0.5, 1, 2])]
    [1.7273, 2.8333]
    """
    a, b, eta = (np.asarray(x, float) for x in (slopes, targets, penalty))
    ends = [brentq(lambda f, w=w: float((a * (f - b) * w).sum()), b.min() - 1, b.max() + 1) for w in (1 / eta, 1.0)]
    return float(ends[0]), float(ends[1])
