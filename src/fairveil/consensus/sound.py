"""The sound form of the ADMM family, the default: one dual step for all nodes, exact noise, grid and solver paid."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fairveil.consensus.accounting import TAIL
from fairveil.consensus.perturbation import Objective, Perturbation
from fairveil.errors import SpecError

Floats = NDArray[np.float64]
SMALLEST: Literal["smallest"] = "smallest"


class Sound:
    """Everything in which the forms of an algorithm differ; ``variant`` in a spec picks the form.

    The dual step is the same at all nodes, so that sum_i lam_i = 0 and the limit is the optimum. Noise in the objective
    is drawn exactly on a grid, and a last noise hides grid and tolerance for ``tail`` of the budget.
    """

    established: ClassVar[bool] = True
    tail: ClassVar[float] = TAIL
    """Share of the budget that goes to the last noise."""
    notes: ClassVar[tuple[str, ...]] = ()

    def dual_steps(self, penalty: Floats, chosen: Any, *, own: bool, start: bool) -> Floats:
        """theta of every node and iteration.

        ``chosen``: a number, ``"smallest"`` (over the nodes, at every iteration) or None for the default. ``start``:
        the default is fixed by the first iteration. ``own``: the algorithm is printed with each node's own penalty as
        its step; the limit would be wrong, and the smallest stands here instead.
        """
        if isinstance(chosen, tuple | list):
            raise SpecError(
                "the dual step must be the same at all nodes", path="dual_step", given=list(chosen),
                allowed="one number", fix="node-dependent steps lead to a wrong limit: variant='printed' runs them",
            )  # fmt: skip
        if chosen is None or chosen == SMALLEST:
            least = penalty.min(axis=1, keepdims=True)
            fixed = start and chosen is None
            return np.broadcast_to(least[:1] if fixed else least, penalty.shape).copy()
        return np.full(penalty.shape, float(chosen))

    def dual_notes(self, chosen: Any, *, own: bool) -> tuple[str, ...]:
        """What a reader of a result must know about the dual step."""
        return ()

    def objective(self, shift: float, tolerance: float, rates: tuple[float, ...], tail: float) -> Perturbation:
        """Noise in the objective of one node; ``tail`` is what each release may spend on the last noise."""
        return Objective(shift, tolerance, rates, tail)
