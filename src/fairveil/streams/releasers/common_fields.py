"""The public keys that all releasers share, and what follows from them: who is protected, and from how much."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Strict

from fairveil.arrays import Floats
from fairveil.configuration import configuration
from fairveil.errors import HorizonError, PrivacyError, SpecError
from fairveil.fields import Count, Delta, Epsilon, OpenUnit, Positive, described
from fairveil.privacy.events import Event, PureEvent
from fairveil.privacy.guarantee import Guarantee, Neighbours
from fairveil.streams.noise_plan import StreamBudget
from fairveil.streams.protocol import USED, Quote, Releaser, State

DECLARED = "the sensitivity is declared: contributions must be bounded before they reach the stream"
MISSING_IS_PUBLIC = "which steps are missing, and all times, must not depend on people's data"
HALF = "add-remove hides whether somebody takes part, not a change of values; contributions lie in [0, sensitivity]"


@configuration
class StreamKeys(Releaser):
    """Budget, unit and sensitivity of a stream.

    ``sensitivity``: how far one person can move one value; or ``range``: values are clipped to it and one source may
    move them across it. ``unit``: whom the guarantee protects (see `docs/guides/streams.md`). ``horizon`` counts
    releases; a missing step uses none.
    """

    _: KW_ONLY
    epsilon: Epsilon | None = described("budget of the whole stream", default=None, example=1.0)
    delta: Delta | None = described("delta of the whole stream (not for pure releasers)", default=None)
    mu: Positive | None = described("budget in Gaussian DP", default=None)
    rho: Positive | None = described("budget in zCDP", default=None)
    sensitivity: Positive = described("how far one person moves one value", default=1.0)
    range: Annotated[tuple[float, float], Strict(False)] | None = described(
        "low,high: values are clipped to it", default=None
    )
    unit: Literal["sequence", "window", "event"] = described(
        "whom the guarantee protects: all of a person's values, those of a window, or one", default="sequence"
    )
    window: Count | None = described("steps of the window", default=None)
    participation: Count | None = described("steps one person takes part in, at most", default=None)
    neighbours: Literal["replace", "add-remove"] = described(
        "what is hidden: a change of values, or whether somebody takes part", default="replace"
    )
    starts: Count | None = described(
        "starts of the process paid for (add-remove); none: plain noise, any number", default=10
    )
    horizon: Count | None = described("number of releases; missing steps use none", default=None, example=8)
    nonnegative: bool = described("show nothing below 0", default=False)
    round: bool = described("show whole numbers", default=False)
    interval: OpenUnit = described("nominal coverage of low and high", default=0.9)
    variant: Literal["sound", "printed"] = described("the sound form, or the printed one to reproduce", default="sound")

    def __post_init__(self) -> None:
        if self.range is not None and not self.range[0] < self.range[1]:
            raise SpecError("the range is not a range", path="range", given=self.range, allowed="low < high")
        if self.range is not None and self.sensitivity not in (1.0, self.range[1] - self.range[0]):
            raise SpecError(
                "the sensitivity is stated twice", path="sensitivity", given=self.sensitivity,
                allowed="sensitivity or range", fix="leave one out",
            )  # fmt: skip
        if not 1e-250 < self.step_sensitivity < 1e250:
            raise SpecError(
                "the sensitivity is out of range",
                path="sensitivity" if self.range is None else "range",
                given=self.step_sensitivity,
                allowed="between 1e-250 and 1e250",
            )
        self._check_unit()

    def _check_unit(self) -> None:
        if self.unit == "window" and self.window is None:
            raise SpecError("a window needs its length", path="window", allowed="a number of steps", fix="add it")
        if self.window is not None and self.unit != "window":
            raise SpecError(
                "the length of a window belongs to the unit window", path="window", given=self.window,
                allowed='unit = "window"', fix='set unit = "window", or leave window out',
            )  # fmt: skip
        if self.participation is not None and self.unit != "sequence":
            raise SpecError(
                "participation belongs to the unit sequence", path="participation", given=self.participation
            )
        if self.participation is not None and self.horizon is not None and self.participation > self.horizon:
            raise SpecError(
                "nobody can take part in more steps than there are",
                path="participation",
                given=self.participation,
                allowed=f"at most the horizon, {self.horizon}",
            )

    @property
    def step_sensitivity(self) -> float:
        """How far one person moves one value: the declared number, or the width of the range."""
        return self.sensitivity if self.range is None else self.range[1] - self.range[0]

    @property
    def touched(self) -> int | None:
        """How many steps one unit can change; None: every step, for ever.

        Replacing somebody who used k steps by somebody who used k others changes 2 k values.
        """
        if self.unit == "event":
            return 1
        if self.unit == "window":
            assert self.window is not None
            return self.window
        if self.participation is None:
            return self.horizon
        changed = self.participation * (2 if self.neighbours == "replace" else 1)
        return changed if self.horizon is None else min(changed, self.horizon)

    @property
    def budget(self) -> StreamBudget:
        return StreamBudget(self.epsilon, self.delta, self.mu, self.rho, self.variant == "printed")

    def need_horizon(self) -> SpecError:
        return SpecError(
            "a stream that protects whole sequences needs its horizon",
            path="horizon",
            allowed="the number of releases",
            fix='add it; endless streams need participation, a falling schedule, or unit = "window"',
        )

    @cached_property
    def unit_in_words(self) -> str:
        if self.unit == "event":
            return "one person's contribution at one given step"
        if self.unit == "window":
            return f"one person's contributions inside any {self.window} successive steps"
        if self.participation is not None:
            return f"one person's whole sequence, of contributions to at most {self.participation} steps"
        return "one person's whole sequence"

    @property
    def neighbouring(self) -> Neighbours:
        if self.unit == "sequence":
            plain = self.neighbours == "replace"
            return Neighbours.REPLACE_SEQUENCE if plain else Neighbours.ADD_REMOVE_SEQUENCE
        return Neighbours.REPLACE_WINDOW if self.unit == "window" else Neighbours.REPLACE_EVENT

    def facts(self, *notes: str, established: bool = True) -> dict[str, Any]:
        """What every guarantee of this stream says beside its numbers."""
        if self.range is None:
            bound = DECLARED
        else:
            bound = "values are clipped to the public range before noise; one source may move them across it"
        half = (HALF,) if self.neighbours == "add-remove" and self.unit == "sequence" else ()
        return {
            "model": "global",
            "unit": self.unit_in_words,
            "neighbours": self.neighbouring,
            "established": established,
            "notes": (*notes, bound, MISSING_IS_PUBLIC, *half),
        }

    def check_horizon(self, state: State, more: int) -> None:
        """Refuse releases beyond the horizon, before anything is drawn."""
        if self.horizon is not None and int(state["counts"][USED]) + more > self.horizon:
            raise used_up(self.horizon, f"{self.horizon} releases, {int(state['counts'][USED])} were made")

    def pure_guarantee(self, *notes: str, established: bool = True) -> Guarantee:
        return Guarantee.pure(float(self.epsilon or 0.0), **self.facts(*notes, established=established))

    @property
    def laplace_reach(self) -> float:
        """Half the width of an interval, in scales of Laplace noise."""
        return math.log(1 / (1 - self.interval))

    def check_pure(self) -> None:
        """Pure releasers take epsilon and nothing else."""
        if self.epsilon is None or (self.delta, self.mu, self.rho) != (None, None, None):
            raise SpecError(
                "this releaser is pure: its budget is epsilon",
                path="epsilon" if self.epsilon is None else "delta",
                given={"epsilon": self.epsilon, "delta": self.delta, "mu": self.mu, "rho": self.rho},
                allowed="epsilon alone",
            )

    def event(self) -> Event:
        raise NotImplementedError


class PureStream(StreamKeys):
    """What releasers share that take values one by one and spend a pure epsilon where and when they choose."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_pure()

    def check(self, state: State, values: Floats) -> None:
        self.check_horizon(state, int((~np.isnan(values)).sum()))

    def event(self) -> Event:
        return PureEvent(float(self.epsilon or 0.0))

    def in_range(self, value: float) -> float:
        """A value in the public range, where there is one."""
        return value if self.range is None else min(max(value, self.range[0]), self.range[1])

    def as_asked(self, value: float, low: float, high: float) -> tuple[float, float, float]:
        """What is shown of a value and its interval: nothing below 0, or whole numbers, where the keys say so."""
        if math.isnan(value):
            return value, low, high
        if self.nonnegative:
            value, low, high = max(value, 0.0), max(low, 0.0), max(high, 0.0)
        return (round(value), math.floor(low), math.ceil(high)) if self.round else (value, low, high)

    def quote_of(self, std: float) -> Quote:
        """Of Laplace noise with this std on every value."""
        width = math.sqrt(2.0) * std * self.laplace_reach
        return Quote(std, std, std, self.interval, width, (), self.guarantee().to_dict())


def used_up(horizon: int, allowed: str) -> HorizonError:
    """No release is left."""
    fix = "what was released stays; a longer stream needs a new budget"
    return HorizonError("the horizon is used up", path="horizon", given=horizon, allowed=allowed, fix=fix)


def oracle_reads(key: str, fix: str) -> PrivacyError:
    """A key that is chosen on the true error is for experiments alone."""
    return PrivacyError("an oracle reads the data it releases", path=key, given="oracle", fix=fix)
