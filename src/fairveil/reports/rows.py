"""What a report is made from: one row a place, as arrays. A place is one decision; how many there are is public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairveil.arrays import Floats, Ints
from fairveil.data.logs import Log
from fairveil.errors import InputError
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
