"""The law of everything that promises privacy: it is audited through the methods that serve people.

>>> from fairveil.privacy.mechanisms import Laplace
>>> check_audited("mechanism", Laplace(sensitivity=1.0, epsilon=1.0))
['no-noise', 'half-noise', 'reused-noise']
"""

from __future__ import annotations

from typing import Any

from fairveil import registry
from fairveil.configuration import describe
from fairveil.errors import ContractError, FairveilError
from fairveil.privacy.audit.everything import fresh
from fairveil.privacy.audit.mutants import mutants_of
from fairveil.privacy.audit.pair import KIND, find_pair

NEEDED = ("no-noise", "raw-report")
"""Mutants of which a thing has at least one: its served method draws nothing."""


def check_audited(kind: str, thing: Any) -> list[str]:
    """A thing with a promise has a pair of worlds and mutants, and the pair notices when served methods draw nothing.

    A pair that computes releases itself, beside the code that serves people, does not notice, and would go on saying
    "consistent" whatever became of that code. Returns the names of the mutants.
    """
    names = [
        entry.name for entry in registry.entries(KIND) if entry.name.partition("/")[0] == f"{kind}:{thing.name}"
    ]
    if not names:
        raise ContractError(
            "it promises privacy and has no pair of worlds",
            fix=f'register("audit-pair", "{kind}:{thing.name}"), see docs/guides/audit.md',
        )
    mutants = {mutant.name: mutant for mutant in mutants_of(kind, thing)}
    planted = [mutants[name] for name in NEEDED if name in mutants]
    if not planted:
        raise ContractError(
            "it promises privacy and nobody has planted a mutant in it",
            allowed=" or ".join(NEEDED),
            fix=f'register("mutant", "{kind}:{thing.name}/no-noise"), see docs/guides/audit.md',
        )
    for mutant in planted:
        with mutant.plant(thing):
            if not any(_notices(kind, thing, name) for name in names):
                raise ContractError(
                    f"no audit notices {mutant.words}",
                    given=mutant.name,
                    fix="let the pair of worlds call the methods that serve people, with the noise it is given",
                )
    return list(mutants)


def _notices(kind: str, thing: Any, name: str) -> bool:
    """Does a pair give the same output in every trial, or is the mutant refused outright?"""
    second = name.partition("/")[2]
    target = {"kind": kind, **describe(thing)} | ({"pair": second} if second else {})
    try:
        return not fresh(find_pair(target)[1], "seeded", 0)
    except FairveilError:
        return True
