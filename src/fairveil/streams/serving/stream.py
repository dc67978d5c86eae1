"""A stream that holds its own state: `stream.release(z)` for people who want no more than that."""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fairveil.errors import PrivacyError
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise, SecureNoise
from fairveil.streams.columns import Columns
from fairveil.streams.filters.kernel import EMPTY, Line
from fairveil.streams.noise_plan import NoisePlan
from fairveil.streams.protocol import TIME, Released, Releaser, State, as_values, copy_state
from fairveil.streams.releasers.plain_release import PlainReleaser

if TYPE_CHECKING:
    from fairveil.ledger import Ledger
    from fairveil.streams.serving.journal import Journal

SIMULATED = "simulated: the noise is seeded or left out and protects nobody"
BLOCK = 1024
"""Draws of a block."""
EXACT = 2**53
"""Whole numbers up to here are floats."""


class NoiseAhead:
    """Noise of the steady releases of one plan, one draw at a time: exact samplers are several times faster in blocks.

    Never stored.
    ``kept`` is one array for life, which compiled steps read: the place of the next draw (0: all are used), then the
    draws, the last one first. A forked child drops what its parent drew, so no draw is used by two processes.

    >>> from fairveil.privacy.noise import SeededNoise
    >>> from fairveil.streams.releasers.baseline_gaussian import BaselineGaussian
    >>> plan = BaselineGaussian(epsilon=1.0, delta=1e-6, horizon=9).plan
    >>> ahead = NoiseAhead(plan, SeededNoise(1))
    >>> [ahead.take() for _ in range(3)] == plan.noise(0, 3, SeededNoise(1)).tolist()
    True
    """

    __slots__ = ("__weakref__", "kept", "plan", "source")

    def __init__(self, plan: NoisePlan, source: Noise) -> None:
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


class Stream:
    """One private stream: a releaser, its state, and noise from the operating system unless another source is given.

    With a ledger the whole stream is charged before the first release, and every plain release is on disk before it is
    shown; opened again with the same ledger, it goes on where it stopped. Without one nothing is kept.
    Threads may share a stream: they take turns, so that no draw and no step is used twice.
    Cost: a few microseconds a step beyond the filter (state in place, noise drawn ahead in blocks).

    >>> from fairveil.privacy.noise import SeededNoise
    >>> from fairveil.streams.releasers.private_kalman import PrivateKalman
    >>> stream = Stream(PrivateKalman(epsilon=1.0, delta=1e-6, horizon=100), noise=SeededNoise(1))
    >>> shown = stream.release(120.0)
    >>> shown.step, shown.status, shown.low < shown.value < shown.high
    (0, 'released', True)
    """

    def __init__(
        self,
        releaser: Releaser,
        ledger: Ledger | None = None,
        *,
        noise: Noise | None = None,
        account: str = "stream",
    ) -> None:
        self.releaser = releaser
        self.noise = SecureNoise() if noise is None else noise
        if self.noise.protects and not self.guarantee.established:
            raise PrivacyError(
                "nothing is released to people without an established guarantee",
                path="releaser.variant",
                given=releaser.name,
                fix="use a sound variant, or seeded noise to simulate",
            )
        self._turn = threading.Lock()
        _streams.add(self)
        self.state: State = releaser.start()
        self._journal: Journal | None = None
        if ledger is not None:
            from fairveil.streams.serving.journal import Journal

            self._journal = Journal(Columns([account], [releaser]), ledger, account=account, noise=noise)
            self.state = self._journal.states[0]
        self._quick = self._make_quick() if ledger is None else None

    @property
    def guarantee(self) -> Guarantee:
        """The promise for the whole stream; seeded noise is named in its notes."""
        promise = self.releaser.guarantee()
        return replace(promise, notes=(SIMULATED, *promise.notes)) if self.simulated else promise

    @property
    def simulated(self) -> bool:
        """Whether the noise is a simulation, which protects nobody."""
        return self.noise.simulated

    @property
    def step(self) -> int:
        """Steps that were taken."""
        return int(self.state["counts"][TIME])

    def release(self, z: float | None) -> Released:
        """The private value of the next step; None where nothing was measured."""
        with self._turn:
            if self._quick is not None and (shown := self._quick(z)) is not None:
                return shown
            return self._release([z])[0]

    def release_many(self, values: Sequence[float | None]) -> list[Released]:
        """Several steps that wait together; with a ledger they share one commit."""
        with self._turn:
            return self._release(values)

    def _release(self, values: Sequence[float | None]) -> list[Released]:
        given = as_values(values)
        if len(given) == 0:
            return []
        if self._journal is not None:
            track = self._journal.release(given[:, None])[0]
        else:
            track = self.releaser.advance(self.state, given, self.noise)
        return [track.row(t) for t in range(len(given))]

    def finish(self) -> list[Released]:
        """What a lag still holds."""
        return self.releaser.finish(self.state)

    def copy(self) -> State:
        """The state as it is now."""
        return copy_state(self.state)

    def close(self) -> None:
        """Let another process go on with the ledger's stream."""
        if self._journal is not None:
            self._journal.close()

    def _make_quick(self) -> Callable[[float | None], Released | None] | None:
        one = self.releaser
        if not isinstance(one, PlainReleaser) or one.quick is None or not one.steady or one.behind > 0:
            return None
        changed = one.nonnegative or one.round or one.range is not None
        whole = one.plan.law in ("discrete-gaussian", "binomial")
        return None if changed or whole else _quick_step(one, self.state, self.noise)


def _quick_step(releaser: PlainReleaser, state: State, noise: Noise) -> Callable[[float | None], Released | None]:
    """One step of a releaser with the same noise at every step, without arrays being made: the same numbers.

    None where the step is not of that kind (the first, a missing one, one to refuse): then there is the long way.
    """
    ahead = NoiseAhead(releaser.plan, noise)
    run, make = releaser.quick, tuple.__new__
    assert run is not None
    given = (*releaser.memory_of(state), ahead.kept, _line(releaser).packed())

    def step(z: float | None) -> Released | None:
        if not isinstance(z, float):
            if type(z) is not int or abs(z) > EXACT:
                return None
            z = float(z)
        made = run(*given, z)
        if made[0] == EMPTY:
            ahead.fill()
            made = run(*given, z)
        return make(Released, (*made, "released")) if made[0] >= 0 else None

    return step


def _line(releaser: PlainReleaser) -> Line:
    """Public numbers of one stream, and cells for one step."""
    plan = releaser.plan
    horizon = math.inf if releaser.horizon is None else float(releaser.horizon)
    first = 1 if releaser.shares.first > 0 else 0
    return Line(plan.bits, first, horizon, plan.reference, plan.std, plan.std * releaser.quantile)


_buffers: weakref.WeakSet[NoiseAhead] = weakref.WeakSet()
_streams: weakref.WeakSet[Stream] = weakref.WeakSet()


def _after_fork() -> None:
    """A child drops what its parent drew; a thread of the parent that had its turn is not there to end it."""
    for buffer in list(_buffers):
        buffer.drop()
    for stream in list(_streams):
        stream._turn = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
