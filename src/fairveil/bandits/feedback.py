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

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from fairveil.bandits.facts import Assumed, Fact
from fairveil.bandits.protocol import Feedback, Policy, Report, Round, settle
from fairveil.errors import InputError, SpecError, at, spec_error
from fairveil.fields import Natural
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.state import State

Treat = Literal["public", "default", "private"]
NEVER = -1
"""The wait of a reward that does not arrive inside its window."""
SLOWEST = 4.6
"""Default window of a geometric delay, in means: ln 100, one reward in a hundred is later."""
LONGEST = 10**9
"""No delay or window is longer: rounds are counted in 64 bits."""
ARRIVALS_IN_WORDS: dict[str, str] = {
    "public": "whether and when a reward arrived is public",
    "default": "whether and when a reward arrived is protected: one that is missing when its window closes counts as "
    "the declared default",
    "private": "whether a reward arrived is protected together with its value",
}


class FeedbackSpec(BaseModel):
    """The key ``feedback`` of a bandit spec, in rounds.

    ``delay``: every reward after so many more decisions, or ``["geometric", mean]``, or ``["uniform", low, high]``;
    ``window``: after so many more decisions a round is settled in any case (default: the delay, 4.6 means, or high);
    ``missing``: share of the rewards that never arrives; ``treat`` and ``default``: what a missing reward is worth.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    delay: int | list[Any] = 0
    window: Natural | None = None
    missing: float = 0.0
    treat: Treat = "public"
    default: float | None = None


@dataclass(frozen=True, slots=True)
class Lateness:
    """When rewards come, complete and checked. The default: at once, all of them."""

    law: Literal["fixed", "geometric", "uniform"] = "fixed"
    numbers: tuple[float, ...] = (0.0,)
    window: int = 0
    missing: float = 0.0
    treat: Treat = "public"
    default: float = 0.0

    @classmethod
    def of(cls, table: dict[str, Any] | None) -> Lateness:
        """The lateness that a spec's ``feedback`` describes; None: at once.

        >>> Lateness.of({"delay": ["uniform", 2, 9]}).window
        9
        """
        if table is None:
            return AT_ONCE
        try:
            model = FeedbackSpec.model_validate(table)
        except ValidationError as problem:
            raise at(spec_error(problem, "", frozenset(FeedbackSpec.model_fields)), "feedback") from None
        law, numbers = _law(model.delay)
        shortest = int(numbers[0]) if law in ("fixed", "uniform") else 0
        longest = {"fixed": numbers[0], "uniform": numbers[-1], "geometric": math.ceil(SLOWEST * numbers[0])}[law]
        window = int(longest) if model.window is None else model.window
        if not shortest <= window <= LONGEST:
            raise SpecError(
                "no reward arrives inside the window",
                path="feedback.window",
                given=window,
                allowed=f"in [{shortest}, {LONGEST}]",
                fix="make the window as long as the delay, or leave it out",
            )
        if not 0.0 <= model.missing < 1.0:
            raise SpecError(
                "the share of missing rewards is wrong",
                path="feedback.missing",
                given=model.missing,
                allowed="in [0, 1)",
            )
        if model.default is not None and model.treat != "default":
            raise SpecError(
                "a default is used with treat = default only",
                path="feedback.default",
                given=model.default,
                allowed="nothing",
                fix='leave it out, or treat = "default"',
            )
        return cls(law, numbers, window, model.missing, model.treat, model.default or 0.0)

    def table(self) -> dict[str, Any]:
        """The complete table of a spec; `of` is its inverse."""
        delay: Any = int(self.numbers[0]) if self.law == "fixed" else [self.law, *self.numbers]
        made = {"delay": delay, "window": self.window, "missing": self.missing, "treat": self.treat}
        return {**made, "default": self.default} if self.treat == "default" else made

    def check(self, policy: Policy) -> None:
        """Refuse what a policy cannot promise under this treatment of missing rewards."""
        if self.treat != "public" and policy.local:
            raise SpecError(
                "a local policy sees who sends a report",
                path="feedback.treat",
                given=self.treat,
                allowed="public",
                fix="a device that has no reward may report a default itself",
            )
        if self.treat == "private" and not policy.hides_arrivals:
            raise SpecError(
                "arrivals are private only where the number of rewards is noised",
                path="feedback.treat",
                given=self.treat,
                allowed="public, default",
                fix='a policy with arrivals = "private", or treat = "default", which costs no budget',
            )

    def promised(self, guarantee: Guarantee | None) -> Guarantee | None:
        """A policy's guarantee with what holds for arrivals under this treatment."""
        if guarantee is None:
            return None
        kept = tuple(note for note in guarantee.notes if note not in ARRIVALS_IN_WORDS.values())
        return replace(guarantee, notes=(*kept, ARRIVALS_IN_WORDS[self.treat]))

    def facts(self) -> dict[str, Fact]:
        """What a policy may know of the feedback before it starts: how many rounds are under way at any time."""
        return {"outstanding": Assumed(self.window)}

    @property
    def hidden(self) -> bool:
        """Rounds settle when their window closes, whatever arrived."""
        return self.treat != "public"

    def waits(self, count: int, rng: Generator) -> NDArray[np.int64]:
        """How many more decisions the rewards of ``count`` rounds take, `NEVER` for those that miss the window."""
        if self.law == "fixed":
            drawn = np.full(count, int(self.numbers[0]), np.int64)
        elif self.law == "geometric":  # mean m on 0, 1, 2, ...
            drawn = rng.geometric(1.0 / (1.0 + self.numbers[0]), count) - 1
        else:
            drawn = rng.integers(int(self.numbers[0]), int(self.numbers[1]) + 1, count)
        lost = drawn > self.window
        if self.missing > 0:
            lost |= rng.random(count) < self.missing
        drawn[lost] = NEVER
        return drawn

    def wait(self, round: Round, arm: int, rng: Generator) -> int:
        """The wait of one round; worlds in which silence depends on the arm override this."""
        return int(self.waits(1, rng)[0])


AT_ONCE = Lateness()


def _law(delay: int | list[Any]) -> tuple[Literal["fixed", "geometric", "uniform"], tuple[float, ...]]:
    def wrong() -> SpecError:
        return SpecError(
            "the delay is not known",
            path="feedback.delay",
            given=delay,
            allowed='a whole number, ["geometric", mean] or ["uniform", low, high]',
        )

    numbers = [delay] if isinstance(delay, int) else delay[1:]
    if any(isinstance(n, bool) or not isinstance(n, int | float) or not 0 <= n <= LONGEST for n in numbers):
        raise wrong()
    if isinstance(delay, int):
        return "fixed", (float(delay),)
    if len(delay) == 2 and delay[0] == "geometric":
        return "geometric", (float(delay[1]),)
    if len(delay) == 3 and delay[0] == "uniform" and delay[1] <= delay[2] and all(n == int(n) for n in numbers):
        return "uniform", (float(delay[1]), float(delay[2]))
    raise wrong()


class Outstanding:
    """Rounds that were decided and not handed over yet, with their arms: what a driver keeps between two calls.

    ``decided`` notes a round, ``arrive`` its feedback (once, for the arm that was decided; again or too late: ignored),
    ``take`` gives what may be learned now: on the settled clock rounds in their order, answered or not; on the decided
    clock what has arrived, in order of arrival. Memory: the rounds of one window.
    """

    def __init__(self, policy: Policy, lateness: Lateness = AT_ONCE) -> None:
        self.clock, self.lateness, self.report = policy.clock, lateness, policy.report
        self.now = 0
        self.settled = 0
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
        return self._in_order(noise) if self.clock == "settled" else self._as_they_came()

    def _in_order(self, noise: Noise) -> Iterator[Feedback | Report]:
        while self.settled < self.now and self._is_settled(self.settled):
            answer = self._here.pop(self.settled, None)
            arm, shown = self._open.pop(self.settled)
            if answer is None:
                missing = self.lateness.default if self.lateness.treat == "default" else None
                answer = self.report(Feedback(self.settled, arm, missing, shown), noise)
            self.settled += 1
            yield answer

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
    if policy.clock == "decided":
        return settle(policy, policy.learn_all(state, outstanding.take(noise)), outstanding.now, noise)
    for feedback in outstanding.take(noise):
        state = policy.learn(settle(policy, state, feedback.index, noise), feedback)
    return settle(policy, state, outstanding.settled, noise)
