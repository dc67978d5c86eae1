"""Running sums under continual observation: batches, binary tree, square-root Toeplitz factorisation, unbounded."""

from fairveil.privacy.sums.base import BoundedSum, RunningSum
from fairveil.privacy.sums.batch import BatchSum, doubling_ends

__all__ = ["BatchSum", "BoundedSum", "RunningSum", "doubling_ends"]
