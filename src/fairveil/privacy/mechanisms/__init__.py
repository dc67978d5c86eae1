"""One release each: every mechanism carries its sensitivity, its event and its proof."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairveil.privacy.mechanisms.above_threshold import AboveThreshold
    from fairveil.privacy.mechanisms.base import Mechanism
    from fairveil.privacy.mechanisms.binomial import Binomial, binomial_delta, binomial_epsilon
    from fairveil.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
    from fairveil.privacy.mechanisms.discrete_laplace import DiscreteLaplace
    from fairveil.privacy.mechanisms.exponential import Exponential
    from fairveil.privacy.mechanisms.gaussian import Gaussian
    from fairveil.privacy.mechanisms.laplace import Laplace
    from fairveil.privacy.mechanisms.noisy_max import ReportNoisyMax
    from fairveil.privacy.mechanisms.norm_gamma import NormGamma
    from fairveil.privacy.mechanisms.one_bit import OneBit
    from fairveil.privacy.mechanisms.permute_and_flip import PermuteAndFlip
    from fairveil.privacy.mechanisms.randomized_response import RandomizedResponse

__all__ = [
    "AboveThreshold",
    "Binomial",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Exponential",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "NormGamma",
    "OneBit",
    "PermuteAndFlip",
    "RandomizedResponse",
    "ReportNoisyMax",
    "binomial_delta",
    "binomial_epsilon",
]
_HOMES = {
    "AboveThreshold": "above_threshold",
    "Binomial": "binomial",
    "DiscreteGaussian": "discrete_gaussian",
    "DiscreteLaplace": "discrete_laplace",
    "Exponential": "exponential",
    "Gaussian": "gaussian",
    "Laplace": "laplace",
    "Mechanism": "base",
    "NormGamma": "norm_gamma",
    "OneBit": "one_bit",
    "PermuteAndFlip": "permute_and_flip",
    "RandomizedResponse": "randomized_response",
    "ReportNoisyMax": "noisy_max",
    "binomial_delta": "binomial",
    "binomial_epsilon": "binomial",
}


def __getattr__(name: str) -> Any:
    """Names load on first use: whoever needs one of them does not pay for all."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
