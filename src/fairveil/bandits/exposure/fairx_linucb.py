"""FairX-LinUCB: every agent learns alone."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

from fairveil.bandits.exposure.base import ExposurePolicy
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.federated.schedules import schedule_from
from fairveil.fields import described
from fairveil.registry import register


@register("policy", "fairx-linucb")
@configuration
class FairxLinUcb(ExposurePolicy):
    """Exposure in proportion to optimistic merit, each agent on its own rows.

    Guarantee: none; nothing is sent, but an agent's decisions depend on its raw rows.
    Cost: none. Decide O(steps x actions x dimension), learn O(dimension^3), memory O(agents x dimension^2).

    >>> FairxLinUcb(agents=1, dimension=2, horizon=10).due({}, 5) is None
    True

    Reference: Wang, Bai, Sun and Joachims 2021, "Fairness of Exposure in Stochastic Bandits", FairX-LinUCB.
    """

    _: KW_ONLY
    schedule: Any = described("never: every agent learns alone", default="never")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.schedule != schedule_from("never"):
            raise SpecError(
                "agents that learn alone do not synchronise",
                path="schedule",
                given=self.schedule.name,
                allowed="never",
                fix="use fed-fairx",
            )

    def due(self, state: Any, settled: int) -> None:
        return None
