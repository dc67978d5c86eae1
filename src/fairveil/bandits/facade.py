"""A bandit in the shape of MABWiser (`fit`, `partial_fit`, `predict`, `predict_expectations`), with a guarantee.

For people who come from there: arms are labels, history goes into `fit`, results of predictions into `partial_fit`.
Underneath is the step API of a policy, so privacy is what the policy promises.
"""

from __future__ import annotations

import secrets
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairveil import registry
from fairveil.bandits.feedback import Lateness, Outstanding
from fairveil.bandits.ledgered import drive
from fairveil.bandits.nash.base import NashPolicy
from fairveil.bandits.nash.episodes import EpisodePolicy
from fairveil.bandits.nash.sequential import SequentialPolicy
from fairveil.bandits.protocol import Feedback, Round, settle
from fairveil.errors import InputError, SpecError
from fairveil.ledger import Ledger
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise, SecureNoise, SeededNoise
from fairveil.privacy.tally import Tally
from fairveil.randomness import generator
from fairveil.state import State

WINDOW = 10_000
SIMULATED = "the noise is seeded: this is a simulation and protects nobody"


class Bandit:
    """Arms with labels, a policy of plain arms, and MABWiser's four verbs.

    ``policy``: a name, or a table with a name and parameters, such as ``{"name": "private-nash", "epsilon": 1.0}``;
    rewards lie in [0, 1]. ``seed``: seeded noise and coins, for tests (protects nobody); without it noise is secure.
    ``ledger``: every release is charged and stored there first. ``window``: a prediction whose result has not come
    after so many further predictions is given up.

    Guarantee: that of the policy, `guarantee()`. History in `fit` is released once an arm, with the policy's own noise:
    each reward is in one release, as in play. A further `fit`, or a copy that goes on, releases again, and is counted.
    Cost: `ledger` charges the policy's event once, and refuses a further `fit`. Time of the policy's steps; memory
    O(arms + predictions without a result).

    >>> bandit = Bandit(["old", "new"], {"name": "ucb"}, seed=1).fit(["old", "new", "new"], [0, 1, 1])
    >>> bandit.predict(), bandit.predict_expectations()
    ('new', {'old': 0.0, 'new': 1.0})
    """

    def __init__(
        self,
        arms: Sequence[Hashable],
        policy: str | Mapping[str, Any],
        *,
        seed: int | None = None,
        ledger: Ledger | None = None,
        window: int = WINDOW,
    ) -> None:
        self.arms = list(arms)
        if len(set(self.arms)) != len(self.arms) or not self.arms:
            raise SpecError("arms have different labels", path="arms", given=len(self.arms), allowed="at least one")
        table = {"name": policy} if isinstance(policy, str) else dict(policy)
        built = registry.build("policy", {**table, "arms": len(self.arms)}, "policy")
        if not isinstance(built, NashPolicy):
            raise SpecError(
                "the facade is for plain arms", path="policy.name", given=built.name, allowed="a policy of family nash"
            )
        self.policy, self.ledger, self.window = built, ledger, window
        self.noise: Noise = SecureNoise() if seed is None else SeededNoise(seed, "facade")
        self.rng = generator(secrets.randbits(62) if seed is None else seed, "facade")
        self._tally = Tally()
        self._reset()

    def _reset(self) -> None:
        self.outstanding = Outstanding(self.policy, Lateness(window=self.window))
        self.state: State = self.policy.start()
        self._counted = False  # whether this life is among those that have released

    def __getstate__(self) -> dict[str, Any]:
        """A copy that goes on holds the same rewards, and releases them once more."""
        return {**self.__dict__, "_counted": False}

    def guarantee(self) -> Guarantee | None:
        """What is promised about one reward over everything that this bandit and its copies released so far, None
        where nothing is."""
        promise = self.policy.guarantee()
        if promise is None:
            return None
        if self.noise.simulated:
            promise = replace(promise, notes=(*promise.notes, SIMULATED))
        return promise if self.ledger is not None else self._tally.stated(promise, 1)

    def _count(self) -> None:
        """Count this life before its first draw, where no ledger does."""
        promise = self.policy.guarantee()
        if not self._counted and self.ledger is None and promise is not None:
            self._counted = True
            self._tally.count(self.policy, promise, 1)

    def fit(self, decisions: Sequence[Hashable], rewards: ArrayLike) -> Bandit:
        """Start anew from history: which arm was played, and what came of it."""
        self._reset()
        return self._take_over(*self._checked(decisions, rewards))

    def partial_fit(self, decisions: Sequence[Hashable], rewards: ArrayLike) -> Bandit:
        """Results of predictions, the oldest of the same arm first; what nobody predicted is taken over as history."""
        arms, values = self._checked(decisions, rewards)
        spare = []
        for place, (arm, value) in enumerate(zip(arms, values)):
            index = self._oldest(int(arm))
            if index is None:
                spare.append(place)
                continue
            self._arrive(Feedback(index, int(arm), float(value)))
        self._hand_over()
        return self._take_over(arms[spare], values[spare]) if spare else self

    def predict(self) -> Hashable:
        """The arm for the next person; its result goes into `partial_fit`."""
        index = self.outstanding.now
        self.state = self.policy.open(self.state, index, self.rng)
        arm = self.policy.decide(self.state, Round(index), self.rng).arm
        self.outstanding.decided(arm, Round(index))
        self._hand_over()
        return self.arms[arm]

    def predict_expectations(self) -> dict[Hashable, float]:
        """The estimated mean of every arm, from what is released; not a number where nothing is."""
        rows = self.policy.arm_intervals(self.state)
        return {label: float(row[0]) for label, row in zip(self.arms, rows)}

    # Inside -----------------------------------------------------------------------------------------------------------

    def _checked(self, decisions: Sequence[Hashable], rewards: ArrayLike) -> tuple[Any, Any]:
        values = np.asarray(rewards, np.float64)
        if values.ndim != 1 or len(decisions) != len(values):
            raise InputError(
                "there is one reward a decision",
                path="rewards",
                given=values.shape,
                allowed=f"({len(decisions)},)",
            )
        if not ((values >= 0) & (values <= 1)).all():
            raise InputError(
                "a reward is out of range", path="rewards", allowed="numbers in [0, 1]", fix="rescale them"
            )
        places = {label: place for place, label in enumerate(self.arms)}
        unknown = next((place for place, label in enumerate(decisions) if label not in places), None)
        if unknown is not None:
            raise InputError(
                "a decision names no arm",
                path=f"decisions[{unknown}]",
                allowed=", ".join(map(str, self.arms)),
            )
        return np.array([places[label] for label in decisions], np.int64), values

    def _oldest(self, arm: int) -> int | None:
        return next((index for index, decided in self.outstanding.waiting() if decided == arm), None)

    def _release(self, settled: int) -> None:
        if self.ledger is None:
            if self.policy.due(self.state, settled) is not None:
                self._count()
            self.state = settle(self.policy, self.state, settled, self.noise)
        else:
            noise = self.noise if self.noise.simulated else None
            self.state = drive(self.policy, self.state, settled, self.ledger, noise=noise)

    def _arrive(self, feedback: Feedback) -> None:
        """A result; a local policy draws here, on behalf of whose it is."""
        if self.policy.local:
            self._count()
        self.outstanding.arrive(self.policy.report(feedback, self.noise))

    def _hand_over(self) -> None:
        settled = self.policy.clock == "settled"
        for feedback in self.outstanding.take(self.noise):
            if settled:
                self._release(feedback.index)
            self.state = self.policy.learn(self.state, feedback)
        self._release(self.outstanding.settled if settled else self.outstanding.now)

    def _take_over(self, arms: Any, values: Any) -> Bandit:
        """Rounds that somebody else decided: one block an arm, or one by one where the policy takes any arm."""
        if not isinstance(self.policy, EpisodePolicy | SequentialPolicy):
            raise InputError(
                "this policy learns its own decisions only",
                path="policy.name",
                given=self.policy.name,
                allowed="private-nash, adap-ucb, local-nash, ldp-ucb, ucb, thompson, kl-ucb, ...",
                fix="start without fit",
            )
        self._skip_open_rounds()
        for arm in range(len(self.arms)):
            rewards = values[arms == arm]
            if len(rewards) and isinstance(self.policy, EpisodePolicy):
                self.state = self.policy.open_for(self.state, arm, len(rewards))
            for reward in rewards:
                self._note(arm, float(reward))
            self._hand_over()
        return self

    def _note(self, arm: int, reward: float | None) -> None:
        """A round that is decided and settled at once."""
        index = self.outstanding.now
        self.outstanding.decided(arm, Round(index))
        self._arrive(Feedback(index, arm, reward, Round(index)))

    def _skip_open_rounds(self) -> None:
        """Rounds of an open block that nobody has asked for yet will not be: they settle without an answer."""
        for index in range(self.outstanding.now, self.policy.reach(self.state)):
            self._note(self.policy.decide(self.state, Round(index), self.rng).arm, None)
