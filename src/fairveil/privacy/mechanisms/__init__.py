"""One release each: every mechanism carries its sensitivity, its event and its proof."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairveil.privacy.mechanisms.above_threshold import AboveThreshold as AboveThreshold
    from fairveil.privacy.mechanisms.base import Mechanism as Mechanism
    from fairveil.privacy.mechanisms.binomial import Binomial as Binomial
    from fairveil.privacy.mechanisms.binomial import binomial_delta as binomial_delta
    from fairveil.privacy.mechanisms.binomial import binomial_epsilon as binomial_epsilon
    from fairveil.privacy.mechanisms.discrete_gaussian import DiscreteGaussian as DiscreteGaussian
    from fairveil.privacy.mechanisms.discrete_laplace import DiscreteLaplace as DiscreteLaplace
    from fairveil.privacy.mechanisms.exponential import Exponential as Exponential
    from fairveil.privacy.mechanisms.gaussian import Gaussian as Gaussian
    from fairveil.privacy.mechanisms.laplace import Laplace as Laplace
    from fairveil.privacy.mechanisms.noisy_max import ReportNoisyMax as ReportNoisyMax
    from fairveil.privacy.mechanisms.norm_gamma import NormGamma as NormGamma
    from fairveil.privacy.mechanisms.one_bit import OneBit as OneBit
    from fairveil.privacy.mechanisms.permute_and_flip import PermuteAndFlip as PermuteAndFlip
    from fairveil.privacy.mechanisms.randomized_response import RandomizedResponse as RandomizedResponse

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
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Names load on first use: whoever needs one of them does not pay for all."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
