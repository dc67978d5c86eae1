"""Declared groups: a list of names, or crossings of attributes whose cells are released and whose margins are free."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairveil.errors import SpecError

MOST_CELLS = 200


@dataclass(frozen=True)
class Declared:
    """Names of the cells, and of the margins with the cells that each of them is the sum of.

    >>> crossed = Declared.of({"sex": ["f", "m"], "age": ["young", "old"]})
    >>> crossed.names[0], crossed.margins[0]
    ('sex=f, age=young', ('sex=f', (0, 1)))
    """

    names: tuple[str, ...]
    margins: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @classmethod
    def of(cls, given: Sequence[str] | Mapping[str, Sequence[str]]) -> Declared:
        if isinstance(given, Mapping):
            return cls._crossed({str(name): [str(value) for value in values] for name, values in given.items()})
        return cls(_checked([str(name) for name in given]))

    @classmethod
    def _crossed(cls, attributes: Mapping[str, Sequence[str]]) -> Declared:
        values = [[f"{name}={value}" for value in _checked(held, name)] for name, held in attributes.items()]
        cells = list(itertools.product(*values))
        names = _checked([", ".join(cell) for cell in cells])
        if len(values) < 2:
            return cls(names)
        margins = tuple(
            (word, tuple(place for place, cell in enumerate(cells) if word in cell)) for part in values for word in part
        )
        return cls(names, margins)

    def __len__(self) -> int:
        return len(self.names)


def _checked(names: Sequence[str], path: str = "") -> tuple[str, ...]:
    where = f"groups.{path}" if path else "groups"
    if not 1 <= len(names) <= MOST_CELLS:
        raise SpecError("groups are declared", path=where, given=len(names), allowed=f"1 to {MOST_CELLS} names")
    if len(set(names)) != len(names):
        raise SpecError("a group is declared twice", path=where, given=len(names), allowed="different names")
    return tuple(names)
