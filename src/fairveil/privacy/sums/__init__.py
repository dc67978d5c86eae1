"""Running sums under continual observation: batches, binary tree, square-root Toeplitz factorisation, unbounded."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairveil.privacy.sums.base import BoundedSum as BoundedSum
    from fairveil.privacy.sums.base import RunningSum as RunningSum
    from fairveil.privacy.sums.batch import BatchSum as BatchSum
    from fairveil.privacy.sums.batch import doubling_ends as doubling_ends
    from fairveil.privacy.sums.hybrid import HybridSum as HybridSum
    from fairveil.privacy.sums.toeplitz import ToeplitzSum as ToeplitzSum
    from fairveil.privacy.sums.toeplitz import square_root_coefficients as square_root_coefficients
    from fairveil.privacy.sums.tree import TreeSum as TreeSum
    from fairveil.privacy.sums.tree import refine_step as refine_step
    from fairveil.privacy.sums.tree import tree_step as tree_step

_HOMES = {
    "BatchSum": "batch",
    "BoundedSum": "base",
    "HybridSum": "hybrid",
    "RunningSum": "base",
    "ToeplitzSum": "toeplitz",
    "TreeSum": "tree",
    "doubling_ends": "batch",
    "refine_step": "tree",
    "square_root_coefficients": "toeplitz",
    "tree_step": "tree",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Names load on first use: whoever needs one of them does not pay for all."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
