"""Exposure-fair bandits, alone and with many agents (`docs/guides/exposure.md`)."""

from fairveil.bandits.environments.exposure import ExposureWorld
from fairveil.bandits.exposure.alone import FairxLinUcb
from fairveil.bandits.exposure.batched import BatchedPrivFairx
from fairveil.bandits.exposure.family import ExposureFamily
from fairveil.bandits.exposure.fed import FedFairx
from fairveil.bandits.exposure.priv import PrivFairx

__all__ = [
    "BatchedPrivFairx",
    "ExposureFamily",
    "ExposureWorld",
    "FairxLinUcb",
    "FedFairx",
    "PrivFairx",
]
