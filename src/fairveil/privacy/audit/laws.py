"""The law of everything that promises privacy: it is audited through the methods that serve people.

>>> from fairveil.privacy.mechanisms import Laplace
>>> check_audited("mechanism", Laplace(sensitivity=1.0, epsilon=1.0))
['no-noise', 'half-noise', 'reused-noise']
"""

from __future__ import annotations

import copy
from typing import Any

from fairveil import registry
from fairveil.errors import ContractError, FairveilError
from fairveil.privacy.audit.everything import fresh
from fairveil.privacy.audit.mutants import KIND as MUTANTS
from fairveil.privacy.audit.mutants import mutants_of
from fairveil.privacy.audit.pair import KIND

NEEDED = ("no-noise", "raw-report")
"""Mutants of which a thing has at least one: its served method draws nothing."""


def check_audited(kind: str, thing: Any) -> list[str]:
    """A thing with a promise has a pair of worlds and mutants, and the pair notices when served methods draw nothing.

    A pair that computes releases itself, beside the code that serves people, does not notice, and would go on saying
    "consistent" whatever became of that code. The mutants are planted in a copy of the thing with a class of its own:
    whoever is being served by the same class meanwhile is served by sound code. Returns the names of the mutants.
    """
    family = f"{kind}:{thing.name}"
    here = [entry for entry in registry.known() if entry.kind == KIND and entry.name.partition("/")[0] == family]
    pairs = here or [entry for entry in registry.entries(KIND) if entry.name.partition("/")[0] == family]
    if not pairs:
        raise ContractError(
            "it promises privacy and has no pair of worlds",
            fix=f'register("audit-pair", "{family}"), see docs/guides/audit.md',
        )
    twin = _apart(thing)
    own = [entry for entry in registry.known() if entry.kind == MUTANTS] if here else None
    mutants = {mutant.name: mutant for mutant in mutants_of(kind, twin, own)}
    planted = [mutants[name] for name in NEEDED if name in mutants]
    if not planted:
        raise ContractError(
            "it promises privacy and nobody has planted a mutant in it",
            allowed=" or ".join(NEEDED),
            fix=f'register("mutant", "{family}/no-noise"), see docs/guides/audit.md',
        )
    for mutant in planted:
        with mutant.plant(twin):
            if not any(_notices(entry.target, twin) for entry in pairs):
                raise ContractError(
                    f"no audit notices {mutant.words}",
                    given=mutant.name,
                    fix="let the pair of worlds call the methods that serve people, with the noise it is given",
                )
    return list(mutants)


def _apart(thing: Any) -> Any:
    """A copy whose class is its own, so that breaking its methods breaks nobody else's."""
    twin = copy.copy(thing)
    object.__setattr__(twin, "__class__", type(type(thing).__name__, (type(thing),), {}))
    return twin


def _notices(make: Any, thing: Any) -> bool:
    """Does a pair give the same output in every trial, or is the mutant refused outright?"""
    try:
        return not fresh(make(thing), "seeded", 0)
    except FairveilError:
        return True
