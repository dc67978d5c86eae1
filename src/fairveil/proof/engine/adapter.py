"""Adapter: code that serves people and draws nothing itself: it charges, stores, hands over and forgets.

An adapter has laws instead of pairs of worlds, and mutants that break them. It is listed among the things that promise
privacy: a guarantee is worth nothing where a charge is left out, or where a row stays after its release.
"""

from __future__ import annotations

import importlib
import pkgutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fairveil.errors import ContractError, FairveilError
from fairveil.proof.mutants import Mutant

ADAPTER = "adapter"
Law = Callable[[Path], None]
"""A law is shown an empty folder and raises ContractError."""


@dataclass(frozen=True)
class Checks:
    """The laws of an adapter and the mutants that break them: made by a function that is marked with `adapter`."""

    laws: tuple[Law, ...]
    mutants: tuple[Mutant, ...]

    def check(self) -> list[str]:
        """Run every law in a folder of its own; the names of the laws, or ContractError at the first broken one."""
        return self._kept(self.laws)

    def _kept(self, laws: tuple[Law, ...]) -> list[str]:
        for law in laws:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    law(Path(folder))
                except ContractError as problem:
                    raise ContractError(f"{law.__name__}: {problem.problem}") from None
        return [law.__name__ for law in laws]

    def caught_by(self, mutant: Mutant) -> str:
        """The law that a mutant breaks, or how served code refuses it; empty when it escapes.

        The law that the mutant names is asked first, the others where it holds.
        """
        with mutant.plant(self):
            try:
                self._kept(tuple(sorted(self.laws, key=lambda law: law.__name__ != mutant.breaks)))
            except ContractError as problem:
                return f"law {problem.problem.partition(':')[0]}"
            except FairveilError as problem:
                return f"refused: {problem.code}"
        return f"harmless: {mutant.harmless}" if mutant.harmless else ""


Make = Callable[[], Checks]
_MAKERS: dict[str, Make] = {}


def adapter(name: str) -> Callable[[Make], Make]:
    """Decorator: this function makes the adapter of this name."""

    def add(make: Make) -> Make:
        _MAKERS[name] = make
        return make

    return add


def adapters() -> dict[str, Make]:
    """Every adapter by name, not yet made."""
    rooms = importlib.import_module("fairveil.proof.adapters")
    for module in pkgutil.iter_modules(rooms.__path__, f"{rooms.__name__}."):
        importlib.import_module(module.name)
    return dict(sorted(_MAKERS.items()))
