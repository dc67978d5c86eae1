"""Fed-FairX-LinUCB: agents share exact statistics."""

from __future__ import annotations

from dataclasses import KW_ONLY

from fairveil.bandits.exposure.base import ExposurePolicy
from fairveil.configuration import configuration
from fairveil.fields import described
from fairveil.registry import register


@register("policy", "fed-fairx")
@configuration
class FedFairx(ExposurePolicy):
    """FairX-LinUCB on the rows of all agents up to the last synchronisation and the agent's own since then.

    Guarantee: none; messages are exact sums. ``local_raw=False`` freezes the policy between synchronisations, to
    show what the frozen private policies lose without privacy.
    Cost: none. One message of (d+1)^2 numbers per agent and synchronisation.

    >>> FedFairx(agents=10, dimension=5, horizon=100_000).syncs
    20002

    Reference: Solanki, Jain and Gujar, "Fairness and Privacy Guarantees in Federated Contextual Bandits",
    Fed-FairX-LinUCB; one lambda I enters the precision, however many agents there are (docs/errata/fairx.md).
    """

    _: KW_ONLY
    local_raw: bool = described("use own rows since the last synchronisation", default=True)

    @property
    def uses_local(self) -> bool:
        return self.local_raw
