"""Notions of group fairness: whom each is about, and which multipliers it moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairveil.errors import SpecError, did_you_mean

Floats = NDArray[np.float64]
FairnessName = Literal["none", "demographic-parity", "equal-opportunity", "equalized-odds", "false-positive"]
AwarenessName = Literal["aware", "blind"]


@dataclass(frozen=True)
class Notion:
    """``labels``: one constraint for each entry, over the people of these labels.

    >>> Notion.of("equalized-odds").labels
    ((1,), (0,))
    """

    name: str
    labels: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, name: str) -> Notion:
        if name not in KNOWN:
            raise SpecError(
                "the fairness notion is not known", path="fairness", given=name, allowed=", ".join(KNOWN),
                fix=did_you_mean(name, KNOWN),
            )  # fmt: skip
        return cls(name, KNOWN[name])

    @property
    def parity(self) -> bool:
        """Acceptance of everybody, whatever the label."""
        return self.labels == ((0, 1),)

    def sizes(self, sizes: Floats) -> Floats:
        """How many people of each group the notion is about, from sizes by group and label."""
        return np.min([sizes[:, list(labels)].sum(axis=1) for labels in self.labels], axis=0)


KNOWN: dict[str, tuple[tuple[int, ...], ...]] = {
    "none": (),
    "demographic-parity": ((0, 1),),
    "equal-opportunity": ((1,),),
    "equalized-odds": ((1,), (0,)),
    "false-positive": ((0,),),
}
