"""Code that serves people and draws nothing itself: what charges, stores, hands over and forgets around every draw.

A driver has laws instead of pairs of worlds, and mutants that break them. It is listed among the things that promise
privacy: a guarantee is worth nothing where a charge is left out, or where a row stays after its release.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fairveil import registry
from fairveil.errors import ContractError, FairveilError
from fairveil.privacy.audit.mutants import Mutant

KIND = "driver"
Law = Callable[[Path], None]
"""A law is shown an empty folder and raises ContractError."""


@dataclass(frozen=True)
class Driver:
    """Registered as kind ``driver`` by a function without arguments that makes it."""

    laws: tuple[Law, ...]
    mutants: tuple[Mutant, ...]

    def check(self) -> list[str]:
        """Run every law in a folder of its own; the names of the laws, or ContractError at the first broken one."""
        for law in self.laws:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    law(Path(folder))
                except ContractError as problem:
                    raise ContractError(f"{law.__name__}: {problem.problem}") from None
        return [law.__name__ for law in self.laws]

    def caught_by(self, mutant: Mutant) -> str:
        """The law that a mutant breaks, or how served code refuses it; empty when it escapes."""
        with mutant.plant(self):
            try:
                self.check()
            except ContractError as problem:
                return f"law {problem.problem.partition(':')[0]}"
            except FairveilError as problem:
                return f"refused: {problem.code}"
        return f"harmless: {mutant.harmless}" if mutant.harmless else ""


def find_driver(name: str) -> Driver:
    """The registered driver of this name."""
    made: Driver = registry.get(KIND, name)()
    return made
