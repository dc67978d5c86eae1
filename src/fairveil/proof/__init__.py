"""Audits: try to break a privacy claim by telling two neighbouring worlds apart.

An audit runs one thing on two neighbouring inputs many times, chooses the event that separates the two worlds best on
one half of the trials, measures it on the other half, and turns the two hit counts into a lower bound on epsilon that
is right with the stated confidence (Clopper-Pearson). A bound above the claim is a proof of a bug; a bound below it
is not a proof of privacy.

Four words, and each has a room
-------------------------------
- *pair* (`pairs`): two neighbouring worlds of one thing and its claim; `engine` tells them apart and bounds epsilon.
- *law* (`laws`): what all things of a kind keep, a function that raises ContractError; plug-ins run the same ones.
- *mutant* (`mutants`): one mistake, planted in served code or in a copy of it, that a pair or a law must catch.
- *attack* (`attacks`): privacy as it fails in practice, played against a bare copy and against the code that serves.

`adapters` hold the laws and mutants of code that charges, stores and hands over, and draws nothing itself. This package
may import everything; nothing imports it. Others, the command line too, ask the registry (``get("laws", "policy")``).

How to make something auditable
-------------------------------
Register one function per pair of neighbouring worlds. Its name is ``"<kind>:<name>"``, or
``"<kind>:<name>/<pair>"`` for a second pair; it takes the built object and returns an `AuditPair`::

    from fairveil.proof import AuditPair
    from fairveil.registry import register

    @register("audit-pair", "policy:adap-ucb")
    def adap_ucb_pair(policy: AdapUcb) -> AuditPair:
        def run(world, trials, noise, rng):
            rewards = ...          # world 0 or 1: the two inputs differ in one unit
            return outputs         # shape (trials,) or (trials, k): what an observer sees, or a statistic of it

        return AuditPair(run, worlds="user 0's reward is 1 or 0", statistic="first noisy mean", epsilon=policy.epsilon)

``noise`` is the `Noise` that the thing must draw from (secure or seeded: the audit decides); ``rng`` is a seeded
generator for exploration and simulation (compiled kernels). Draw all trials at once where you can: an audit asks for
100,000 and more. Then ``{"task": "audit", "target": {"kind": "policy", "name": "adap-ucb", ...}}`` runs it, with
``"pair": "<pair>"`` in the target for a second pair, and `audit` runs it from Python::

    >>> from fairveil.proof import audit
    >>> def run(world, trials, noise, rng):
    ...     return world + noise.laplace(2.0**20, trials) / 2.0**20
    >>> finding = audit(run, epsilon=1.0, trials=20_000)
    >>> finding.verdict, 0.7 < finding.epsilon_lower <= 1.0
    ('consistent', True)
"""

from fairveil.proof.engine.attack import Finding, attack
from fairveil.proof.engine.audit import Audit, audit, outputs
from fairveil.proof.engine.bounds import MuEstimate, clopper_pearson, epsilon_lower, estimate_mu
from fairveil.proof.pairs import AuditPair, Run, find_pair

__all__ = [
    "Audit",
    "AuditPair",
    "Finding",
    "MuEstimate",
    "Run",
    "attack",
    "audit",
    "clopper_pearson",
    "epsilon_lower",
    "estimate_mu",
    "find_pair",
    "outputs",
]
