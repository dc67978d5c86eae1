"""Noise drawn ahead in blocks: exact samplers are several times faster that way. Never stored, dropped after a fork."""

from __future__ import annotations

import os
import weakref

import numpy as np

from fairveil.privacy.noise import Noise
from fairveil.streams.plan import Plan

BLOCK = 1024
_buffers: weakref.WeakSet[Ahead] = weakref.WeakSet()


class Ahead:
    """Noise of the steady releases of one plan, one draw at a time.

    ``kept`` is one array for life, which compiled steps read: the place of the next draw (0: all are used), then the
    draws, the last one first. A forked child drops what its parent drew, so no draw is used by two processes.

    >>> from fairveil.privacy.noise import SeededNoise
    >>> from fairveil.streams.baselines import BaselineGaussian
    >>> plan = BaselineGaussian(epsilon=1.0, delta=1e-6, horizon=9).plan
    >>> ahead = Ahead(plan, SeededNoise(1))
    >>> [ahead.take() for _ in range(3)] == plan.noise(0, 3, SeededNoise(1)).tolist()
    True
    """

    __slots__ = ("__weakref__", "kept", "plan", "source")

    def __init__(self, plan: Plan, source: Noise) -> None:
        self.plan, self.source = plan, source
        self.kept = np.zeros(1 + BLOCK, np.int64)
        _buffers.add(self)

    def drop(self) -> None:
        """Forget what was drawn ahead."""
        self.kept[:] = 0

    def fill(self) -> None:
        """Draw a block."""
        self.kept[1:] = self.plan.noise(1, BLOCK, self.source)[::-1]
        self.kept[0] = BLOCK

    def take(self) -> int:
        """The next draw."""
        if self.kept[0] == 0:
            self.fill()
        place = int(self.kept[0])
        self.kept[0] = place - 1
        return int(self.kept[place])

    def __reduce__(self) -> str:
        raise TypeError("noise cannot be pickled or copied")


def _drop_all() -> None:
    for buffer in list(_buffers):
        buffer.drop()


os.register_at_fork(after_in_child=_drop_all)
