"""Modules that have moved: an old path still imports, says where it went, and is one and the same module.

Whoever wrote ``from fairveil.privacy.audit import audit`` for 0.1.0, and every file that names a class by an old module
(a pickle), goes on working with a DeprecationWarning. A module below a moved package is looked up by itself first, then
below the new place of that package.

>>> new_name("fairveil.privacy.ledger.book"), new_name("fairveil.privacy.noise")
('fairveil.ledger.book', None)
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {
    "fairveil.attacks": "fairveil.proof.attacks",
    "fairveil.attacks.attack": "fairveil.proof.attacks",
    "fairveil.bandits.contract": "fairveil.proof.laws.policies",
    "fairveil.bandits.environments.laws": "fairveil.bandits.environments.arms",
    "fairveil.bandits.exposure.secure_agent": "fairveil.bandits.exposure.federation",
    "fairveil.bandits.laws": "fairveil.proof.laws",
    "fairveil.bandits.laws.conduct": "fairveil.proof.laws.policies",
    "fairveil.bandits.laws.lateness": "fairveil.proof.laws.policies",
    "fairveil.bandits.meritocratic.schema": "fairveil.bandits.meritocratic.scaling",
    "fairveil.bandits.mutants": "fairveil.proof.mutants.bandits",
    "fairveil.bandits.nash.following": "fairveil.bandits.nash.stopping",
    "fairveil.bandits.nash.ncb_printed": "fairveil.bandits.nash.ncb",
    "fairveil.bandits.plans": "fairveil.bandits.quotes",
    "fairveil.bandits.steps": "fairveil.bandits.simulate",
    "fairveil.classify.checks": "fairveil.classify.people",
    "fairveil.classify.fair.blocks": "fairveil.classify.fair.zones",
    "fairveil.classify.fair.margin": "fairveil.classify.fair.auditor",
    "fairveil.classify.fair.notions": "fairveil.fairness.notions",
    "fairveil.classify.fair.report": "fairveil.classify.fair.zones",
    "fairveil.classify.game.exponential_printed": "fairveil.classify.game.exponential",
    "fairveil.classify.game.fair_nr": "fairveil.classify.game.no_regret",
    "fairveil.classify.game.ftpl_printed": "fairveil.classify.game.ftpl",
    "fairveil.classify.game.oracles": "fairveil.classify.game.no_regret",
    "fairveil.classify.game.people": "fairveil.classify.people",
    "fairveil.classify.game.private_game": "fairveil.classify.game.exponential",
    "fairveil.classify.laws": "fairveil.proof.laws.learners",
    "fairveil.classify.postprocessing": "fairveil.classify.with_fairlearn",
    "fairveil.classify.randomised": "fairveil.classify.mixins",
    "fairveil.classify.reductions": "fairveil.classify.with_fairlearn",
    "fairveil.client.local": "fairveil.client.clients",
    "fairveil.consensus.accounting": "fairveil.consensus.private",
    "fairveil.consensus.budget": "fairveil.consensus.perturbation",
    "fairveil.consensus.clipped_sums": "fairveil.consensus.rows",
    "fairveil.consensus.exchange": "fairveil.consensus.public_path",
    "fairveil.consensus.laws": "fairveil.proof.laws.algorithms",
    "fairveil.consensus.measure": "fairveil.consensus.task",
    "fairveil.consensus.noises": "fairveil.consensus.perturbation",
    "fairveil.consensus.printed": "fairveil.consensus.perturbation",
    "fairveil.consensus.schedule": "fairveil.consensus.algorithm",
    "fairveil.consensus.sound": "fairveil.consensus.perturbation",
    "fairveil.data.folder": "fairveil.data.files",
    "fairveil.data.reading": "fairveil.data.files",
    "fairveil.data.sequences": "fairveil.data.series",
    "fairveil.data.shelf": "fairveil.data.tables",
    "fairveil.data.source": "fairveil.data.schema",
    "fairveil.dynamics.levels": "fairveil.dynamics.problem",
    "fairveil.dynamics.longterm.world": "fairveil.dynamics.longterm.loop",
    "fairveil.dynamics.measures": "fairveil.dynamics.population",
    "fairveil.dynamics.participation.criterion_task": "fairveil.dynamics.participation.criteria",
    "fairveil.dynamics.participation.draws": "fairveil.dynamics.draws",
    "fairveil.dynamics.participation.growth": "fairveil.dynamics.participation.model",
    "fairveil.dynamics.participation.reshape": "fairveil.dynamics.participation.model",
    "fairveil.dynamics.participation.retention": "fairveil.dynamics.participation.model",
    "fairveil.dynamics.participation.trained_task": "fairveil.dynamics.participation.trained",
    "fairveil.dynamics.qualification.conditions": "fairveil.dynamics.qualification.model",
    "fairveil.dynamics.qualification.draws": "fairveil.dynamics.draws",
    "fairveil.dynamics.qualification.interventions": "fairveil.dynamics.qualification.equilibria",
    "fairveil.dynamics.qualification.trained_task": "fairveil.dynamics.qualification.trained",
    "fairveil.dynamics.strategic.draws": "fairveil.dynamics.draws",
    "fairveil.dynamics.strategic.policies": "fairveil.dynamics.strategic.scene",
    "fairveil.dynamics.utility": "fairveil.dynamics.search",
    "fairveil.fairness.counting": "fairveil.fairness.groups",
    "fairveil.fairness.reports": "fairveil.fairness.metrics",
    "fairveil.federated.inbox": "fairveil.federated.party",
    "fairveil.federated.outbox": "fairveil.ledger.account",
    "fairveil.laws": "fairveil.proof.laws",
    "fairveil.privacy.audit": "fairveil.proof",
    "fairveil.privacy.audit.attack": "fairveil.proof.engine.attack",
    "fairveil.privacy.audit.bounds": "fairveil.proof.engine.bounds",
    "fairveil.privacy.audit.drivers": "fairveil.proof.engine.adapter",
    "fairveil.privacy.audit.everything": "fairveil.proof.engine.everything",
    "fairveil.privacy.audit.gaussian": "fairveil.proof.engine.bounds",
    "fairveil.privacy.audit.laws": "fairveil.proof.engine.everything",
    "fairveil.privacy.audit.mutants.mutant": "fairveil.proof.mutants.mutant",
    "fairveil.privacy.audit.mutants.noises": "fairveil.proof.mutants.mutant",
    "fairveil.privacy.audit.mutants.planting": "fairveil.proof.mutants.mutant",
    "fairveil.privacy.audit.mutants.rules": "fairveil.proof.mutants.everywhere",
    "fairveil.privacy.audit.pair": "fairveil.proof.pairs",
    "fairveil.privacy.audit.runs": "fairveil.proof.engine.audit",
    "fairveil.privacy.audit.scores": "fairveil.proof.engine.attack",
    "fairveil.privacy.audit.task": "fairveil.proof.engine.audit",
    "fairveil.privacy.audit.twins": "fairveil.proof.mutants.mechanisms",
    "fairveil.privacy.calibration.budget": "fairveil.privacy.calibration",
    "fairveil.privacy.histograms.prefix": "fairveil.privacy.histograms.codes",
    "fairveil.privacy.histograms.result": "fairveil.privacy.histograms.histogram",
    "fairveil.privacy.histograms.tree": "fairveil.privacy.histograms.codes",
    "fairveil.privacy.ledger": "fairveil.ledger",
    "fairveil.privacy.ledger.laws": "fairveil.proof.adapters.ledger",
    "fairveil.privacy.ledger.mutants": "fairveil.proof.adapters.ledger",
    "fairveil.privacy.mechanisms.exact": "fairveil.privacy.grid",
    "fairveil.privacy.mechanisms.selection": "fairveil.privacy.mechanisms.base",
    "fairveil.privacy.sums.laws": "fairveil.proof.laws.sums",
    "fairveil.streams.absorption": "fairveil.streams",
    "fairveil.streams.ahead": "fairveil.streams.serving.stream",
    "fairveil.streams.bank": "fairveil.streams.filters.kalman_bank",
    "fairveil.streams.baselines": "fairveil.streams",
    "fairveil.streams.clock": "fairveil.streams.serving.feed",
    "fairveil.streams.contract": "fairveil.proof.laws.releasers",
    "fairveil.streams.dft": "fairveil.streams.releasers.dft",
    "fairveil.streams.experts": "fairveil.streams.filters.experts",
    "fairveil.streams.fast": "fairveil.streams.releasers.fast",
    "fairveil.streams.feed": "fairveil.streams.serving.feed",
    "fairveil.streams.journal": "fairveil.streams.serving.journal",
    "fairveil.streams.keys": "fairveil.streams.releasers.common_fields",
    "fairveil.streams.leaky": "fairveil.streams.filters.leaky_sum",
    "fairveil.streams.limits": "fairveil.streams.columns",
    "fairveil.streams.people": "fairveil.streams.serving.people",
    "fairveil.streams.plain": "fairveil.streams.releasers.plain_release",
    "fairveil.streams.plan": "fairveil.streams.noise_plan",
    "fairveil.streams.predictive": "fairveil.streams.releasers.predictive",
    "fairveil.streams.private_kalman": "fairveil.streams.releasers.private_kalman",
    "fairveil.streams.publish": "fairveil.streams.serving.output",
    "fairveil.streams.quick": "fairveil.streams.filters.kernel",
    "fairveil.streams.serve": "fairveil.streams.serving.release_run",
    "fairveil.streams.shares": "fairveil.streams.budget_shares",
    "fairveil.streams.stream": "fairveil.streams.serving.stream",
}
"""Old path to new path. A package takes what is below it along."""


def new_name(name: str) -> str | None:
    """Where a module went; None for one that did not move."""
    place, below = name, ""
    while place not in MOVED:
        place, dot, last = place.rpartition(".")
        if not dot:
            return None
        below = f".{last}{below}"
    return MOVED[place] + below


class _KeepsItsNames(ModuleType):
    """A package whose own names win over modules: the import system binds a module into its parent after loading it.

    ``import fairveil.privacy.ledger.verify`` would otherwise put the module in the place of `fairveil.ledger.verify`, a
    function, for everybody else in the process.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and not isinstance(vars(self).get(name, value), ModuleType)):
            super().__setattr__(name, value)


class _Alias:
    """Gives the module at its new place under its old name."""

    def __init__(self, new: str) -> None:
        self.new = new

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.new)
        sys.modules[spec.name.rpartition(".")[0]].__class__ = _KeepsItsNames
        self.spec: Any = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has written the old name into it


class _Finder:
    """No subclass of importlib's: their module would make `import fairveil` slower."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        new = new_name(name) if name.startswith("fairveil.") else None
        if new is None or new == name:
            return None
        import warnings

        warnings.warn(f"{name} has moved to {new}", DeprecationWarning, stacklevel=2)  # frames of imports do not count
        return ModuleSpec(name, _Alias(new), is_package=True)  # type: ignore[arg-type]


def install() -> None:
    """Put the finder first, once: a moved package has the folder of the new one, which must not be loaded twice."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
