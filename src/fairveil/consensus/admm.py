"""ADMM: every node solves its own problem, pulled toward its neighbours."""

from __future__ import annotations

from fairveil.configuration import configuration
from fairveil.consensus.family import AdmmFamily
from fairveil.registry import register


@register("algorithm", "admm")
@configuration
class Admm(AdmmFamily):
    """Decentralised ADMM for one linear classifier. No privacy.

    Guarantee: none; every message is a function of raw rows.
    Cost: one local solve an iteration (two to five passes over the rows), one vector to every neighbour. Memory O(d^2).
    Converges to the optimum of sum_i O(f, D_i) on every connected graph. The dual step is the smallest penalty.

    >>> import fairveil
    >>> spec = {"task": "consensus", "algorithm": {"name": "admm", "penalty": 1.0}, "iterations": 60,
    ...         "data": {"name": "logistic", "rows": 500, "features": 3, "test": 100}}
    >>> fairveil.run(spec)["metrics"]["objective_gap"][-1] < 1e-6
    True

    Reference: Forero, Cano and Giannakis 2010; thesis (2.8), (2.9).
    """
