"""A federation of exposure-fair agents: what its plan means, and a party with its rounds.

Where rounds come from (``source``): ``environment`` (the simulated world of the plan, to try it out), ``replay:FILE``
(a log of decisions with known propensities), or ``python:module.attribute``, an object with ``contexts()`` and
``reward(action)``. With secure sums an agent shows masked numbers, each block in one union for ever.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from fairveil import registry
from fairveil.arrays import Ints
from fairveil.bandits.environments.exposure import ExposureWorld
from fairveil.bandits.exposure.agent import Agent
from fairveil.bandits.exposure.batched_priv_fairx import BatchedPrivFairx
from fairveil.bandits.exposure.private import PrivatePolicy, form_of
from fairveil.bandits.protocol import Round
from fairveil.configuration import describe
from fairveil.data.logs import Log, LogTable
from fairveil.data.tables import read_frame
from fairveil.errors import DataError, InputError, SpecError
from fairveil.federated import Form, Kind, Plan, Worker
from fairveil.federated.party import MaskedNumbers, Union
from fairveil.federated.schedules import NEVER
from fairveil.federated.secure_sum import release_masked
from fairveil.ledger import Ledger, ReleaseLost
from fairveil.privacy.events import Event
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator, generator
from fairveil.registry import register
from fairveil.state import State, copy_state


class SecureAgent(Agent):
    """An agent whose numbers nobody sees: they leave with a share of the noise, behind masks that cancel in the sum.

    Guarantee: the policy's, against everybody but more than ``colluding`` agents who pool what they know. The ledger
    holds the masked numbers and the digest of their union; noise is drawn once the union is fixed, for its size, and
    what is under the mask is never stored. A personal agent takes its own exact rows off the sum, never its numbers.
    Cost: as `Agent`, and one key agreement a party and synchronisation.
    """

    policy: BatchedPrivFairx

    def contribute(self, union: Union, noise: Noise | None = None) -> MaskedNumbers | None:
        policy, sync = self.policy, self.syncs
        union.check_part(self.index, policy.colluding, "agent")
        rows, exact = int(self.state["rows"][self.index]), self.state["leaf"][self.index].copy()

        def units(source: Noise) -> Ints:
            self._known = True
            shares: Ints = policy.share(len(union.parties)).draws(source)[0]
            return policy.exact_units(self.state, self.index) + shares

        def drawn(_: Any) -> State:
            """The rows are in the sum now; a personal agent remembers them, to take them off again."""
            after = self._dropped()
            if policy.personal:
                after["block"][self.index] += exact
            return after

        found = release_masked(self.account, f"sync-{sync}", union, units, noise, resume=self._known, rows=rows)
        self._known = True
        if self._contributed <= sync:
            self.state = found.answer(drawn=drawn, stored=lambda _: self._dropped(), lost=lambda _: self._dropped())
            self._contributed = sync + 1
        if isinstance(found.value, ReleaseLost):
            return None
        return MaskedNumbers(found.value["masked"], int(found.value["rows"]))

    def take_sum(self, parties: Sequence[int], total: Ints, rows: int) -> None:
        after = self._settled(parties)
        self.policy.publish_sum(after, total, parties, rows)
        self.state = after
        self._learn()

    def void(self, parties: Sequence[int]) -> None:
        after = self._settled(parties)
        if "block" in after:
            after["block"][:] = 0.0
        self.policy.close(after, parties)
        self.state = after
        self._learn()

    def _settled(self, parties: Sequence[int]) -> State:
        """The state in which this agent's rows of the block are gone if it was in the union, and kept if not."""
        if self.index in parties and self._contributed <= self.syncs:
            self.state = self._dropped()
        return copy_state(self.state)


class RoundSource(Protocol):
    """Where a party's rounds come from."""

    def contexts(self) -> ArrayLike:
        """The actions of the next round, one row of features each."""

    def reward(self, action: int) -> float | None:
        """What the chosen one earned; None: that is never known."""


@register("federation", "exposure")
class ExposureKind(Kind):
    """Agents of a private exposure policy: each decides on its own rounds and learns from everybody's noisy sums."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        if plan.policy is None or plan.algorithm is not None or plan.data is not None:
            raise SpecError("a federation of agents has a policy, and no algorithm or data", path="policy")
        table = {"agents": len(plan.party), **plan.policy, **self._sums()}
        policy = registry.build("policy", table, "policy")
        promise = policy.guarantee()
        if not isinstance(policy, PrivatePolicy) or promise is None or not promise.established:
            raise SpecError(
                "this policy has no established guarantee for a federation", path="policy.name",
                given=plan.policy.get("name"), allowed="batched-priv-fairx, priv-fairx",
            )  # fmt: skip
        if policy.agents != len(plan.party):
            raise SpecError(
                "the policy has another number of agents than the plan has parties", path="policy.agents",
                given=policy.agents, allowed=str(len(plan.party)), fix="leave it out",
            )  # fmt: skip
        self.policy = policy

    def _sums(self) -> dict[str, Any]:
        """The plan's choice of sums as keys of the policy; a policy that says otherwise is refused."""
        wanted = {"sums": self.plan.sums, "colluding": self.plan.colluding} if self.plan.sums == "secure" else {}
        given = {key: (self.plan.policy or {})[key] for key in ("sums", "colluding") if key in (self.plan.policy or {})}
        if any(wanted.get(key, "own") != value for key, value in given.items()):
            raise SpecError(
                "sums and colluding belong to the plan", path="policy.sums", fix="write them above [policy]"
            )
        if wanted and (self.plan.policy or {}).get("name") != "batched-priv-fairx":
            raise SpecError(
                "this policy has no secure sums", path="policy.name", given=(self.plan.policy or {}).get("name"),
                allowed="batched-priv-fairx", fix="a tree shows prefixes, and each would need a union of its own",
            )  # fmt: skip
        return wanted

    @property
    def syncs(self) -> int:
        return self.policy.syncs

    def table(self) -> dict[str, Any]:
        return describe(self.policy)

    def form(self, sync: int) -> Form:
        return form_of(self.policy)

    def time(self, sync: int) -> int | None:
        times = self.policy.times
        return None if times is None else times[sync]

    def numbers(self, sync: int) -> int:
        return self.policy.running.grid.width

    def event(self) -> Event:
        return self.policy.event()

    def guarantee(self) -> Guarantee:
        promise = self.policy.guarantee()
        assert promise is not None
        return promise

    def facts(self) -> dict[str, Any]:
        [noise] = self.policy.noises()
        return {
            "synchronisations": self.syncs,
            "rounds of the synchronisations": self.policy.times,
            "numbers in a message": self.numbers(0),
            "noise": f"{noise.law}, std {noise.std:.3g} {noise.unit} if one party adds all of it",
        }

    def worker(
        self, index: int, source: str, ledger: Ledger, folder: Path, noise_of: Callable[[int], Noise] | None
    ) -> AgentWorker:
        neighbours = self.guarantee().neighbours
        secure = isinstance(self.policy, BatchedPrivFairx) and self.policy.secure
        agent = (SecureAgent if secure else Agent)(self.policy, index, ledger, neighbours=neighbours, resume=True)
        return AgentWorker(agent, self._rounds(index, source), seeded=noise_of is not None)

    def _rounds(self, index: int, source: str) -> Callable[[Agent], RoundSource]:
        """The rounds of an agent from where it stands on."""
        if source == "environment":
            world, seed = self._world()
            return lambda agent: SimulatedRounds(world, index, generator(seed, "federation", index, agent.syncs))
        kind, _, name = source.partition(":")
        if kind == "replay" and name:
            return self._replayed(index, name)
        module, _, attribute = name.rpartition(".")
        if kind != "python" or not module:
            raise SpecError(
                "this source of rounds is not known", path="data", given=source,
                allowed="environment, replay:FILE, python:module.attribute",
            )  # fmt: skip
        try:
            found: RoundSource = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError):
            raise DataError("the source of rounds cannot be imported", path="data", given=source) from None
        return lambda agent: found

    def _replayed(self, index: int, file: str) -> Callable[[Agent], RoundSource]:
        """Rounds out of a log with columns ``arm``, ``outcome``, ``propensity`` and ``x<action>_<feature>``."""
        facts = self.plan.environment or {}
        frame, floor = read_frame(file), facts.get("floor")
        actions = next(action for action in count() if f"x{action}_0" not in frame.columns)
        if not isinstance(floor, float) or not 0.0 < floor <= 1.0:
            raise SpecError(
                "a replay needs the smallest propensity of the logging rule, which is public", path="environment.floor",
                given=floor, allowed="a number above 0, at most 1",
            )  # fmt: skip
        names = [f"x{action}_{feature}" for action in range(actions) for feature in range(self.policy.dimension)]
        arms = [str(action) for action in range(actions)]
        log = LogTable(file=file, propensity="propensity", features=names, arms=arms or None).read()
        if len(log) < self.policy.horizon or actions == 0:
            raise InputError(
                "the log does not hold the rounds of the plan", path="data", allowed=f"{self.policy.horizon} rows with"
                " the columns arm, outcome, propensity and x<action>_<feature>",
            )  # fmt: skip
        if log.propensities is None or log.propensities.min() < floor:
            raise InputError(
                "the log holds a smaller propensity than the plan's floor", path="propensity", allowed=f"from {floor:g}"
            )
        seed = int(facts.get("seed", 0))
        return lambda agent: ReplayedRounds(
            log, floor, agent.played, generator(seed, "federation", "replay", index, agent.syncs)
        )

    def _world(self) -> tuple[ExposureWorld, int]:
        facts = {"agents": len(self.plan.party), "dimension": self.policy.dimension, **(self.plan.environment or {})}
        seed = int(facts.pop("seed", 0))
        facts.pop("floor", None)  # of a replay
        world = registry.build("environment", {"name": "exposure", **facts}, "environment")
        return world.prepare(generator(seed, "federation", "world")), seed


class SimulatedRounds:
    """RoundSource of a simulated world: the same for the same party and synchronisation, also after a restart."""

    def __init__(self, world: ExposureWorld, index: int, rng: Generator) -> None:
        self.world, self.index, self.rng = world, index, rng
        self.shown: Round | None = None

    def contexts(self) -> ArrayLike:
        self.shown = self.world.show(self.index, self.rng)
        return np.array([candidate.features for candidate in self.shown.candidates])

    def reward(self, action: int) -> float:
        assert self.shown is not None
        return self.world.reward(self.shown, action, self.rng)


class ReplayedRounds:
    """RoundSource of a log: its rows are the rounds, one each, in their order, whatever is chosen.

    The reward is known where the agent chose what the log did, then with probability floor / propensity (Li, Chu,
    Langford and Wang 2011), and never else. A row that does not fit takes its round and counts as a row of zeros: what
    is in it neither moves others into another message nor shows in the number of rows, which is public.
    """

    def __init__(self, log: Log, floor: float, start: int, rng: Generator) -> None:
        assert log.propensities is not None
        self.log, self.next, self.rng = log, start, rng
        self.kept = floor / log.propensities

    def contexts(self) -> ArrayLike:
        row = self.log.features[self.next]
        self.next += 1
        return row.reshape(len(self.log.arms), -1)

    def reward(self, action: int) -> float | None:
        row, coin = self.next - 1, self.rng.random()
        fits = action == self.log.chosen[row] and coin < self.kept[row]
        return float(self.log.outcomes[row]) if fits else None


class AgentWorker(Worker):
    """An agent that plays its rounds until its next message is due."""

    party: Agent

    def __init__(self, agent: Agent, rounds: Callable[[Agent], RoundSource], *, seeded: bool) -> None:
        self.party, self.rounds, self.seeded = agent, rounds, seeded

    def work(self) -> None:
        agent = self.party
        stop = int(agent.state["next"]) if agent.state["next"] != NEVER else agent.policy.horizon
        if agent.played >= stop:
            return
        path = ("federation", "explore", agent.index, agent.syncs)
        rounds, rng = self.rounds(agent), generator(0, *path) if self.seeded else np.random.default_rng()
        while agent.played < stop:
            decision = agent.act(rounds.contexts(), rng)
            reward = rounds.reward(decision.arm)
            if reward is None and isinstance(rounds, ReplayedRounds):
                agent.pass_over()
            else:
                agent.observe(reward)

    def progress(self) -> dict[str, Any]:
        return {"round": self.party.played, "of": self.party.policy.horizon}

    def result(self) -> dict[str, Any]:
        agent = self.party
        belief = agent.state["centre"][agent.index].tolist()
        return {"rounds": agent.played, "synchronisations": agent.syncs, "belief": belief}
