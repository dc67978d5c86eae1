"""A stream that holds its own state: `stream.release(z)` for people who want no more than that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fairveil.errors import PrivacyError
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise, SecureNoise
from fairveil.streams.ahead import Ahead
from fairveil.streams.columns import Columns
from fairveil.streams.plain import PlainReleaser
from fairveil.streams.protocol import TIME, USED, Released, Releaser, State, as_values, copy_state

if TYPE_CHECKING:
    from fairveil.privacy.ledger import Ledger
    from fairveil.streams.journal import Journal

LARGEST = 2**61


class Stream:
    """One private stream: a releaser, its state, and noise from the operating system unless another source is given.

    With a ledger the whole stream is charged before the first release, and every plain release is on disk before it is
    shown; opened again with the same ledger, it goes on where it stopped. Without one nothing is kept.
    Cost: a few microseconds a step beyond the filter (state in place, noise drawn ahead in blocks).

    >>> from fairveil.privacy.noise import SeededNoise
    >>> from fairveil.streams.private_kalman import PrivateKalman
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
        self.state: State = releaser.start()
        self._journal: Journal | None = None
        if ledger is not None:
            from fairveil.streams.journal import Journal

            self._journal = Journal(Columns([account], [releaser]), ledger, account=account, noise=noise)
            self.state = self._journal.states[0]
        self._quick = self._make_quick() if ledger is None else None

    @property
    def guarantee(self) -> Guarantee:
        return self.releaser.guarantee()

    @property
    def step(self) -> int:
        """Steps that were taken."""
        return int(self.state["counts"][TIME])

    def release(self, z: float | None) -> Released:
        """The private value of the next step; None where nothing was measured."""
        if self._quick is not None and z is not None:
            return self._quick(z)
        return self.release_many([z])[0]

    def release_many(self, values: Sequence[float | None]) -> list[Released]:
        """Several steps that wait together; with a ledger they share one commit."""
        given = as_values(values)
        if self._journal is not None:
            track = self._journal.release(given[:, None])[0]
        else:
            track = self.releaser.advance(self.state, given, self.noise)
        if self._quick is not None:
            self._quick.catch_up()
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

    def _make_quick(self) -> _Quick | None:
        one = self.releaser
        fitting = isinstance(one, PlainReleaser) and one.steady and one.behind == 0
        return _Quick(one, self.state, self.noise) if fitting and isinstance(one, PlainReleaser) else None


class _Quick:
    """One step of a releaser with the same noise at every step, without arrays being made: the same numbers."""

    def __init__(self, releaser: PlainReleaser, state: State, noise: Noise) -> None:
        plan = releaser.plan
        self.releaser, self.state, self.noise = releaser, state, noise
        self.take = Ahead(plan, noise).take
        self.counts, self.numbers = state["counts"], state["numbers"]
        self.kernel, self.shape, self.shared = releaser.kernel, releaser.shape, releaser.shared
        self.v, self.one, self.out = np.ones(1), np.ones(1), np.empty((1, 2))
        self.bits, self.reference, self.std = plan.bits, plan.reference, plan.std
        self.reach = plan.std * releaser.quantile
        self.ready = releaser.shares.first == 0
        whole = plan.law in ("discrete-gaussian", "binomial")
        plain = not (releaser.nonnegative or releaser.round or releaser.range is not None or whole)
        self.horizon = (math.inf if releaser.horizon is None else releaser.horizon) if plain else 0
        self.used = self.time = 0

    def __call__(self, z: float) -> Released:
        used, time = self.used, self.time
        if not (self.ready and used < self.horizon and isinstance(z, float) and -math.inf < z < math.inf):
            return self._slowly(z)
        units = math.trunc(math.ldexp(z, self.bits))
        units = min(max(units, -LARGEST), LARGEST) + self.take()
        self.v[0] = units / self.reference
        self.kernel(self.shape, self.shared, self.numbers, self.counts, self.v, self.one, self.one, self.out)
        self.counts[USED] = self.used = used + 1
        self.time = time + 1
        [[mean, variance]] = self.out.tolist()
        value, reach = mean * self.std, math.sqrt(max(variance, 0.0)) * self.reach
        return Released(time, value, value - reach, value + reach, math.ldexp(units, -self.bits), "released")

    def _slowly(self, z: float) -> Released:
        shown = self.releaser.advance(self.state, as_values([z]), self.noise).row(0)
        self.catch_up()
        return shown

    def catch_up(self) -> None:
        """Read the counters again after a step that was taken elsewhere."""
        self.used, self.time = int(self.counts[USED]), int(self.counts[TIME])
        self.ready = self.ready or self.used > 0
