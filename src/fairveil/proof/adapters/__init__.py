"""Who makes releases through the one way out, each as an adapter that the laws can be shown, with what is its own."""

from fairveil.proof.engine.adapter import Checks
from fairveil.proof.laws.served import SAID_LOST, Adapter, laws_of
from fairveil.proof.mutants.served import mutants_of_the_path

__all__ = ["SAID_LOST", "Adapter", "checks_of", "laws_of"]


def checks_of(adapter: Adapter) -> Checks:
    """The laws and mutants of the path and the adapter's own; an own mutant replaces the path's of its name."""
    planted = {mutant.name: mutant for mutant in (*mutants_of_the_path(adapter.harmless), *adapter.mutants)}
    return Checks((*laws_of(adapter), *adapter.laws), tuple(planted.values()))
