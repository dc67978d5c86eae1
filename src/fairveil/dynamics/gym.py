"""Gymnasium environments: an agent sets the thresholds, the populations answer. Importing this needs gymnasium.

``gymnasium.make("fairveil/Participation-v0")`` (or Qualification, Strategic) after importing this module, or build
the classes with groups of your own. An action is one number in [0, 1] a group, stretched over the range that holds all
but a millionth of the features of every label; the reward is what the decision maker gains in that step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairveil.arrays import Floats
from fairveil.dynamics.assumptions import transition_violations
from fairveil.dynamics.participation.model import retention as retention_of
from fairveil.dynamics.population import Measures, Population, measure, population
from fairveil.errors import DependencyError, SpecError

try:
    import gymnasium
except ImportError:
    raise DependencyError("the environments need gymnasium", fix="pip install 'fairveil[lab]'") from None

#: Share of a label's features that lies beyond the lowest and beyond the highest threshold an action can stand for.
TAIL = 5e-7

_FEATURES = {"0": ["normal", -5.0, 5.0], "1": ["normal", 5.0, 5.0]}
DEFAULT_GROUPS: dict[str, dict[str, Any]] = {
    "a": {
        "qualified": 0.6,
        "share": 0.5,
        "features": _FEATURES,
        "arrivals": 1000.0,
        "transitions": [[0.4, 0.5], [0.5, 0.9]],
        "cost": ["uniform", 0.0, 1.0],
    },
    "b": {
        "qualified": 0.4,
        "share": 0.5,
        "features": _FEATURES,
        "arrivals": 1000.0,
        "transitions": [[0.1, 0.5], [0.5, 0.7]],
        "cost": ["uniform", 0.0, 1.0],
    },
}


class ThresholdEnv(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """Base: groups with one feature each, thresholds as actions, an episode of ``steps`` steps."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  (declared so by gymnasium.Env)
    needs: ClassVar[tuple[str, ...]] = ("qualified", "features")

    def __init__(
        self,
        groups: Mapping[str, Any] | None = None,
        *,
        utility: Mapping[str, float] | None = None,
        steps: int = 50,
        random_start: bool = False,
        render_mode: str | None = None,
    ) -> None:
        tables = DEFAULT_GROUPS if groups is None else groups
        for name, table in tables.items():
            for key in self.needs:
                if key not in table:
                    raise SpecError("this key is required", path=f"groups.{name}.{key}", fix="add it")
            if not 0.0 < table["qualified"] < 1.0:
                raise SpecError("this is not a rate", path=f"groups.{name}.qualified", allowed="a number in (0, 1)")
        self.tables, self.steps, self.random_start, self.render_mode = tables, steps, random_start, render_mode
        self.people: Population = population(tables, utility)
        laws = [self.people.feature(0, s, label) for s in range(self.people.groups) for label in (0, 1)]
        self.low, self.high = min(law.ppf(TAIL) for law in laws), max(law.ppf(1.0 - TAIL) for law in laws)
        size = self.people.groups
        self.action_space = gymnasium.spaces.Box(0.0, 1.0, (size,), np.float32)
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (2 * size,), np.float32)
        self.step_count = 0

    def thresholds(self, action: NDArray[Any]) -> Floats:
        """The thresholds an action stands for."""
        return self.low + np.clip(np.asarray(action, float), 0.0, 1.0) * (self.high - self.low)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start again; ``options={"start": [...]}`` sets the state, ``random_start`` draws it."""
        super().reset(seed=seed)
        self.step_count = 0
        given = (options or {}).get("start")
        start: Floats | None = None
        if given is not None:
            start = np.asarray(given, float)
            if start.shape != (self.people.groups,) or not ((start > 0) & (start < 1)).all():
                raise SpecError("the start is one number a group", path="options.start", allowed="numbers in (0, 1)")
        elif self.random_start:
            start = self.np_random.uniform(0.05, 0.95, self.people.groups)
        self._begin(start)
        return self._observe(np.zeros(self.people.groups)), {}

    def step(self, action: NDArray[Any]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Decide with these thresholds; the populations move."""
        thresholds = self.thresholds(action)
        seen = measure(self._now(), thresholds[None, :])
        reward, felt = self._advance(seen)
        self.step_count += 1
        info = {
            "thresholds": thresholds,
            "loss": seen.loss[0].copy(),
            "accepted": seen.accepted[0].copy(),
            "utility": seen.utility[0].copy(),
            "manipulation": seen.manipulation[0].copy(),
            "parity_gap": float(np.ptp(seen.accepted[0])),
            "opportunity_gap": float(np.ptp(seen.above1[0])),
        }
        return self._observe(felt), float(reward), False, self.step_count >= self.steps, info

    def _observe(self, felt: Floats) -> NDArray[np.float32]:
        return np.clip(np.concatenate([self._state(), felt]), 0.0, 1.0).astype(np.float32)

    def _begin(self, start: Floats | None) -> None:
        """Set the state: the given one, or the groups' own."""
        raise NotImplementedError

    def _now(self) -> Population:
        """The population as it is."""
        raise NotImplementedError

    def _state(self) -> Floats:
        """One number in [0, 1] a group."""
        raise NotImplementedError

    def _advance(self, seen: Measures) -> tuple[float, Floats]:
        """Move the state; the reward, and what the groups felt (a number in [0, 1] each)."""
        raise NotImplementedError


class ParticipationEnv(ThresholdEnv):
    """Who stays: numbers grow by arrivals and shrink by how badly a group is served.

    Observation: shares, then the groups' losses in the last step. Reward: minus the average loss of those present.
    """

    needs = ("qualified", "features", "arrivals")

    def __init__(self, groups: Mapping[str, Any] | None = None, *, retention: Any = "accuracy", **options: Any) -> None:
        super().__init__(groups, **options)
        if retention == "subgroup":
            raise SpecError(
                "the environment counts groups, not the labels within them",
                path="retention",
                given=retention,
                allowed="a driver of whole groups, such as accuracy, or a table with driver and response",
                fix='for subgroups use fairveil.run({"task": "participation", ...})',
            )
        self.retention = retention_of(retention)
        self.arrivals = np.array([float(table["arrivals"]) for table in self.tables.values()])
        if not (np.isfinite(self.arrivals) & (self.arrivals > 0.0)).all():
            raise SpecError(
                "users must arrive", path="groups", given=self.arrivals.tolist(), allowed="positive arrivals"
            )

    def _begin(self, start: Floats | None) -> None:
        self.numbers = self.arrivals.copy() if start is None else start / start.sum() * self.arrivals.sum()

    def _state(self) -> Floats:
        return self.numbers / self.numbers.sum()

    def _now(self) -> Population:
        return self.people.with_rates(share=self._state()[None, :])

    def _advance(self, seen: Measures) -> tuple[float, Floats]:
        loss = seen.loss[0]
        reward = -float(self._state() @ loss)
        self.numbers = self.numbers * self.retention(seen)[0] + self.arrivals
        return reward, loss


class RatesEnv(ThresholdEnv):
    """The state is the share of the qualified in each group."""

    def _begin(self, start: Floats | None) -> None:
        self.rates = self.people.qualified[0].copy() if start is None else start

    def _state(self) -> Floats:
        return self.rates

    def _now(self) -> Population:
        return self.people.with_rates(qualified=self.rates[None, :])


class QualificationEnv(RatesEnv):
    """Who becomes qualified: decisions move people in and out of qualification.

    Observation: qualification rates, then acceptance rates of the last step. Reward: utility, gain minus cost.
    """

    needs = ("qualified", "features", "transitions")

    def __init__(self, groups: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__(groups, **options)
        self.transitions = np.array([table["transitions"] for table in self.tables.values()], float)
        for violation in transition_violations(self.people.names, self.transitions):
            path = f"groups.{violation.group}.transitions"
            raise SpecError("these are not chances", path=path, given=violation.where, allowed=violation.assumption)
        self.people = _without_cost(self.people)

    def _advance(self, seen: Measures) -> tuple[float, Floats]:
        move = self.transitions
        gain = move[:, 0, 0] * seen.below0[0] + move[:, 0, 1] * seen.above0[0]
        keep = move[:, 1, 0] * seen.below1[0] + move[:, 1, 1] * seen.above1[0]
        self.rates = gain * (1 - self.rates) + keep * self.rates
        return float(self.people.share[0] @ seen.utility[0]), seen.accepted[0]


class StrategicEnv(RatesEnv):
    """Who manipulates: the unqualified pay a random cost to look qualified when it is worth it.

    Observation: qualification rates, then the shares of the unqualified who manipulated in the last step. Reward:
    utility with manipulation. Nothing carries over, so one good threshold pair is best in every step.
    """

    needs = ("qualified", "features", "cost")

    def _advance(self, seen: Measures) -> tuple[float, Floats]:
        return float(self.people.share[0] @ seen.utility[0]), seen.manipulation[0]


def _without_cost(people: Population) -> Population:
    return replace(people, cost=np.full_like(people.cost, -1))


ENVIRONMENTS = {"Participation": ParticipationEnv, "Qualification": QualificationEnv, "Strategic": StrategicEnv}
for _name, _kind in ENVIRONMENTS.items():
    if f"fairveil/{_name}-v0" not in gymnasium.registry:
        gymnasium.register(f"fairveil/{_name}-v0", entry_point=f"fairveil.dynamics.gym:{_kind.__name__}")
