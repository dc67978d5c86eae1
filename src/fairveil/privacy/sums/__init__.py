"""Running sums under continual observation: batches, binary tree, square-root Toeplitz factorisation, unbounded."""

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
