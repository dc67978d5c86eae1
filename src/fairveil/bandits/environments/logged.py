"""A log of decisions as a world: replay by rejection, so that a policy can be tried on people who were served before.

The policy decides; rows of the log are read until one holds that arm, and its outcome is the reward. Where the log
chose arms with different probabilities p, a matching row is kept with probability floor / p, so every arm is found
equally soon and the kept rows of an arm are people as they come (Li, Chu, Langford and Wang 2011).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator

from fairveil.arrays import Bools, Floats, Ints
from fairveil.bandits.environments.arms import ArmEnvironment
from fairveil.bandits.feedback import AT_ONCE, NEVER, Lateness
from fairveil.bandits.protocol import Round
from fairveil.configuration import configuration
from fairveil.data.logs import Log, LogTable, read_log
from fairveil.data.public_columns import OFTEN
from fairveil.errors import HorizonError, SpecError, at
from fairveil.fields import Count, Natural, OpenUnit, described
from fairveil.privacy.guarantee import REFUSED
from fairveil.randomness import Generator
from fairveil.registry import register

SURE = 4.0
"""Rounds are refused up front that a log of this length would serve less often than four standard errors say."""
ODD = 5.0
"""An arm that was logged this many standard errors more or less often than its propensity says is named."""
ESTIMATES = (
    "the policy's mean outcome over this many rounds on people like those in the log, whose arms were drawn at random "
    "with the stated propensities and whose outcomes do not depend on other people's arms"
)
SILENT = "; who has no outcome is left out, so it speaks of everybody only if silence does not depend on the outcome"
DRAFTED = "the range of outcomes and the names of the arms were read off the log: the promise does not cover them"
PUBLIC_ARMS = "replay: which arm each row of the log was given, with what propensity, is public; outcomes are protected"


def _from_table(given: Any) -> Any:
    if not isinstance(given, Mapping):
        return given
    try:
        return LogTable(**given)
    except SpecError as problem:
        raise at(problem, "log") from None


@register("environment", "logged")
@configuration
class LoggedArms(ArmEnvironment):
    """Replay of logged decisions with uniform or known propensities: CSV, parquet, pandas, polars or a data set.

    ``log`` says where the log is and which column is which. Without a propensity the log must have been uniform: 1 over
    the number of arms. ``order``: ``recorded`` reads rows once, as they stand, ``shuffled`` once in another order in
    every run, ``resampled`` draws rows with replacement and never ends. ``better = "low"`` turns outcomes round: 1 is
    the lowest. ``log.delay`` is a column of decisions until the outcome was known; it needs a public ``window``.
    ``missing = "never"``: a row without an outcome is somebody who never answered, and its reward never arrives.

    Metrics ``replay``: rows read, rows used, the mean outcome with its interval, and what it estimates. They are read
    off people's rows and are not protected.

    Runtime: one step of the policy and 1 / floor rows a round. Memory: the log.

    >>> world = LoggedArms(log={"file": {"arm": ["a", "b"] * 200, "outcome": [0, 1] * 200}})
    >>> world.arm_names, world.true_means.tolist(), world.arms
    (('a', 'b'), [0.0, 1.0], 2)

    Reference: Li, Chu, Langford and Wang (2011), Unbiased offline evaluation of contextual-bandit algorithms.
    """

    recorded = True

    log: Annotated[LogTable, BeforeValidator(_from_table)] = described(
        "where the log is and which column is which", example={"file": {"arm": ["a", "b"] * 99, "outcome": [0, 1] * 99}}
    )
    order: Literal["recorded", "shuffled", "resampled"] = described(
        "rows as they stand, in another order every run, or drawn with replacement", default="recorded"
    )
    better: Literal["high", "low"] = described("which outcomes are good", default="high")
    floor: OpenUnit | None = described(
        "smallest propensity the logging rule could have, public; the smallest in the log without it", default=None
    )
    window: Natural | None = described(
        "further decisions after which an outcome counts as missing, with log.delay", default=None
    )
    missing: Literal["never"] | None = described(
        "what an empty outcome is: an answer that never comes; without it one is refused", default=None, later=True
    )
    arms: Count | None = described("number of arms, to be checked", default=None)
    declared: Literal["public", "drafted"] = described(
        "whether the range of outcomes and the names of arms are public knowledge, or a draft read off the log",
        default="public",
    )

    def __post_init__(self) -> None:
        found = len(self._rows.arms)
        if self.arms not in (None, found):
            raise SpecError(
                "the log has another number of arms",
                path="arms",
                given=self.arms,
                allowed=str(found),
                fix="leave it out, or name the arms in log.arms",
            )
        object.__setattr__(self, "arms", found)
        if (self.window is None) != (self.log.delay is None):
            raise SpecError(
                "a delay needs a window, and a window a delay",
                path="window",
                given=self.window,
                allowed="both or neither",
                fix="declare after how many decisions an outcome is no longer waited for",
            )
        lowest = float(self._propensities.min())
        if self.floor is not None and self.floor > lowest:
            raise SpecError(
                "the log holds a smaller propensity than the declared floor",
                path="floor",
                given=self.floor,
                allowed="at most every propensity in the log",
                fix="declare the smallest probability the logging rule gives to an arm",
            )

    @cached_property
    def _rows(self) -> Log:
        return read_log(self.log, silent=self.silent)

    @property
    def silent(self) -> bool:
        return self.missing is not None

    @cached_property
    def _answered(self) -> Bools:
        """Which rows have an outcome."""
        return ~np.isnan(self._rows.outcomes)

    @cached_property
    def _propensities(self) -> Floats:
        rows = self._rows
        return np.full(len(rows), 1.0 / len(rows.arms)) if rows.propensities is None else rows.propensities

    @cached_property
    def _rewards(self) -> Floats:
        return 1.0 - self._rows.outcomes if self.better == "low" else self._rows.outcomes

    @cached_property
    def _kept(self) -> Floats:
        """The probability with which a matching row is kept."""
        lowest = float(self._propensities.min()) if self.floor is None else self.floor
        return lowest / self._propensities

    @property
    def arm_names(self) -> tuple[str, ...]:
        return self._rows.arms

    @property
    def caveats(self) -> tuple[str, ...]:
        read = ("the names of the arms were read off the log",) if self.log.arms is None else ()
        often = (OFTEN,) if self.order == "resampled" else ()
        refused = (REFUSED,) if self.log.strict else ()
        return (PUBLIC_ARMS, *((DRAFTED,) if self.drafted else read), *often, *refused)

    @property
    def lateness(self) -> Lateness:
        if self.window is None:
            return AT_ONCE
        return Lateness("fixed", (float(self.window),), self.window)

    @cached_property
    def true_means(self) -> Floats:
        """Mean reward of each arm, its rows weighed by one over their propensity; zero for an arm without rows.

        Rows without an outcome say nothing about it.
        """
        rows, there = self._rows, self._answered
        weight, chosen = 1.0 / self._propensities[there], rows.chosen[there]
        totals = np.bincount(chosen, weight * self._rewards[there], len(rows.arms))
        weights = np.bincount(chosen, weight, len(rows.arms))
        return np.divide(totals, weights, out=np.zeros(len(rows.arms)), where=weights > 0)

    def fits(self, rounds: int, strict: bool) -> None:
        rows = self._rows
        known = np.bincount(rows.chosen[self._answered], minlength=len(rows.arms))
        empty = [name for name, count in zip(rows.arms, known) if not count]
        if empty:
            raise SpecError(
                "an arm was never chosen in the log, or nobody answered for it",
                path="log.arms",
                given=empty[0],
                allowed="arms with at least one outcome",
                fix="leave it out: a log says nothing about what was not tried",
            )
        if self.order != "resampled" and rounds > self.serves:
            raise HorizonError(
                f"{rows.source} has too few rows for so many rounds: a round reads one over the smallest propensity",
                path="rounds",
                given=rounds,
                allowed=f"at most {self.serves}",
                fix='ask for fewer rounds, or order = "resampled"',
            )

    @property
    def serves(self) -> int:
        """Rounds that the log serves almost surely: rows times floor, less four standard errors."""
        rows, chance = len(self._rows), float((self._kept * self._propensities).min())
        return max(1, math.floor(rows * chance - SURE * math.sqrt(rows * chance * (1 - chance))))

    def prepare(self, rng: Generator) -> Replay:
        count = len(self._rows)
        order = rng.permutation(count) if self.order == "shuffled" else np.arange(count)
        return Replay(self, order)

    def reward(self, round: Round, arm: int, rng: Generator) -> float:
        return self.prepare(rng).reward(round, arm, rng)

    def measured(self, counted: Mapping[str, Floats]) -> dict[str, Any]:
        rows, answered = self._rows, counted["rounds"] - counted["silent"]
        mean = float((counted["total"] / np.maximum(answered, 1)).mean())
        square = float((counted["square"] / np.maximum(answered, 1)).mean())
        reach = 1.96 * math.sqrt(max(square - mean**2, 0.0) / max(float(answered.mean()), 1.0))
        ends = [self._outcome(value) for value in (mean, mean - reach, mean + reach)]
        unlike = self._unlike()
        found = {
            "rows": len(rows),
            "rows_read": float(counted["read"].mean()),
            "rows_used": float(counted["rounds"].mean()),
            **({"rows_without_outcome": float(counted["silent"].mean())} if self.silent else {}),
            "mean_outcome": ends[0],
            "low": min(ends),
            "high": max(ends),
            "estimates": ESTIMATES + SILENT if self.silent else ESTIMATES,
            "logged_mean": self._outcome(float(self._rewards[self._answered].mean())),
        }
        return {"replay": {**found, "unlike_propensities": unlike} if unlike else found}

    def _outcome(self, reward: float) -> float:
        """A reward on the scale of the outcomes."""
        share = 1.0 - reward if self.better == "low" else reward
        return self._rows.low + (self._rows.high - self._rows.low) * share

    def _unlike(self) -> list[str]:
        """Arms that were logged more or less often than the propensities say: then replay estimates something else.

        With a uniform log an arm has n/k rows in expectation; with a column only the sum of one over propensity is
        known, which is n for every arm.
        """
        weight = 1.0 / self._propensities
        rows = self._rows
        total = np.bincount(rows.chosen, weight, len(rows.arms))
        spread = np.sqrt(np.maximum(np.bincount(rows.chosen, weight * (weight - 1.0), len(rows.arms)), 1.0))
        return [name for name, off in zip(rows.arms, np.abs(total - len(rows)) / spread) if off > ODD]


class Replay(ArmEnvironment):
    """One run through a log: the next row that holds the chosen arm gives the reward."""

    def __init__(self, world: LoggedArms, order: Ints) -> None:
        self.arms, self._endless = world.arms, world.order == "resampled"
        self._order, self._chosen = order.tolist(), world._rows.chosen.tolist()
        self._outcomes, self._kept = world._rewards.tolist(), world._kept.tolist()
        delay = world.log.delay
        self._delays = None if delay is None else world._rows.extra[delay].tolist()
        self._next, self._last = 0, 0
        self._totals = {"read": 0.0, "rounds": 0.0, "silent": 0.0, "total": 0.0, "square": 0.0}
        self._means = world.true_means

    @cached_property
    def true_means(self) -> Floats:
        return self._means

    def reward(self, round: Round, arm: int, rng: Generator) -> float:
        while True:
            row = self._read(rng)
            if self._chosen[row] == arm and (self._kept[row] >= 1.0 or rng.random() < self._kept[row]):
                break
        self._last = row
        outcome: float = self._outcomes[row]
        self._totals["rounds"] += 1
        if math.isnan(outcome):  # it never arrives (`wait`)
            self._totals["silent"] += 1
            return 0.0
        self._totals["total"] += outcome
        self._totals["square"] += outcome * outcome
        return outcome

    def _read(self, rng: Generator) -> int:
        self._totals["read"] += 1
        if self._endless:
            return int(rng.integers(len(self._order)))
        if self._next >= len(self._order):
            raise HorizonError(
                "the log ended before the last round",
                path="rounds",
                given=int(self._totals["rounds"]),
                allowed="fewer rounds",
                fix='ask for fewer rounds, or order = "resampled"',
            )
        self._next += 1
        row: int = self._order[self._next - 1]
        return row

    def wait(self, round: Round, arm: int, lateness: Lateness, rng: Generator) -> int:
        if math.isnan(self._outcomes[self._last]):
            return NEVER
        if self._delays is None:
            return super().wait(round, arm, lateness, rng)
        late = math.ceil(self._delays[self._last])
        return late if late <= lateness.window else NEVER

    def counted(self) -> dict[str, float]:
        return dict(self._totals)
