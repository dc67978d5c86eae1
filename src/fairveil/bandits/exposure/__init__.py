"""Exposure-fair bandits, alone and with many agents (`docs/guides/exposure.md`)."""

from fairveil.bandits.environments.exposure import ExposureWorld
from fairveil.bandits.exposure.batched_priv_fairx import BatchedPrivFairx
from fairveil.bandits.exposure.fairx_linucb import FairxLinUcb
from fairveil.bandits.exposure.family import ExposureFamily
from fairveil.bandits.exposure.fed_fairx import FedFairx
from fairveil.bandits.exposure.priv_fairx import PrivFairx
from fairveil.bandits.exposure.priv_fairx_printed import PrivFairxPrinted

__all__ = [
    "BatchedPrivFairx",
    "ExposureFamily",
    "ExposureWorld",
    "FairxLinUcb",
    "FedFairx",
    "PrivFairx",
    "PrivFairxPrinted",
]
