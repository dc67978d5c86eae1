"""What a report is made from: declared groups, and one row a place, as arrays.

A place is one decision; how many there are is public. Groups are a list of names, or crossings of attributes whose
cells are released and whose margins are free.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairveil.arrays import Floats, Ints
from fairveil.data.logs import Log
from fairveil.errors import InputError, SpecError
from fairveil.fairness.groups import Groups


@dataclass(frozen=True)
class PlaceRows:
    """Places in order. Its repr shows no row.

    ``group``: position of the group that was chosen (screening), or to which the person belongs (trial); -1 where the
    place counts for nobody (`FairnessReport.blanks`). ``shown``: how
    many candidates of each group stood in the round. ``arm``: what the person got. ``reward`` in [0, 1], NaN where
    none came. ``played``, ``deserved``: exposure by group, each row a point of the simplex.

    >>> len(PlaceRows(group=np.array([0, 1]), shown=np.array([[1, 1], [2, 0]]), reward=np.array([1.0, 0.0])))
    2
    """

    group: Ints | None = field(default=None, repr=False)
    shown: Ints | None = field(default=None, repr=False)
    arm: Ints | None = field(default=None, repr=False)
    reward: Floats | None = field(default=None, repr=False)
    played: Floats | None = field(default=None, repr=False)
    deserved: Floats | None = field(default=None, repr=False)

    def __len__(self) -> int:
        for held in (self.group, self.played):
            if held is not None:
                return len(held)
        return 0

    def counted(self) -> PlaceRows:
        """The rows that count for somebody."""
        kept = np.asarray(self.group) >= 0
        held = {one.name: getattr(self, one.name) for one in fields(self)}
        return PlaceRows(**{name: None if value is None else value[kept] for name, value in held.items()})


def rounds(groups: Sequence[Sequence[Any]], chosen: Sequence[int], rewards: ArrayLike | None,
           names: Sequence[str]) -> PlaceRows:  # fmt: skip
    """Rows of screening rounds: the groups of the candidates of each round, and the position of who was chosen."""
    place = {name: number for number, name in enumerate(names)}
    shown = np.zeros((len(groups), len(names)), np.int64)
    winners = np.zeros(len(groups), np.int64)
    for number, (round_groups, winner) in enumerate(zip(groups, chosen, strict=True)):
        for group in round_groups:
            shown[number, _placed(place, group, names)] += 1
        winners[number] = _placed(place, round_groups[winner], names)
    return PlaceRows(group=winners, shown=shown, reward=_rewards(rewards))


def trial(log: Log, groups: ArrayLike | Mapping[str, ArrayLike], names: Sequence[str]) -> PlaceRows:
    """Rows of a logged trial: what each person got, to which group they belong, what came of it."""
    held = Groups.of(groups, tuple(names))
    if len(held.index) != len(log):
        raise InputError("there is not one group a row", path="groups", given=len(held.index), allowed=str(len(log)))
    return PlaceRows(group=held.index, arm=log.chosen, reward=log.outcomes)


def _placed(place: Mapping[str, int], group: Any, names: Sequence[str]) -> int:
    found = place.get(str(group))
    if found is None:
        raise InputError("a candidate belongs to no declared group", path="groups", allowed=", ".join(names[:20]))
    return found


def _rewards(given: ArrayLike | None) -> Floats | None:
    return None if given is None else np.asarray(given, np.float64)


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
