"""What drives policies, as adapters: `drive` under a ledger, and the same with rewards that come late.

>>> sorted(law.__name__ for law in late_checks().laws)[:3]
['arrivals_say_nothing', 'asked_again_is_answered_from_storage', 'bound_to_its_holder']
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairveil.bandits import ledgered
from fairveil.bandits.exposure.batched_priv_fairx import BatchedPrivFairx
from fairveil.bandits.feedback import Lateness, Outstanding
from fairveil.bandits.ledgered import account_of, check_promise, drive, fingerprint
from fairveil.bandits.nash.gdp_ncb import GdpNcb
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.bandits.protocol import HEADER, Feedback, Policy, Round
from fairveil.errors import InputError, PrivacyError
from fairveil.ledger import Ledger
from fairveil.ledger.checks import check_first
from fairveil.privacy.limits import Limit
from fairveil.privacy.noise import Noise, SeededNoise
from fairveil.proof.adapters import SAID_LOST, Adapter, checks_of, laws_of
from fairveil.proof.engine.adapter import Checks, adapter
from fairveil.proof.laws import must, refused
from fairveil.proof.mutants import Method, Mutant, in_function, in_method, method, replaced, together, twin
from fairveil.randomness import generator
from fairveil.state import State, same_state

POLICY = PrivateNash(arms=2, epsilon=1.0)
DECIDED = GdpNcb(arms=2, horizon=64, epsilon=1.0)
DECIDED_RELEASES = DECIDED.released
"""What it releases while nobody has broken it."""
EVERYTHING = (*DECIDED_RELEASES, "raw_sums", "raw_counts", "block")
ROUNDS = 12


@contextmanager
def ledger_in(folder: Path, policy: Policy = POLICY, name: str = "ledger") -> Iterator[Ledger]:
    with Ledger.create(folder / f"{name}.db", limit=Limit.covering(policy.event()), simulated=True) as ledger:
        yield ledger


def due_state(policy: Policy, reward: float = 1.0) -> tuple[State, int]:
    """A state whose first block is due, and the number of settled rounds."""
    state, coins = policy.start(), generator(0, "coins")
    for index in range(64):
        state = policy.open(state, index, coins)
        state = policy.learn(state, Feedback(index, policy.decide(state, Round(index), coins).arm, reward))
        if policy.due(state, index + 1) is not None:
            return state, index + 1
    raise AssertionError(policy.name)


class Driven:
    """A policy whose first block is due, driven under a ledger."""

    def __init__(self, policy: Policy, ledger: Ledger, due: tuple[State, int], number: int) -> None:
        self.policy, self.ledger, self.number = policy, ledger, number
        self.state, self.settled = due

    def release(self, resume: bool = True) -> Any:
        block = self.policy.due(self.state, self.settled)
        noise = SeededNoise(self.number)
        after = drive(self.policy, self.state, self.settled, self.ledger, noise=noise, resume=resume)
        if block is not None and same_state(after, self.policy.lost(self.state, block)):
            return SAID_LOST
        # a decided clock may keep rows for later releases
        shown = after if self.policy.clock == "settled" else DECIDED_RELEASES
        return {name: after[name].tobytes() for name in shown}


def drive_adapter(policy: Any, served: tuple[type, str], stored: tuple[str, ...], due: Any = due_state) -> Adapter:
    """`drive` over a policy: another table, or a run that begins, is refused on its account."""

    @contextmanager
    def opened(folder: Path, number: int) -> Iterator[Driven]:
        with ledger_in(folder, policy) as ledger:
            yield Driven(policy, ledger, due(policy, 1.0 - number), number)

    def another_table(folder: Path) -> None:
        other = replace(policy, arms=3)
        with Ledger.open(folder / "ledger.db", simulated=True) as ledger:
            Driven(other, ledger, due_state(other), 0).release()

    def a_new_run(folder: Path) -> None:
        with opened(folder, 1) as driven:
            driven.release(resume=False)

    return Adapter(
        opened,
        served,
        lambda ledger: account_of(policy, ledger),
        lambda name, value: set(value) <= set(stored),
        (another_table, a_new_run),
    )


def weaker_promises_are_named(folder: Path) -> None:
    """A policy that reads its own raw rows is refused unless the caller names its neighbours."""
    policy = BatchedPrivFairx(agents=1, dimension=2, horizon=20, epsilon=1.0, delta=1e-5, personal=True)
    with refused("a weaker promise passes for the usual one", PrivacyError):
        check_promise(policy, None)


@twin
def _kept(original: Method, policy: Policy, state: State, *more: Any) -> Any:
    after = original(policy, state, *more)
    return after | {name: array for name, array in state.items() if name not in policy.released}


@adapter("drive")
def drive_checks() -> Checks:
    """A policy under a ledger: `fairveil.bandits.ledgered`, on either clock."""
    decided = drive_adapter(DECIDED, (GdpNcb, "release"), DECIDED_RELEASES)
    return checks_of(replace(
        drive_adapter(POLICY, (PrivateNash, "draw"), (HEADER, "total", "count")),
        laws=(*laws_of(decided), weaker_promises_are_named),
        mutants=(
            Mutant("raw-kept-after-release", "rows stay in the state",
                   in_function(ledgered._release, _kept(ledgered._release))),
            Mutant("raw-stored", "rows are stored beside releases", lambda _: replaced(GdpNcb, "released", EVERYTHING)),
            Mutant("fingerprint-left-out", "an account for any policy", in_function(fingerprint, lambda _: "x")),
            Mutant("old-blocks-served", "a new run is served the blocks of an old one",
                   in_function(check_first, lambda *given: None)),
            Mutant("promise-unchecked", "weaker neighbours pass",
                   in_function(check_promise, lambda *given: None)),
        ),
    ))  # fmt: skip


# Late rewards ---------------------------------------------------------------------------------------------------------


def _late(treat: Any) -> Lateness:
    return Lateness("fixed", (2.0,), 3, treat=treat, default=0.25 if treat == "default" else 0.0)


def late_state(policy: Policy, reward: float) -> tuple[State, int]:
    """A state whose first block is due, from rewards that came two rounds late, and the number of settled rounds."""
    state, coins, outstanding = policy.start(), generator(0, "coins"), Outstanding(policy, _late("default"))
    arms: list[int] = []
    for index in range(64):
        state = policy.open(state, index, coins)
        arms.append(policy.decide(state, Round(index), coins).arm)
        outstanding.decided(arms[index], Round(index))
        if index >= 2:
            outstanding.arrive(Feedback(index - 2, arms[index - 2], reward, Round(index - 2)))
        for feedback in outstanding.take(SeededNoise(1)):
            if policy.due(state, feedback.index) is not None:
                return state, feedback.index
            state = policy.learn(state, feedback)
    raise AssertionError(policy.name)


def _handed(lateness: Lateness, deliveries: dict[int, list[tuple[int, float]]]) -> list[tuple[int, float | None, int]]:
    """Rounds as they are handed over, with their rewards and when; deliveries by the number of decided rounds."""
    outstanding, seen = Outstanding(POLICY, lateness), list[tuple[int, float | None, int]]()
    for now in range(ROUNDS):
        outstanding.decided(0, Round(now))
        for index, reward in deliveries.get(now, []):
            outstanding.arrive(Feedback(index, 0, reward, Round(index)))
        taken = outstanding.take(SeededNoise(1))
        seen += [(one.index, one.reward, outstanding.now) for one in taken if isinstance(one, Feedback)]
    return seen


def arrivals_say_nothing(folder: Path) -> None:
    """Where arrivals are hidden, when a round is handed over does not depend on whether its reward came."""
    for treat in ("default", "private"):
        times = [
            [(index, now) for index, _, now in _handed(_late(treat), deliveries)]
            for deliveries in ({}, {0: [(0, 1.0)], 2: [(1, 1.0)]})
        ]
        must(times[0] == times[1], "when a round is handed over shows that its reward came")


def missing_is_the_default(folder: Path) -> None:
    """A reward that is missing when its window closes counts as the declared one."""
    rewards = [reward for _, reward, _ in _handed(_late("default"), {})]
    must(rewards and set(rewards) == {0.25}, "a missing reward is not the default")


def counted_once(folder: Path) -> None:
    """A delivery that comes again changes nothing, and one for another arm is refused."""
    twice = {1: [(0, 1.0), (0, 0.0), (0, 0.5)], 2: [(0, 0.0)]}
    found = [reward for index, reward, _ in _handed(_late("default"), twice) if index == 0]
    must(found == [1.0], "a delivery counts again")
    outstanding = Outstanding(POLICY, _late("default"))
    outstanding.decided(0, Round(0))
    with refused("a delivery for another arm is taken", InputError):
        outstanding.arrive(Feedback(0, 1, 1.0, Round(0)))


def too_late_is_too_late(folder: Path) -> None:
    """After its window a reward changes nothing, whatever is open."""
    late = {5: [(0, 1.0)], 6: [(1, 1.0)]}
    must(_handed(_late("default"), late) == _handed(_late("default"), {}), "a reward counts after its window")


def _settled_by_arrival(original: Method) -> Method:
    return lambda self, index: original(self, index) or index in self._here


@twin
def _taken_again(original: Method, self: Outstanding, feedback: Any) -> bool:
    if feedback.index in self._here:
        self._here[feedback.index] = feedback
        return True
    return bool(original(self, feedback))


@twin
def _no_window(original: Method, self: Outstanding, feedback: Any) -> bool:
    known = self.lateness
    self.lateness = replace(known, window=ROUNDS)
    try:
        return bool(original(self, feedback))
    finally:
        self.lateness = known


def _over_late(self: Outstanding, index: int) -> bool:
    return self.now >= index + self.lateness.window + 4


@twin
def _any_arm(original: Method, self: Outstanding, feedback: Any) -> bool:
    arm = self.arm(feedback.index)
    return bool(original(self, feedback if arm is None else replace(feedback, arm=arm)))


@twin
def _left_out(original: Method, self: Outstanding, noise: Noise) -> Any:
    known, self.lateness = self.lateness, replace(self.lateness, treat="private")
    try:
        yield from original(self, noise)
    finally:
        self.lateness = known


@adapter("late")
def late_checks() -> Checks:
    """Rewards that come late: `fairveil.bandits.feedback.Outstanding`, which every driver of rounds holds."""
    return checks_of(replace(
        drive_adapter(POLICY, (PrivateNash, "draw"), (HEADER, "total", "count"), late_state),
        laws=(arrivals_say_nothing, missing_is_the_default, counted_once, too_late_is_too_late),
        mutants=(
            Mutant("settled-by-arrival", "a round settles when its reward is in, although that is hidden",
                   in_method(Outstanding, "_is_settled", _settled_by_arrival)),
            Mutant("counted-again", "the last of several deliveries counts",
                   in_method(Outstanding, "arrive", _taken_again)),
            Mutant("window-left-out", "a reward counts after its window",
                   lambda _: together(method(Outstanding, "arrive", _no_window),
                                      method(Outstanding, "_over", lambda _: _over_late))),
            Mutant("any-arm", "a reward of another arm is taken", in_method(Outstanding, "arrive", _any_arm)),
            Mutant("missing-left-out", "silence shows although a default was declared",
                   in_method(Outstanding, "_in_order", _left_out)),
        ),
    ))  # fmt: skip
