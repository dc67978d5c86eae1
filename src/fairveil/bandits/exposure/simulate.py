"""One run of an exposure policy, compiled.

Three simulators, one world and one kernel. `WholeRun`: the times of all synchronisations and the beliefs they lead to
are functions of sums and noise, so a whole run is one compiled call; its noise is drawn before it, through the run's
noise source, in the order in which the policy's own releases would. `StretchRun`: stretches between synchronisations
are compiled and every release is made by the policy. `LateRun`: the same with rewards that come late or never, for
policies on the settled clock. All decide the arms that the step interface decides with the same streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairveil.arrays import Bools, Floats, Ints
from fairveil.bandits.environments.exposure import ExposureEnvironment, ExposureWorld, decisions_until
from fairveil.bandits.exposure.kernel import EXACT, Gathered, Merits, Releases, Span, Stage, Sums, World, advance, play
from fairveil.bandits.feedback import AT_ONCE, NEVER, Lateness
from fairveil.bandits.simulate import Case, Simulator, Streams
from fairveil.fairness.exposure import merit_codes
from fairveil.federated.schedules import NEVER as NO_TIME
from fairveil.state import State

if TYPE_CHECKING:
    from fairveil.bandits.exposure.base import ExposurePolicy

ALL_ANSWERED = np.empty(0, np.bool_)
ONE_BATCH = np.empty(0, np.int64)
MISSING = float("nan")
"""What stands for a reward that is left out."""


def simulator_of(policy: ExposurePolicy, case: Case, streams: Streams) -> CompiledRun | None:
    """The compiled simulator of a case, None where only its steps can be played."""
    if not isinstance(case.environment, ExposureWorld):
        return None
    if case.lateness == AT_ONCE:
        releases = policy.planned(case.rounds, streams.noise)
        return StretchRun(policy, case, streams) if releases is None else WholeRun(policy, case, streams, releases)
    settled = policy.clock == "settled" and not policy.uses_local and policy.times is not None
    return LateRun(policy, case, streams) if settled and type(case.lateness) is Lateness else None


class CompiledRun(Simulator[Sums]):
    """What the compiled simulators share: the world of the run, the policy's state, the tally."""

    def __init__(self, policy: ExposurePolicy, case: Case, streams: Streams) -> None:
        assert isinstance(case.environment, ExposureWorld)
        self.policy, self.streams = policy, streams
        self.world: ExposureWorld = case.environment.prepare(streams.world)
        self.truth, self.sums = compiled_world(self.world, case.rounds), no_sums(self.world)
        self.state: State = policy.start()
        self.now = 0

    def belief(self) -> Floats:
        return self.state["centre"]

    def advance(self, stop: int) -> Sums:
        while self.now < stop:
            self.now = self.play(stop)
            self.releases = int(self.state["syncs"])
        return self.sums

    def play(self, stop: int) -> int:
        """Play on towards ``stop`` rounds with what falls due; returns the rounds played then."""
        raise NotImplementedError

    def published(self) -> State:
        """The state from which estimates are made."""
        return self.state

    def stage(
        self, gathered: Gathered, answered: Bools = ALL_ANSWERED, default: float = MISSING, batch: Ints = ONE_BATCH
    ) -> Stage:
        beliefs, rules = self.policy.beliefs(self.state), self.policy.rules(self.state)
        return Stage(self.truth, rules, beliefs, gathered, self.sums, answered, default, batch)

    def advance_over(self, span: Span, stage: Stage) -> int:
        reached: int = advance(span, self.streams.world, self.streams.explore, stage)
        return reached


class WholeRun(CompiledRun):
    """Rounds and synchronisations in one compiled call."""

    def __init__(self, policy: ExposurePolicy, case: Case, streams: Streams, releases: Releases) -> None:
        super().__init__(policy, case, streams)
        self.planned = releases

    def play(self, stop: int) -> int:
        stage = self.stage(Gathered(self.state["leaf"], self.state["local"]))
        world, choice = self.streams.world, self.streams.explore
        self.state["syncs"][...] = play(self.now, stop, self.releases, self.planned, world, choice, stage)
        return stop

    def published(self) -> State:
        made, planned = self.releases, self.planned
        if made == 0 or planned.kind == EXACT:
            return self.state
        noisy = planned.total.copy()
        noisy[planned.first, planned.second] += planned.noise[made - 1]
        noisy[planned.second, planned.first] = noisy[planned.first, planned.second]
        last = np.asarray(planned.times[made - 1])
        variance = np.full(self.policy.agents, self.policy.noise_variance(made))
        known = {"released": noisy, "variance": variance, "counted": np.full(2, float(last)), "last": last}
        return {**self.state, **known}


class StretchRun(CompiledRun):
    """Stretches between synchronisations, which the policy makes itself."""

    def play(self, stop: int) -> int:
        policy, state, time = self.policy, self.state, int(self.state["next"])
        goal = min(stop, time) if time > self.now else stop
        stage = self.stage(Gathered(state["leaf"], state["local"]))
        reached = self.advance_over(Span(self.now, goal, 0, policy.agents, 0), stage)
        state["acted"] = np.minimum(reached, policy.lasts)
        fired = reached < goal or (np.isfinite(state["trigger"][0]) and policy.triggered(state, reached))
        if fired or (time != NO_TIME and reached >= time):
            if "rows" in state:
                state["rows"] = state["acted"] - np.minimum(int(state["last"]), policy.lasts)
            self.state = policy.release(state, self.streams.noise)
        return reached


class LateRun(CompiledRun):
    """Batches that wait until their rounds are settled, while later ones are filled.

    A row is added to its batch when it is decided: nothing reads a batch before all its rounds are settled, so the time
    at which a reward comes matters only through the batch it is in and the time at which that is due. A batch holds
    consecutive decisions, or those that settle one after the other, ties by decision.
    """

    def __init__(self, policy: ExposurePolicy, case: Case, streams: Streams) -> None:
        super().__init__(policy, case, streams)
        lasts, late = self.truth.lasts, case.lateness
        decisions = decisions_until(case.rounds, lasts)
        waits = late.each_wait(decisions, streams.arrivals)
        own = np.arange(1, decisions + 1)
        settled = own + np.where((waits == NEVER) | late.hidden, late.window, waits)
        order = np.argsort(settled, kind="stable") if policy.by_seat else own - 1
        self.settled_at: Ints = np.maximum.accumulate(settled[order])
        self.agent_of: Ints = np.nonzero(np.arange(case.rounds)[:, None] < lasts)[1]
        self.answered: Bools = waits != NEVER
        self.default = late.default if late.treat == "default" else MISSING
        assert policy.times is not None
        self.stops = [decisions_until(time, lasts) for time in policy.times if time <= case.rounds]
        self.batch = np.empty(decisions, np.int64)
        self.batch[order] = np.searchsorted(self.stops, own - 1, side="right")
        self.decided = self.made = 0
        self.filling = np.zeros((len(self.stops) + 1, *self.state["leaf"].shape))

    def play(self, stop: int) -> int:
        """To the next release, or ``stop``."""
        goal = min(decisions_until(stop, self.truth.lasts), self._due())
        if goal > self.decided:
            self._decide(goal)
        while self._due() <= self.decided:
            batch = {"leaf": self.filling[self.made], "rows": self._rows()}
            self.state = self.policy.release(self.state | batch, self.streams.noise)
            self.made += 1
        return self.world.turn(self.decided)[0] if self.decided < len(self.agent_of) else stop

    def _due(self) -> int:
        """Decisions after which the next batch is settled."""
        more = self.made < len(self.stops)
        return int(self.settled_at[self.stops[self.made] - 1]) if more else len(self.settled_at) + 1

    def _rows(self) -> Ints:
        """Rows per agent of the batch that is due."""
        counts = (self.batch == self.made) & (self.answered | (not np.isnan(self.default)))
        return np.bincount(self.agent_of[counts], minlength=self.policy.agents)

    def _decide(self, goal: int) -> None:
        (first, begin), (last, end) = self.world.turn(self.decided), self.world.turn(goal - 1)
        leaves = self.filling.reshape(-1, *self.filling.shape[2:])
        stage = self.stage(Gathered(leaves, self.state["local"]), self.answered, self.default, self.batch)
        self.advance_over(Span(first, last + 1, begin, end + 1, self.decided), stage)
        self.decided = goal


def compiled_world(world: ExposureWorld, rounds: int) -> World:
    merits = Merits(*merit_codes(world.merits()))
    return World(np.array(world.theta), float(world.noise), world.context_codes(), world.last_rounds(rounds), merits)


def no_sums(world: ExposureEnvironment) -> Sums:
    m, k = world.agents, world.actions
    return Sums(np.zeros(m), np.zeros(m), np.zeros(k, np.int64), np.zeros(k), np.zeros(k))
