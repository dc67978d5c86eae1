"""Exact cost of a policy's whole run: every reward, candidate and silence of one round, in every configuration.

A run is played once. Then it is played again with one round's answer changed and everything that was published as it
was; so decisions are the same, and what reaches the noise of each release is all that differs. Sums are linear in their
draws and priced by them (`fairveil.proof.laws.sums`), local reports by the chances of their coins. A policy that keeps
one tree over its run publishes numbers that share draws: they are priced together. Batches of candidates are counted
under a direction that was just published, so sum and histograms are listened to one by one. A uniform phase that a test
ends is told when to end, and its answers are priced by their chances.

>>> from fairveil.bandits.nash.private_nash import PrivateNash
>>> max(cost / claim for _, cost, claim in policy_costs(PrivateNash(arms=3, epsilon=1.0))) <= 1 + 1e-4
True
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from fairveil import registry
from fairveil.arrays import Floats
from fairveil.bandits.exposure.private import PrivatePolicy
from fairveil.bandits.meritocratic.batched import BatchedPrivateFairGreedy
from fairveil.bandits.meritocratic.halved_history import estimated_rank
from fairveil.bandits.meritocratic.noisy_history import NoisyHistory
from fairveil.bandits.nash.gdp_ncb import GdpNcb
from fairveil.bandits.nash.two_phases import ABOVE
from fairveil.bandits.protocol import Feedback, Policy
from fairveil.configuration import describe
from fairveil.errors import SpecError
from fairveil.privacy.events import ComposedEvent
from fairveil.privacy.histograms.histogram import Histogram
from fairveil.privacy.noise import Noise, SeededNoise
from fairveil.privacy.sums.batch import BatchSum
from fairveil.proof.laws import Costs, established, in_words
from fairveil.proof.laws.local_reports import report_cost
from fairveil.proof.laws.losses import stopping_cost
from fairveil.proof.laws.playing import placed
from fairveil.proof.laws.releases import in_other_worlds
from fairveil.proof.laws.sums import MOVE, Probe, draw_effects, exact_cost, priced, promised
from fairveil.proof.mutants import Method, function, method, together, twin
from fairveil.randomness import generator
from fairveil.state import State

ROUNDS, CHANGED = 40, (0, 5, 11)
"""Rounds of a run, and those whose answer is another one."""
STOPS = (0, 6, 15, ROUNDS)
"""Tests whose answer ends a uniform phase; the last one never comes."""
NOISY = ("sums", "counts", "total", "count")
"""What a release adds noise to; which arm comes next, and for how long, is read off it."""
FORMS: tuple[dict[str, Any], ...] = (
    {}, {"epsilon": 0.2}, {"epsilon": 5.0}, {"arms": 2}, {"arrivals": "private"}, {"release": "arrivals"},
    {"arrivals": "private", "release": "arrivals"}, {"growth": 0.1}, {"growth": 1.5}, {"exploration": 0.3},
    {"alpha": 4.0}, {"c": 1.0}, {"episodes": "discard"}, {"rank_share": 0.5}, {"first_batch": 4}, {"bins": 4},
    {"reward_weight": 0.3}, {"reward_bound": 2.0}, {"context_bound": 3.0}, {"agents": 1}, {"dimension": 3},
    {"alpha_eps": 0.5}, {"bound": 1.0}, {"delta": 1e-8}, {"phase1": "threshold", "tau": 3.0},
)  # fmt: skip


def policy_costs(policy: Policy) -> Costs:
    """What the worst round costs a whole run, and what is promised, by configuration."""
    for words, made, world in built(policy):
        yield words, run_cost(made, world), claimed(made)


def claimed(policy: Policy) -> float:
    """The epsilon of a pure or local promise, else the mu of its event."""
    event, promise = policy.event(), policy.guarantee()
    if policy.local and promise is not None:
        return float(promise.epsilon or 0.0)
    if isinstance(event, ComposedEvent):
        return math.hypot(*(promised(SimpleNamespace(event=lambda one=one: one)) for one in event.events))
    return promised(policy)


def built(policy: Policy) -> Iterator[tuple[str, Policy, Any]]:
    """The policy in every form that it has, with a world that fits; what it refuses is no configuration of it."""
    table = describe(policy)
    for form in FORMS:
        if not set(form) <= set(table):
            continue
        try:
            made, world = placed(registry.build("policy", {**table, **in_short(table), **form}, "policy"))
        except SpecError:
            continue
        if established(made.guarantee()):
            yield in_words(form), made, world


def in_short(table: dict[str, Any]) -> dict[str, Any]:
    """What makes releases come early."""
    schedule = table.get("schedule")
    small = {"horizon": ROUNDS, "rounds": ROUNDS, "candidates": 3, "first_batch": 4}
    found: dict[str, Any] = {name: value for name, value in small.items() if name in table}
    if "per_group" in table:
        found |= {"groups": 3, "features": 2, "totals": "public"}
    if isinstance(schedule, dict) and "first" in schedule:
        found["schedule"] = {**schedule, "first": 6}
    return found


def run_cost(policy: Policy, world: Any) -> float:
    """Epsilon or mu of the dearest other answer of a round."""
    if policy.local:
        return report_cost(policy)
    answers = answers_of(policy, world)
    price = next((price for kind, price in PRICES if isinstance(policy, kind)), released)
    return price(policy, world, answers, others_of(policy, answers))


def others_of(policy: Policy, answers: list[Feedback]) -> list[tuple[int, Feedback]]:
    return [(at, other) for at in CHANGED for other in in_other_worlds(policy, answers[at])]


def can_be_priced(policy: Policy) -> bool:
    """Whether what it publishes is known here. A plug-in that publishes other things than sums and counts is not
    priced: it has its audit."""
    known = policy.local or any(isinstance(policy, kind) for kind, _ in PRICES)
    return known or any(name.rpartition("/")[2] in NOISY for name in policy.released)


def answers_of(policy: Policy, world: Any) -> list[Feedback]:
    """One run: the answers to all its rounds."""
    found: list[Feedback] = []
    rng = generator(5, "world")
    place = world.prepare(rng)
    for index, state, step in rounds_of(policy):
        shown = place.show(index, rng)
        arm = policy.decide(state, shown, generator(5, "explore", index)).arm
        reward = place.reward(shown, arm, rng)
        found.append(Feedback(index, arm, 1.0 if index in CHANGED else reward, shown))
        step(found[-1], lambda state, block, noise: policy.release(state, noise))
    return found


Releasing = Callable[[State, str, Noise], State]
Went = Callable[[Feedback, Releasing], State]


def rounds_of(policy: Policy, first: int = 0, state: State | None = None) -> Iterator[tuple[int, State, Went]]:
    """Rounds of a run, or from a round on: the caller gives each an answer, and releases what is due with the noise."""
    held, number = [policy.start() if state is None else state], itertools.count()
    for index in range(first, ROUNDS):
        held[0] = policy.open(held[0], index, generator(5, "open", index))

        def step(answer: Feedback, release: Releasing, index: int = index) -> State:
            state = policy.learn(held[0], answer)
            while (block := policy.due(state, index + 1)) is not None:
                state = release(state, block, SeededNoise(3, next(number)))
            held[0] = state
            return state

        yield index, held[0], step


def played(policy: Policy, answers: list[Feedback], release: Releasing) -> None:
    for index, _, step in rounds_of(policy):
        step(answers[index], release)


def changed(answers: list[Feedback], at: int, other: Feedback) -> list[Feedback]:
    return [*answers[:at], other, *answers[at + 1 :]]


# Releases that are linear in their draws ------------------------------------------------------------------------------


def numbers(policy: Policy, state: State, noise: Noise) -> Floats:
    """What a release publishes that others are computed from: sums and counts."""
    value = policy.draw(state, noise)
    names = sorted(name for name in value if name.rpartition("/")[2] in NOISY)
    return np.concatenate([np.asarray(value[name], np.float64).ravel() for name in names])


def released(policy: Policy, world: Any, answers: list[Feedback], others: list[tuple[int, Feedback]]) -> float:
    """Each release by itself; what it published is put into the other world's state."""
    kept: list[tuple[State, State, Floats, Floats]] = []
    pure = promised_purely(policy)

    def first(state: State, block: str, noise: Noise) -> State:
        base, effects = draw_effects(lambda probe: numbers(policy, state, probe))
        after = policy.release(state, noise)
        value = policy.draw(state, SeededNoise(3, len(kept)))
        kept.append((value, {name: after[name] for name in policy.released}, base, effects))
        return after

    played(policy, answers, first)
    worst = 0.0
    for at, other in others:
        spent = list[float]()

        def second(state: State, block: str, noise: Noise, spent: list[float] = spent) -> State:
            value, public, base, effects = kept[len(spent)]
            spent.append(priced(effects, base - numbers(policy, state, Probe()), pure))
            if policy.clock != "decided":
                return policy.adopt(state, block, value)
            return {**policy.release(state, noise), **public}

        played(policy, changed(answers, at, other), second)
        worst = max(worst, sum(spent) if pure else math.hypot(*spent, 0.0))
    return worst


def promised_purely(policy: Policy) -> bool:
    promise = policy.guarantee()
    return promise is not None and promise.definition == "pure"


# A uniform phase that a test ends -------------------------------------------------------------------------------------


def tested(policy: GdpNcb, world: Any, answers: list[Feedback], others: list[tuple[int, Feedback]]) -> float:
    """The answers of the tests, wherever they end the phase, by their chances, beside the sums that follow."""
    rule, worst = policy.exploration(), 0.0
    if rule.kind != ABOVE:
        return released(policy, world, answers, others)
    for last in STOPS:
        queries: dict[int, int] = {}

        def told(self: GdpNcb, after: State, arm: int, noise: Noise, last: int = last, queries: Any = queries) -> bool:
            number = int(after["released"][0])
            queries[number] = int(after["raw_sums"][arm])
            return number == last

        def asked(given: list[Feedback], queries: Any = queries) -> Floats:
            queries.clear()
            played(policy, given, lambda state, block, noise: policy.release(state, noise))
            return np.array([queries[number] for number in sorted(queries)], np.float64) - rule.tau

        with method(GdpNcb, "test", lambda _: told):
            answers = answers_of(policy, world)
            here = asked(answers)
            for at, other in others_of(policy, answers):
                there = asked(changed(answers, at, other))
                spent = stopping_cost(here / rule.scale, there / rule.scale, last < ROUNDS)
                worst = max(worst, spent + released(policy, world, answers, [(at, other)]))
    return worst


# Sums over a whole run ------------------------------------------------------------------------------------------------

Begun = list[tuple[int, int, State]]
"""Before each round: draws that were taken, numbers that were sent, the state."""


def together_priced(policy: Any, world: Any, answers: list[Feedback], others: list[tuple[int, Feedback]]) -> float:
    """All messages of all agents at once, as a function of all draws.

    Nothing before its round depends on a draw: a run with another one goes on from there.
    """

    def shown(noise: Probe, given: list[Feedback], first: int = 0, state: State | None = None) -> tuple[Floats, Begun]:
        sent, begun = list[float](), Begun()

        def release(state: State, block: str, _: Noise) -> State:
            after: State = policy.release(state, noise)
            sent.extend(np.asarray(policy.sent(after, range(policy.agents)), np.float64).ravel().tolist())
            return after

        state = policy.start() if state is None else state
        for index, _, step in rounds_of(policy, first, state):
            begun.append((len(noise.levels), len(sent), state))
            state = step(given[index], release)
        return np.array(sent), begun

    still = Probe()
    base, begun = shown(still, answers)
    effects = np.zeros((len(base), len(still.levels)))
    for place, level in enumerate(still.levels):
        first = bisect_right(begun, place, key=lambda round: round[0]) - 1
        drawn, before, state = begun[first]
        later, _ = shown(Probe(place - drawn), answers, first, state)
        effects[before:, place] = (later - base[before:]) / MOVE * level
    found = [base - shown(Probe(), changed(answers, at, other))[0] for at, other in others]
    return max(priced(effects, change, False) for change in found)


# Candidates -----------------------------------------------------------------------------------------------------------


@contextmanager
def listening(met: list[tuple[Any, ...]], frozen: list[tuple[Any, ...]] | None) -> Iterator[None]:
    """Inside, releases of sums and histograms are noted; with ``frozen`` they answer as they did."""

    @twin
    def answered(original: Method, self: Any, state: State, noise: Noise, *more: Any) -> Any:
        answer = original(self, state, noise, *more) if frozen is None else frozen[len(met)][-1]
        met.append((original, self, state, answer))
        return answer

    with together(method(BatchSum, "release", answered), method(Histogram, "measure", answered)):
        yield


def published(answer: Any) -> Floats:
    """The sum of a batch, or the counts of a histogram."""
    return np.asarray(answer[0]["last"] if isinstance(answer, tuple) else answer, np.float64).ravel()


def shown_by(meeting: tuple[Any, ...], noise: Noise) -> Floats:
    """What a sum or a histogram that was met shows with this noise."""
    served, held, state, _ = meeting
    return published(served(held, state, noise))


def listened(policy: Any, world: Any, answers: list[Feedback], others: list[tuple[int, Feedback]]) -> float:
    """Sums and histograms of batches, each given what was published before it; a row is in one batch."""
    met: list[tuple[Any, ...]] = []

    def release(state: State, block: str, noise: Noise) -> State:
        after: State = policy.release(state, noise)
        return after

    with listening(met, None):
        played(policy, answers, release)
    effects = [draw_effects(partial(shown_by, one)) for one in met]
    worst = 0.0
    for at, other in others:
        again: list[tuple[Any, ...]] = []
        with listening(again, met):
            played(policy, changed(answers, at, other), release)
        costs = [
            priced(effect, base - shown_by(two, Probe()), False)
            for (base, effect), two in zip(effects, again, strict=True)
        ]
        worst = max(worst, math.hypot(*costs))
    return worst


def asked_ranks(policy: Any, world: Any, answers: list[Feedback], others: list[tuple[int, Feedback]]) -> float:
    """Counts of people that each round asks for, with the noise of that round, beside a sum over the whole run."""
    asked: list[list[tuple[float, float]]] = []
    shared: list[State] = []
    served = estimated_rank

    def noted(count: float, total: float, count_noise: float, total_noise: float, rng: Any) -> float:
        asked[-1].append((count, total))
        return float(served(count, total, count_noise, total_noise, rng))

    def release(state: State, block: str, noise: Noise) -> State:
        after: State = policy.release(state, noise)
        place = int(state["ready_for"])
        if len(shared) <= place:
            shared.append({name: after[name] for name in ("theta", "count_noise", "total_noise")})
        return {**after, **shared[place]}

    def counts(given: list[Feedback]) -> list[Floats]:
        asked.clear()
        with function(served, noted):
            for index, state, step in rounds_of(policy):
                asked.append([])
                shown = given[index].round
                assert shown is not None
                if index < policy.last_round:
                    policy.decide({**state, "sealed": np.zeros_like(state["sealed"])}, shown, generator(5, "x", index))
                step(given[index], release)
        return [np.array(row, np.float64).reshape(-1, 2) for row in asked]

    base, worst = counts(answers), 0.0
    for at, other in others:
        square = exact_cost(policy.sums) ** 2
        for index, (one, two) in enumerate(zip(base, counts(changed(answers, at, other)), strict=True)):
            apart = np.abs(one - two) if index > at else np.zeros((1, 2))  # a round shows its own people to themselves
            hidden = policy.draws_a_count == 2 or not apart[:, 1].any()
            square += float(np.square(apart / policy.count_std(index)).sum()) if hidden and apart.any() else 0.0
            square += 0.0 if hidden else math.inf
        worst = max(worst, math.sqrt(square))
    return worst


PRICES: tuple[tuple[type, Callable[..., float]], ...] = (
    (BatchedPrivateFairGreedy, listened),
    (NoisyHistory, asked_ranks),
    (PrivatePolicy, together_priced),
    (GdpNcb, tested),
)
"""How the releases of a policy are priced; one by one, linear in their draws, where nothing is said."""
