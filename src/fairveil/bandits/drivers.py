"""What drives policies, as laws and mutants: `drive` under a ledger, and what holds rewards that come late.

>>> sorted(law.__name__ for law in late_driver().laws)
['arrivals_say_nothing', 'counted_once', 'missing_is_the_default', 'too_late_is_too_late']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fairveil.bandits import ledgered
from fairveil.bandits.exposure.batched_priv_fairx import BatchedPrivFairx
from fairveil.bandits.feedback import Lateness, Outstanding
from fairveil.bandits.ledgered import check_promise, drive, fingerprint
from fairveil.bandits.nash.gdp_ncb import GdpNcb
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.bandits.protocol import HEADER, Feedback, Policy, Round
from fairveil.errors import InputError, LedgerError, PrivacyError
from fairveil.laws import must
from fairveil.privacy.audit.drivers import Driver
from fairveil.privacy.audit.mutants import Mutant, function, method, together
from fairveil.privacy.charges import Charge
from fairveil.privacy.ledger import Ledger, ReleaseLost
from fairveil.privacy.ledger.chain import RESERVE
from fairveil.privacy.limits import Limit
from fairveil.privacy.noise import Noise, SeededNoise
from fairveil.randomness import generator
from fairveil.registry import register
from fairveil.state import State, same_state

Method = Callable[..., Any]
POLICY = PrivateNash(arms=2, epsilon=1.0)
DECIDED = GdpNcb(arms=2, horizon=64, epsilon=1.0)
DECIDED_RELEASES = DECIDED.released
"""What it releases while nobody has broken it."""
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


def charged_before_drawn(folder: Path) -> None:
    """When a policy draws, whoever reads the ledger sees its account paid and the block reserved."""
    seen: list[bool] = []

    def change(original: Method) -> Method:
        def watched(self: Policy, state: State, noise: Noise) -> State:
            with Ledger.open(folder / "ledger.db", simulated=True) as witness:
                reserved = [entry for entry in witness.entries() if entry["kind"] == RESERVE]
                seen.append(len(reserved) == 1 and witness.spent.units > 0)
            drawn: State = original(self, state, noise)
            return drawn

        return watched

    state, settled = due_state(POLICY)
    with ledger_in(folder) as ledger, method(PrivateNash, "draw", change):
        drive(POLICY, state, settled, ledger, noise=SeededNoise(1))
    must(seen and all(seen), "noise is drawn before its charge is on disk")


def asked_again_is_answered_from_storage(folder: Path) -> None:
    """As after a crash: the same state gives the same numbers, draws nothing and leaves no row behind."""
    for policy in (POLICY, DECIDED):
        (one, settled), (other, _) = due_state(policy, 1.0), due_state(policy, 0.0)
        with ledger_in(folder, policy, policy.name) as ledger:
            first = drive(policy, one, settled, ledger, noise=SeededNoise(1))
            again = drive(policy, other, settled, ledger, noise=SeededNoise(2), resume=True)
        for name in policy.released:
            must(np.array_equal(first[name], again[name]), "asking again draws again")
        must(policy is DECIDED or same_state(first, again), "rows stay beside a stored release")


def only_releases_are_stored(folder: Path) -> None:
    """What the ledger keeps holds released arrays and the block's header, nothing that rows are in."""
    for policy in (POLICY, DECIDED):
        state, settled = due_state(policy)
        known = {HEADER, *policy.draw(state, SeededNoise(1))} if policy is POLICY else set(DECIDED_RELEASES)
        with ledger_in(folder, policy, policy.name) as ledger:
            drive(policy, state, settled, ledger, noise=SeededNoise(1))
            [block] = [str(entry["name"]) for entry in ledger.entries() if entry["kind"] == RESERVE]
            stored = ledger.value(block)
        must(set(stored) <= known, "raw arrays are stored")


def lost_is_told(folder: Path) -> None:
    """A block that was charged and lost is dropped: no draw, no row of it in what follows."""

    def fails(self: Policy, state: State, noise: Noise) -> State:
        raise ZeroDivisionError

    (one, settled), (other, _) = due_state(POLICY, 1.0), due_state(POLICY, 0.0)
    with ledger_in(folder) as ledger:
        with method(PrivateNash, "draw", lambda _: fails), suppress(ZeroDivisionError):
            drive(POLICY, one, settled, ledger, noise=SeededNoise(1))
        after = [drive(POLICY, state, settled, ledger, noise=SeededNoise(1), resume=True) for state in (one, other)]
    must(same_state(*after), "rows of a lost block stay")
    must(not after[0]["counts"].any(), "a lost block is drawn again")


def accounts_are_bound(folder: Path) -> None:
    """Another table on the same account is refused, and so is a starting state where blocks were released."""
    state, settled = due_state(POLICY)
    other = replace(POLICY, arms=3)
    with ledger_in(folder) as ledger:
        drive(POLICY, state, settled, ledger, noise=SeededNoise(1))
        for policy, error in ((other, LedgerError), (POLICY, PrivacyError)):
            start, due = due_state(policy)
            try:
                drive(policy, start, due, ledger, noise=SeededNoise(1))
            except error:
                continue
            must(False, "an account serves another policy" if policy is other else "a new run is served old blocks")


def weaker_promises_are_named(folder: Path) -> None:
    """A policy that reads its own raw rows is refused unless the caller names its neighbours."""
    policy = BatchedPrivFairx(agents=1, dimension=2, horizon=20, epsilon=1.0, delta=1e-5, personal=True)
    try:
        check_promise(policy, None)
    except PrivacyError:
        return
    must(False, "a weaker promise passes for the usual one")


def _releasing(change: Callable[[Method], Method]) -> AbstractContextManager[None]:
    """Another way to make one release of `drive`."""
    original = ledgered._release
    return function(original, change(original))


def _charged_later(original: Method) -> Method:
    def broken(policy: Policy, state: State, block: str, ledger: Ledger, **more: Any) -> Any:
        value = policy.draw(state, more["noise"])
        with method(type(policy), "draw", lambda _: lambda self, state, noise: value):
            return original(policy, state, block, ledger, **more)

    return broken


def _drawn_again(original: Method) -> Method:
    def broken(policy: Policy, state: State, block: str, ledger: Ledger, **more: Any) -> State:
        original(policy, state, block, ledger, **more)
        return policy.release(state, more["noise"])

    return broken


def _kept(original: Method) -> Method:
    def broken(policy: Policy, state: State, block: str, ledger: Ledger, **more: Any) -> Any:
        after = original(policy, state, block, ledger, **more)
        return after | {name: array for name, array in state.items() if name not in policy.released}

    return broken


def _lost_again(original: Method) -> Method:
    def broken(self: Ledger, block: str, draw: Method, **more: Any) -> Any:
        try:
            return original(self, block, draw, **more)
        except ReleaseLost:
            return draw(more["noise"])

    return broken


def _everything_released() -> AbstractContextManager[None]:
    @contextmanager
    def plant() -> Iterator[None]:
        own, GdpNcb.released = GdpNcb.released, (*DECIDED_RELEASES, "raw_sums", "raw_counts", "block")
        try:
            yield
        finally:
            GdpNcb.released = own

    return plant()


@register("driver", "drive")
def drive_driver() -> Driver:
    """A policy under a ledger: `fairveil.bandits.ledgered`."""
    free = method(Ledger, "spend", lambda _: lambda self, *facts, **named: Charge())
    laws = (
        charged_before_drawn,
        asked_again_is_answered_from_storage,
        only_releases_are_stored,
        lost_is_told,
        accounts_are_bound,
        weaker_promises_are_named,
    )
    mutants = (
        Mutant("charge-left-out", "the run is not charged", lambda _: free),
        Mutant("charge-after-draw", "drawn first, charged later", lambda _: _releasing(_charged_later)),
        Mutant("drawn-again-on-retry", "asking again draws again", lambda _: _releasing(_drawn_again)),
        Mutant("raw-kept-after-release", "rows stay in the state", lambda _: _releasing(_kept)),
        Mutant("lost-drawn-again", "a lost block is drawn", lambda _: method(Ledger, "release", _lost_again)),
        Mutant("raw-stored", "rows are stored beside releases", lambda _: _everything_released()),
        Mutant("fingerprint-left-out", "an account for any policy", lambda _: function(fingerprint, lambda _: "x")),
        Mutant("old-blocks-served", "a new run is served the blocks of an old one",
               lambda _: method(Ledger, "first_block", lambda _: lambda self, account: None)),
        Mutant("promise-unchecked", "weaker neighbours pass", lambda _: function(check_promise, lambda *given: None)),
    )  # fmt: skip
    return Driver(laws, mutants)


# Late rewards ---------------------------------------------------------------------------------------------------------


def _late(treat: Any) -> Lateness:
    return Lateness("fixed", (2.0,), 3, treat=treat, default=0.25 if treat == "default" else 0.0)


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
    try:
        outstanding.arrive(Feedback(0, 1, 1.0, Round(0)))
    except InputError:
        return
    must(False, "a delivery for another arm is taken")


def too_late_is_too_late(folder: Path) -> None:
    """After its window a reward changes nothing, whatever is open."""
    late = {5: [(0, 1.0)], 6: [(1, 1.0)]}
    must(_handed(_late("default"), late) == _handed(_late("default"), {}), "a reward counts after its window")


def _settled_by_arrival(original: Method) -> Method:
    return lambda self, index: original(self, index) or index in self._here


def _taken_again(original: Method) -> Method:
    def broken(self: Outstanding, feedback: Any) -> bool:
        if feedback.index in self._here:
            self._here[feedback.index] = feedback
            return True
        return bool(original(self, feedback))

    return broken


def _no_window(original: Method) -> Method:
    def broken(self: Outstanding, feedback: Any) -> bool:
        known = self.lateness
        self.lateness = replace(known, window=ROUNDS)
        try:
            return bool(original(self, feedback))
        finally:
            self.lateness = known

    return broken


def _over_late(self: Outstanding, index: int) -> bool:
    return self.now >= index + self.lateness.window + 4


def _any_arm(original: Method) -> Method:
    def broken(self: Outstanding, feedback: Any) -> bool:
        arm = self.arm(feedback.index)
        return bool(original(self, feedback if arm is None else replace(feedback, arm=arm)))

    return broken


def _left_out(original: Method) -> Method:
    def broken(self: Outstanding, noise: Noise) -> Any:
        known, self.lateness = self.lateness, replace(self.lateness, treat="private")
        try:
            yield from original(self, noise)
        finally:
            self.lateness = known

    return broken


@register("driver", "late")
def late_driver() -> Driver:
    """Rewards that come late: `fairveil.bandits.feedback.Outstanding`, which every driver of rounds holds."""
    return Driver(
        (arrivals_say_nothing, missing_is_the_default, counted_once, too_late_is_too_late),
        (
            Mutant("settled-by-arrival", "a round settles when its reward is in, although that is hidden",
                   lambda _: method(Outstanding, "_is_settled", _settled_by_arrival)),
            Mutant("counted-again", "the last of several deliveries counts",
                   lambda _: method(Outstanding, "arrive", _taken_again)),
            Mutant("window-left-out", "a reward counts after its window",
                   lambda _: together(method(Outstanding, "arrive", _no_window),
                                      method(Outstanding, "_over", lambda _: _over_late))),
            Mutant("any-arm", "a reward of another arm is taken", lambda _: method(Outstanding, "arrive", _any_arm)),
            Mutant("missing-left-out", "silence shows although a default was declared",
                   lambda _: method(Outstanding, "_in_order", _left_out)),
        ),
    )  # fmt: skip
