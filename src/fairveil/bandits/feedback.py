"""Feedback that comes late or never: the law of the delay, what is made of a missing reward, and who hands what over.

A round's window closes ``window`` decisions after its own. A round is settled when its window has closed or, where
arrivals are public, already when its reward is in; ``settled`` is the largest s such that all rounds below s are.
What a round that settles without an answer is worth is declared in ``treat``:

- ``public``: it is left out, and whether and when rewards arrive is public;
- ``default``: it counts as the declared default, so the number of rewards says nothing and arrivals are protected;
- ``private``: it is left out and the policy noises the number of rewards too (``arrivals = "private"``).

Why the guarantee stays: the block of a round is a function of published values, the round's number and public coins;
its record is one value in the declared range whatever the person did and whenever; release times are functions of the
decisions and the window (with ``public`` also of arrivals); every block is read once. So one changed reward changes one
block, and all other conditional laws coincide (adaptive parallel composition). Not covered: computing time, and an
application that changes who comes next because of a reward that is not released.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fairveil.bandits.lateness import ARRIVALS_IN_WORDS as ARRIVALS_IN_WORDS
from fairveil.bandits.lateness import AT_ONCE as AT_ONCE
from fairveil.bandits.lateness import NEVER as NEVER
from fairveil.bandits.lateness import NOBODY as NOBODY
from fairveil.bandits.lateness import Lateness as Lateness
from fairveil.bandits.lateness import Treat as Treat
from fairveil.bandits.lateness import with_arrivals as with_arrivals
from fairveil.bandits.protocol import Feedback, Policy, Report, Round
from fairveil.errors import InputError
from fairveil.privacy.noise import Noise
from fairveil.state import State


class Outstanding:
    """Rounds that were decided and not handed over yet, with their arms: what a driver keeps between two calls.

    ``decided`` notes a round, ``arrive`` its feedback (once, for the arm that was decided; again or too late: ignored),
    ``take`` gives what may be learned now: on the settled clock rounds in their order, answered or not; on the decided
    clock what has arrived, in order of arrival; on the clock of arrivals the same, and every round that closes without
    an answer; where batches are of seats, rounds as they settle, numbered by seats. Memory: the rounds of one window.
    """

    def __init__(self, policy: Policy, lateness: Lateness = AT_ONCE) -> None:
        self.clock, self.lateness, self.report = policy.clock, lateness, policy.report
        self.by_seat = policy.clock == "settled" and policy.by_seat
        self._closing = 0
        self.now = 0
        self.settled = 0
        self.releases = 0
        self._open: dict[int, tuple[int, Round | None]] = {}
        self._here: dict[int, Feedback | Report] = {}

    def decided(self, arm: int, shown: Round | None = None) -> None:
        """The next round was decided for this arm."""
        self._open[self.now] = (arm, shown)
        self.now += 1

    def arm(self, index: int) -> int | None:
        """The arm that was decided in a round that is not handed over yet."""
        known = self._open.get(index)
        return None if known is None else known[0]

    def waiting(self) -> Iterator[tuple[int, int]]:
        """Rounds without an answer and their arms, the oldest first."""
        return ((index, known[0]) for index, known in self._open.items() if index not in self._here)

    def arrive(self, feedback: Feedback | Report) -> bool:
        """Take a delivery; False where it changes nothing: the round has its answer already, or its window is over."""
        if not 0 <= feedback.index < self.now:
            raise InputError(
                "this round was not decided",
                path="feedback.index",
                given=feedback.index,
                allowed=f"rounds 0 to {self.now - 1}",
            )
        known = self._open.get(feedback.index)
        if known is None or feedback.index in self._here or feedback.index + self.lateness.window + 1 < self.now:
            return False
        if feedback.arm != known[0]:
            raise InputError(
                "the feedback is for another arm than the one that was decided",
                path="feedback.arm",
                given=feedback.arm,
                allowed=str(known[0]),
            )
        self._here[feedback.index] = feedback
        return True

    def take(self, noise: Noise) -> Iterator[Feedback | Report]:
        """What may be learned after ``now`` decided rounds; ``noise`` is for reports of a default reward."""
        ways = {"settled": self._by_seat if self.by_seat else self._in_order, "arrived": self._as_they_settle}
        return ways[self.clock](noise) if self.clock in ways else self._as_they_came()

    def _in_order(self, noise: Noise) -> Iterator[Feedback | Report]:
        while self.settled < self.now and self._is_settled(self.settled):
            answer = self._closed(self.settled, noise)
            self.settled += 1
            yield answer

    def _closed(self, index: int, noise: Noise) -> Feedback | Report:
        """What a settled round hands over: its answer, or what a missing one is worth."""
        (arm, shown), answer = self._open.pop(index), self._here.pop(index, None)
        if answer is not None:
            return answer
        missing = self.lateness.default if self.lateness.treat == "default" else None
        return self.report(Feedback(index, arm, missing, shown), noise)

    def _as_they_settle(self, noise: Noise) -> Iterator[Feedback | Report]:
        """Answers as they come, where that is public; each round whose window closes, in the order of rounds."""
        if not self.lateness.hidden:
            for index in list(self._here):
                del self._open[index]
                yield self._here.pop(index)
        for index in self._windows_over():
            self.settled = self._closing
            yield self._closed(index, noise)
        self.settled = self._closing

    def _windows_over(self) -> Iterator[int]:
        """Rounds that close without having settled before."""
        while self._closing < self.now and (self._over(self._closing) or self._closing not in self._open):
            self._closing += 1
            if self._closing - 1 in self._open:
                yield self._closing - 1

    def _by_seat(self, noise: Noise) -> Iterator[Feedback | Report]:
        """Rounds in the order in which they settle, ties by round, each under its seat instead of its number."""
        answered = [] if self.lateness.hidden else list(self._here)
        for index in sorted({*answered, *self._windows_over()}):
            answer, seat = self._closed(index, noise), self.settled
            shown = None if answer.round is None else replace(answer.round, index=seat)
            self.settled += 1
            yield replace(answer, index=seat, round=shown)

    def _as_they_came(self) -> Iterator[Feedback | Report]:
        for index in list(self._here):
            del self._open[index]
            yield self._here.pop(index)
        while self.settled < self.now and (self._over(self.settled) or self.settled not in self._open):
            left = self._open.pop(self.settled, None)
            if left is not None and self.lateness.treat == "default":
                yield Feedback(self.settled, left[0], self.lateness.default, left[1])
            self.settled += 1

    def _over(self, index: int) -> bool:
        return self.now >= index + self.lateness.window + 1

    def _is_settled(self, index: int) -> bool:
        return self._over(index) or (not self.lateness.hidden and index in self._here)


def hand_over(policy: Policy, state: State, outstanding: Outstanding, noise: Noise) -> State:
    """Learn what may be learned and make every release that is due, in the order of the policy's clock."""
    if policy.clock != "settled":
        state = policy.learn_all(state, outstanding.take(noise))
        return _release_due(policy, state, outstanding.now, outstanding, noise)
    for feedback in outstanding.take(noise):
        state = _release_due(policy, state, feedback.index, outstanding, noise)
        state = policy.learn(state, feedback)
    return _release_due(policy, state, outstanding.settled, outstanding, noise)


def _release_due(policy: Policy, state: State, settled: int, outstanding: Outstanding, noise: Noise) -> State:
    while policy.due(state, settled) is not None:
        state = policy.release(state, noise)
        outstanding.releases += 1
    return state
