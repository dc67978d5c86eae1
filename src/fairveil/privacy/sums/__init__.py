"""Running sums under continual observation: batches, binary tree, square-root Toeplitz factorisation, unbounded."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairveil.privacy.sums.base import BoundedSum, RunningSum
    from fairveil.privacy.sums.batch import BatchSum, doubling_ends
    from fairveil.privacy.sums.hybrid import HybridSum
    from fairveil.privacy.sums.toeplitz import ToeplitzSum, square_root_coefficients
    from fairveil.privacy.sums.tree import TreeSum, refine_step, tree_step

__all__ = [
    "BatchSum",
    "BoundedSum",
    "HybridSum",
    "RunningSum",
    "ToeplitzSum",
    "TreeSum",
    "doubling_ends",
    "refine_step",
    "square_root_coefficients",
    "tree_step",
]
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


def __getattr__(name: str) -> Any:
    """Names load on first use: whoever needs one of them does not pay for all."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
