"""What a mutant is, which mutants a registered thing has, and what catches them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from fairveil import registry
from fairveil.errors import SpecError

KIND = "mutant"
Plant = Callable[[Any], AbstractContextManager[None]]
"""``plant(thing)``: the served code of a thing is broken inside the block and whole again after it."""


@dataclass(frozen=True)
class Mutant:
    """One privacy mistake planted in served code.

    ``harmless`` argues why it changes nothing where it cannot be caught; everything else must be caught. ``by_law``:
    the laws of its kind are asked before the audits, which take longer.
    """

    name: str
    words: str
    plant: Plant
    harmless: str = ""
    by_law: bool = False


Rule = Callable[[str, Any], list[Mutant]]
"""``rule(kind, thing)``: the mutants of this rule that apply to a thing."""

_RULES: list[Rule] = []


def rule(made: Rule) -> Rule:
    """Decorator: a table of mutants that applies to every registered thing of some kinds."""
    _RULES.append(made)
    return made


def mutants_of(kind: str, thing: Any, registered: Iterable[registry.Entry] | None = None) -> list[Mutant]:
    """All mutants of a thing: what the rules make of its served methods, and what its own package registers.

    ``registered``: where to look for own mutants; everywhere when left out, which loads all modules of audits. Own
    mutants are registered as ``<kind>:<name>/<mutant>``; a mutant of the same name replaces that of a rule.
    """
    own = list(registry.entries(KIND) if registered is None else registered)  # loads the modules that hold rules, too
    found = {mutant.name: mutant for made in _RULES for mutant in made(kind, thing)}
    prefix = f"{kind}:{thing.name}/"
    for entry in own:
        if entry.name.startswith(prefix):
            made = entry.target(thing)
            if made is None:
                continue
            if not isinstance(made, Mutant):
                raise SpecError("this is not a mutant", path=entry.name, given=type(made).__name__, allowed="Mutant")
            found[made.name] = made
    return list(found.values())
