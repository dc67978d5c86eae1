"""When rewards come: the law of their delay, who never answers, and what is made of a missing one.

A round's window closes ``window`` decisions after its own. What a round that closes without an answer is worth is
declared in ``treat`` (`fairveil.bandits.feedback` says why the guarantee stays).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from fairveil.arrays import Ints
from fairveil.bandits.facts import Assumed, Fact
from fairveil.bandits.protocol import Policy, Round
from fairveil.errors import SpecError, at, spec_error
from fairveil.fields import Natural
from fairveil.privacy.guarantee import Guarantee
from fairveil.randomness import Generator

Treat = Literal["public", "default", "private"]
Law = Literal["fixed", "geometric", "uniform"]
NEVER = -1
"""The wait of a reward that does not arrive inside its window."""
NOBODY = -1
"""The arm of a round in which nobody was there to be chosen."""
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

Release = Literal["arrivals", "blocks"]
BATCHES_IN_WORDS = (
    "what a batch holds: rounds in the order in which they settle (arrivals), or consecutive ones (blocks); runs fill "
    "in arrivals"
)
SEATS = (
    "which batch a round is in follows from the order in which rounds settle, which is public and may not depend on "
    "rewards or features that are not released"
)


def seats_named(first: int, stop: int) -> str:
    """The name of a batch of seats: there is one queue, and what is taken of it can be read off names alone."""
    return f"0-{first}-{stop}"


def with_arrivals(guarantee: Guarantee, treat: str) -> Guarantee:
    """A policy's guarantee with what holds for arrivals where missing rewards are treated so."""
    kept = tuple(note for note in guarantee.notes if note not in ARRIVALS_IN_WORDS.values())
    return replace(guarantee, notes=(*kept, ARRIVALS_IN_WORDS[treat]))


class FeedbackSpec(BaseModel):
    """The key ``feedback`` of a bandit spec, in rounds.

    ``delay``: every reward after so many more decisions, or ``["geometric", mean]``, or ``["uniform", low, high]``;
    ``window``: after so many more decisions a round is settled in any case (default: the delay, 4.6 means, or high);
    ``missing``: share of the rewards that never arrives; ``treat`` and ``default``: what a missing reward is worth.
    To try what may happen to plain arms: a list of delays and of shares has one entry an arm; ``delay_if``:
    ``{"reward": factor}``, a reward of 1 takes factor times as long, one between in between; ``outages``:
    ``[[first, stop, more], ...]``, rewards of rounds first .. stop - 1 take so many decisions more.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    delay: int | list[Any] = 0
    window: Natural | None = None
    missing: float | list[float] = 0.0
    treat: Treat = "public"
    default: float | None = None
    delay_if: dict[Literal["reward"], float] | None = None
    outages: list[list[Natural]] = []


class Wait(NamedTuple):
    """The law of a delay in decisions, and the share of rewards that never come."""

    law: Law = "fixed"
    numbers: tuple[float, ...] = (0.0,)
    missing: float = 0.0

    @property
    def shortest(self) -> float:
        return self.numbers[0] if self.law != "geometric" else 0.0

    @property
    def longest(self) -> float:
        return math.ceil(SLOWEST * self.numbers[0]) if self.law == "geometric" else self.numbers[-1]

    @property
    def mean(self) -> float:
        return sum(self.numbers) / len(self.numbers)

    def draw(self, count: int, rng: Generator) -> Ints:
        """Delays of ``count`` rewards."""
        if self.law == "fixed":
            return np.full(count, int(self.numbers[0]), np.int64)
        if self.law == "geometric":  # mean m on 0, 1, 2, ...
            return rng.geometric(1.0 / (1.0 + self.numbers[0]), count) - 1
        return rng.integers(int(self.numbers[0]), int(self.numbers[1]) + 1, count)

    @property
    def table(self) -> Any:
        return int(self.numbers[0]) if self.law == "fixed" else [self.law, *self.numbers]


@dataclass(frozen=True, slots=True)
class Lateness:
    """When rewards come, complete and checked. The default: at once, all of them.

    ``by_arm``: a law of its own for each arm; ``factor``: how many times as long a reward of 1 takes; ``outages``:
    (first, stop, more), rewards of these rounds take more.
    """

    law: Law = "fixed"
    numbers: tuple[float, ...] = (0.0,)
    window: int = 0
    missing: float = 0.0
    treat: Treat = "public"
    default: float = 0.0
    by_arm: tuple[Wait, ...] = ()
    factor: float = 1.0
    outages: tuple[tuple[int, int, int], ...] = ()

    @classmethod
    def of(cls, table: dict[str, Any] | None) -> Lateness:
        """The lateness that a spec's ``feedback`` describes; None: at once.

        >>> Lateness.of({"delay": ["uniform", 2, 9]}).window
        9
        >>> Lateness.of({"delay": [3, 50], "missing": [0.0, 1.0]}).of_arm(1).missing
        1.0
        """
        if table is None:
            return AT_ONCE
        try:
            model = FeedbackSpec.model_validate(table)
        except ValidationError as problem:
            raise at(spec_error(problem, "", frozenset(FeedbackSpec.model_fields)), "feedback") from None
        arms = _by_arm(model)
        first = arms[0] if arms else Wait(*_law(model.delay), _share(model.missing, below_one=True))
        factor = 1.0 if model.delay_if is None else _factor(model.delay_if)
        slower, faster = max(1.0, factor), min(1.0, factor)
        shortest = math.floor(faster * min(one.shortest for one in arms or (first,)))
        longest = math.ceil(slower * max(one.longest for one in arms or (first,)))
        window = longest if model.window is None else model.window
        if not shortest <= window <= LONGEST:
            raise SpecError(
                "no reward arrives inside the window",
                path="feedback.window",
                given=window,
                allowed=f"in [{shortest}, {LONGEST}]",
                fix="make the window as long as the delay, or leave it out",
            )
        if model.default is not None and model.treat != "default":
            raise SpecError(
                "a default is used with treat = default only",
                path="feedback.default",
                given=model.default,
                allowed="nothing",
                fix='leave it out, or treat = "default"',
            )
        outages = _outages(model.outages)
        default = model.default or 0.0
        return cls(first.law, first.numbers, window, first.missing, model.treat, default, arms, factor, outages)

    def table(self) -> dict[str, Any]:
        """The complete table of a spec; `of` is its inverse."""
        delay: Any = Wait(self.law, self.numbers).table
        missing: Any = self.missing
        if self.by_arm:
            delay, missing = [one.table for one in self.by_arm], [one.missing for one in self.by_arm]
        made = {"delay": delay, "window": self.window, "missing": missing, "treat": self.treat}
        if self.treat == "default":
            made["default"] = self.default
        if self.factor != 1.0:
            made["delay_if"] = {"reward": self.factor}
        return {**made, "outages": [list(one) for one in self.outages]} if self.outages else made

    def of_arm(self, arm: int) -> Wait:
        """The law of the rewards of one arm."""
        return self.by_arm[arm] if self.by_arm else Wait(self.law, self.numbers, self.missing)

    def words(self) -> str:
        """When answers come, for people; nothing where all come at once.

        >>> Lateness.of({"delay": ["uniform", 20, 40], "missing": 0.15, "window": 50}).words()
        'answers after 20 to 40 people, 15 % never, windows of 50'
        """
        if self == AT_ONCE:
            return ""
        laws = self.laws
        low, high = (f"{end:,.0f}" for end in (min(one.shortest for one in laws), max(one.longest for one in laws)))
        when = low if low == high else f"{low} to {high}"
        if not self.by_arm and self.law == "geometric":
            when = f"{self.numbers[0]:,.0f} on average"
        shares = sorted({100 * one.missing for one in laws})
        never = " to ".join(f"{share:g}" for share in dict.fromkeys((shares[0], shares[-1])))
        parts = [f"answers after {when} people", *([f"{never} % never"] if shares[-1] else [])]
        parts += [f"an outcome of 1 after {self.factor:g} times as many"] if self.factor != 1.0 else []
        parts += [f"{len(self.outages)} outage(s)"] if self.outages else []
        return ", ".join([*parts, f"windows of {self.window:,}"])

    @property
    def laws(self) -> tuple[Wait, ...]:
        """One law an arm, or one for all."""
        return self.by_arm or (self.of_arm(0),)

    @property
    def usual(self) -> int:
        """Decisions that an answer takes on average, where it takes longest."""
        return math.ceil(max(one.mean for one in self.laws))

    @property
    def shortest(self) -> int:
        """Decisions before which no answer comes."""
        return math.floor(min(one.shortest for one in self.laws) * min(1.0, self.factor))

    @property
    def even(self) -> bool:
        """One law for all rewards, whatever their arm, value and round."""
        return not self.by_arm and self.factor == 1.0 and not self.outages

    def check_arms(self, arms: int | None) -> None:
        """Refuse laws by arm, value or round where decisions are not among declared arms, and a wrong number."""
        if arms is None and not self.even:
            raise SpecError(
                "laws by arm, by reward and outages are for plain arms",
                path="feedback",
                allowed="delay, window, missing, treat, default",
            )
        if self.by_arm and len(self.by_arm) != arms:
            given = len(self.by_arm)
            raise SpecError("there is not one law per arm", path="feedback.delay", given=given, allowed=str(arms))

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
        return None if guarantee is None else with_arrivals(guarantee, self.treat)

    def facts(self, release: str = "arrivals") -> dict[str, Fact]:
        """What a run fills into its policy: release by arrival, and how many rounds are usually under way then."""
        slow = self.hidden or release == "blocks"
        under_way = self.window if slow else self.usual
        return {"outstanding": Assumed(min(under_way, self.window)), "release": Assumed("arrivals")}

    @property
    def hidden(self) -> bool:
        """Rounds settle when their window closes, whatever arrived."""
        return self.treat != "public"

    def waits(self, count: int, rng: Generator) -> Ints:
        """How many more decisions the rewards of ``count`` rounds take, `NEVER` for those that miss the window."""
        return self._inside(Wait(self.law, self.numbers).draw(count, rng), self.missing, rng)

    def each_wait(self, count: int, rng: Generator) -> Ints:
        """The same waits, drawn for one round after the other, as steps draw them."""
        if self.missing == 0 or self.law == "fixed":  # one kind of draw: a long one is many short ones
            return self.waits(count, rng)
        return np.concatenate([self.waits(1, rng) for _ in range(count)])

    def _inside(self, drawn: Ints, missing: float, rng: Generator) -> Ints:
        lost = drawn > self.window
        if missing > 0:
            lost |= rng.random(len(drawn)) < missing
        drawn[lost] = NEVER
        return drawn

    def given(self, reward: float) -> Lateness:
        """The lateness of a reward of this value."""
        return self if self.factor == 1.0 else replace(self, factor=1.0 + (self.factor - 1.0) * reward)

    def wait(self, round: Round, arm: int, rng: Generator) -> int:
        """The wait of one round; worlds in which silence depends on the arm override this."""
        if self.even:
            return int(self.waits(1, rng)[0])
        law = self.of_arm(arm)
        more = sum(more for first, stop, more in self.outages if first <= round.index < stop)
        drawn = np.floor(law.draw(1, rng) * self.factor + 0.5).astype(np.int64) + more
        return int(self._inside(drawn, law.missing, rng)[0])


AT_ONCE = Lateness()


def _law(delay: int | list[Any]) -> tuple[Law, tuple[float, ...]]:
    def wrong() -> SpecError:
        return SpecError(
            "the delay is not known",
            path="feedback.delay",
            given=delay,
            allowed='a whole number, ["geometric", mean] or ["uniform", low, high]',
        )

    if not isinstance(delay, int | list) or isinstance(delay, bool):
        raise wrong()
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


def _share(missing: Any, *, below_one: bool) -> float:
    if not 0.0 <= missing <= 1.0 or (below_one and missing == 1.0):
        raise SpecError(
            "the share of missing rewards is wrong",
            path="feedback.missing",
            given=missing,
            allowed="in [0, 1)" if below_one else "in [0, 1]",
        )
    return float(missing)


def _by_arm(model: FeedbackSpec) -> tuple[Wait, ...]:
    """The law of every arm, where delays or shares are listed; a silent arm has a share of 1."""
    delay, missing = model.delay, model.missing
    delays: list[Any] | None = delay if isinstance(delay, list) and not (delay and isinstance(delay[0], str)) else None
    shares: list[Any] | None = missing if isinstance(missing, list) else None
    if delays is None and shares is None:
        return ()
    count = len(delays if delays is not None else shares or [])
    delays, shares = delays or [delay] * count, shares or [missing] * count
    if len(delays) != len(shares) or not count:
        given = f"{len(delays)} delays, {len(shares)} shares"
        raise SpecError("there is not one law per arm", path="feedback.missing", given=given, allowed="as many")
    return tuple(Wait(*_law(delay), _share(share, below_one=False)) for delay, share in zip(delays, shares))


def _factor(delay_if: dict[Any, float]) -> float:
    factor = delay_if.get("reward", 1.0)
    if not 0.0 < factor <= LONGEST:
        allowed = f"above 0, at most {LONGEST}"
        raise SpecError("the factor is wrong", path="feedback.delay_if.reward", given=factor, allowed=allowed)
    return float(factor)


def _outages(rows: list[list[int]]) -> tuple[tuple[int, int, int], ...]:
    for place, row in enumerate(rows):
        if len(row) != 3 or row[0] >= row[1] or row[2] > LONGEST:
            raise SpecError(
                "this is no outage",
                path=f"feedback.outages.{place}",
                given=row,
                allowed="[first round, stop round, decisions that its rewards take more]",
            )
    return tuple((first, stop, more) for first, stop, more in rows)
