"""Counts of people with an enforced sensitivity: nobody counts too often in a step, nor in too many steps.

What exceeds the bounds is dropped, silently, because how much was dropped is private. The counters are raw data: they
are never stored; after a restart the rows are read again from their beginning.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from fairveil.errors import SpecError
from fairveil.privacy.stability import PERSON, STEP, AtMost, AtMostGroups, Chain, Clip, OwnStep

READABLE = "public: that every row can be read, since one that cannot stops the stream"
WATERMARKS = (
    "public: rows without a person, which close the steps before their time, and where they stand among the rows"
)


class PersonCounts:
    """Counts a person at most ``per_step`` times a step and in at most ``participation`` steps (None: no bound).

    Sensitivity: one person moves a step's count by at most ``per_step``, and at most ``participation`` counts in all;
    `keys` are the keys of a releaser that say so.
    Cost: one counter a person in memory; O(1) a row.

    >>> counts = PersonCounts(participation=2)
    >>> [counts.step(["ann", "bob", "ann"]), counts.step(["ann"]), counts.step(["ann", "cy"])]
    [2, 1, 1]
    >>> counts.keys()
    {'sensitivity': 1.0, 'participation': 2}
    """

    def __init__(self, per_step: int = 1, participation: int | None = None) -> None:
        for name, value in (("per_step", per_step), ("participation", participation)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise SpecError("people are counted", path=name, given=value, allowed="a whole number from 1 on")
        self.per_step, self.participation = per_step, participation
        self._steps: dict[Hashable, int] = {}

    def step(self, people: Iterable[Hashable]) -> int:
        """The bounded count of one step; every row names its person."""
        now: dict[Hashable, int] = {}
        for person in people:
            now[person] = min(now.get(person, 0) + 1, self.per_step)
        total = 0
        for person, times in now.items():
            used = self._steps.get(person, 0)
            if self.participation is None or used < self.participation:
                self._steps[person] = used + 1
                total += times
        return total

    @property
    def chain(self) -> Chain:
        """What becomes of a person's rows here, and how far they move the counts."""
        steps = () if self.participation is None else (AtMostGroups(self.participation, "step"),)
        return Chain(PERSON, OwnStep(), AtMost(self.per_step, STEP), *steps, Clip(0.0, 1.0), columns=1)

    def keys(self) -> dict[str, Any]:
        """What a releaser of these counts must be told: proven by `chain`, not declared."""
        bound = self.chain.bound
        keys: dict[str, Any] = {"sensitivity": float(bound.cell * bound.high)}
        return keys if self.participation is None else {**keys, "participation": int(bound.steps)}

    @property
    def words(self) -> str:
        """The bound in a guarantee."""
        if self.participation is not None:
            return self.chain.words()
        done = "; ".join(part.words() for part in self.chain.parts)
        return f"the sensitivity of a step is computed for one person: {done}; a count moves by at most {self.per_step}"

    def __repr__(self) -> str:
        return f"PersonCounts(per_step={self.per_step}, participation={self.participation})"

    def __reduce__(self) -> str:
        raise TypeError("the counters are raw data and are not stored")
