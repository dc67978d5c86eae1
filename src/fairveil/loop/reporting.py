"""What a loop declares about reports: how often, at what price, and the rules whose value may be asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import numpy as np
from pydantic import Field, Strict

from fairveil.arrays import Floats
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.loop.clock import seconds_of
from fairveil.loop.guards import names_of_arms, unknown_arm
from fairveil.privacy.vectors import Price

if TYPE_CHECKING:
    from fairveil.loop.requests import Ask

Kind = Literal["fairness", "evaluation"]
KINDS: tuple[Kind, ...] = get_args(Kind)
REFUSED = "refused"
"""The status of a scheduled report in which not everybody was counted; others that cannot be made are ``skipped``."""
MOST_TARGETS = 8
Amount = Annotated[float, Field(ge=1e-6, le=1e6, allow_inf_nan=False)]


@configuration
class Reports:
    """Reports of a loop. ``every``: so many places make one report of each kind, made by tick and paid in advance.

    ``epsilon`` or ``rho``: the budget of one place in all reports of a kind. ``spare``: how much of the loop's own
    ledger is kept for releases by hand, in the ledger's currency; content is then kept for ``keep``. ``groups``:
    whether it is public who was shown; private unless declared for arms, public for candidates.
    """

    every: Annotated[int, Field(ge=1, le=10**9)] | None = None
    epsilon: Amount | None = None
    rho: Amount | None = None
    kinds: Annotated[tuple[Kind, ...], Strict(False)] = ("fairness",)
    level: Annotated[float, Field(gt=0.0, lt=1.0, allow_inf_nan=False)] = 0.95
    groups: Literal["public", "private"] | None = None
    spare: Annotated[float, Field(ge=0.0, le=1e6, allow_inf_nan=False)] = 0.0
    keep: str = "90d"

    def __post_init__(self) -> None:
        seconds_of(self.keep, "reports.keep")
        priced = (self.epsilon is not None) + (self.rho is not None)
        if priced != (self.every is not None):
            raise SpecError(
                "scheduled reports have one budget", path="reports.epsilon",
                given={"every": self.every, "epsilon": self.epsilon, "rho": self.rho},
                allowed="every with epsilon or rho; or neither, and releases by hand",
            )  # fmt: skip
        if not self.kinds or len(set(self.kinds)) < len(self.kinds):
            raise SpecError("a kind of report is named once", path="reports.kinds", allowed=", ".join(KINDS))

    @property
    def price(self) -> Price | None:
        """The budget of one scheduled report."""
        return None if self.every is None else Price(epsilon=self.epsilon, rho=self.rho)


@dataclass(frozen=True)
class TargetRule:
    """A rule that may be valued: its name, and its law over what one request allows."""

    name: str
    kind: str
    arm: int = 0
    numbers: tuple[float, ...] = ()

    def chance(self, ask: Ask, action: int, actions: int) -> float:
        """The probability of the action taken; NaN where the rule has no law for this request."""
        allowed = range(actions) if ask.allowed is None else ask.allowed
        if self.kind == "uniform":
            return 1.0 / len(allowed)
        if self.kind == "baseline":
            return float("nan") if ask.baseline is None else float(action == ask.baseline)
        if self.kind == "linear":
            scores = np.array([float(one.features @ np.array(self.numbers)) for one in ask.shown])
            best = scores == scores.max()
            return float(best[ask.place(action)] / best.sum())
        weights = self.numbers or tuple(float(arm == self.arm) for arm in range(actions))
        total = sum(weights[one] for one in allowed)
        return weights[action] / total if total > 0 else 1.0 / len(allowed)

    def largest_weight(self, explore: float, most: int) -> float:
        """W: the largest weight that the design allows, a propensity being at least explore/K."""
        return (1.0 if self.kind == "uniform" else float(most)) / explore


def rules_of(
    given: list[dict[str, Any]] | None, arms: int | None, actions: list[str] | None, width: int
) -> list[TargetRule]:
    """Checked targets, in order; each has a name of its own (``label``, else what it is)."""
    found = [_rule(table, f"targets.{place}", arms, actions, width) for place, table in enumerate(given or ())]
    if len(found) > MOST_TARGETS or len({rule.name for rule in found}) < len(found):
        raise SpecError(
            "targets are few and have different names", path="targets", given=len(found),
            allowed=f"at most {MOST_TARGETS}", fix="give each a label",
        )  # fmt: skip
    return found


def _rule(table: Mapping[str, Any], path: str, arms: int | None, actions: list[str] | None, width: int) -> TargetRule:
    kinds = ("uniform", "baseline", "arm", "mixture") if arms is not None else ("uniform", "baseline", "linear")
    kind = str(table.get("name"))
    if kind not in kinds:
        raise SpecError("there is no target of this name", path=f"{path}.name", given=kind, allowed=", ".join(kinds))
    allowed = {"name", "label"} | {"arm": {"arm"}, "mixture": {"shares"}, "linear": {"weights"}}.get(kind, set())
    if unknown := set(table) - allowed:
        raise SpecError("this key is not known", path=f"{path}.{min(unknown)}", allowed=", ".join(sorted(allowed)))
    label = str(table.get("label", kind))
    if kind == "arm":
        names = names_of_arms(actions, arms)
        if str(table.get("arm")) not in names:
            raise unknown_arm(f"{path}.arm", table.get("arm"), names)
        return TargetRule(str(table.get("label", f"arm {table['arm']}")), kind, names.index(str(table["arm"])))
    if kind in ("mixture", "linear"):
        key, wanted = ("shares", arms or 0) if kind == "mixture" else ("weights", width)
        numbers = _numbers(table.get(key), f"{path}.{key}", wanted)
        if kind == "mixture" and (min(numbers) < 0 or abs(sum(numbers) - 1) > 1e-9):
            raise SpecError("shares are a law over the arms", path=f"{path}.shares", allowed="they sum to one")
        return TargetRule(label, kind, numbers=numbers)
    return TargetRule(label, kind)


def _numbers(given: Any, path: str, count: int) -> tuple[float, ...]:
    held = given if isinstance(given, list | tuple) else ()
    if len(held) != count or not all(isinstance(one, int | float) and abs(one) <= 1e12 for one in held):
        raise SpecError(
            "these are not the numbers of this rule", path=path, given=len(held), allowed=f"{count} numbers"
        )
    return tuple(float(one) for one in held)


def chances(rules: list[TargetRule], ask: Ask, action: int, actions: int) -> Floats:
    return np.array([rule.chance(ask, action, actions) for rule in rules], np.float64)
