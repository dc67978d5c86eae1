"""A policy driven through a ledger: charged once, replayed exactly, told what was lost, and nothing raw is stored."""

from __future__ import annotations

import numpy as np
import pytest

from fairveil import registry
from fairveil.bandits.ledgered import drive
from fairveil.bandits.protocol import Decision, Feedback, Policy, Round
from fairveil.configuration import configuration
from fairveil.errors import BudgetError, LedgerError, PrivacyError
from fairveil.ledger import Ledger, Limit, verify
from fairveil.privacy.events import ParallelEvent, PureEvent
from fairveil.privacy.grid import to_units
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import SeededNoise
from fairveil.randomness import generator
from fairveil.state import load_state, same_state, save_state
from fairveil.storage import faults

CANARY = 0.123456789


@configuration
class Blocks(Policy):
    """Plays the arm with the larger noisy sum; one release every ``length`` rounds, each reward in one block."""

    epsilon: float = 1.0
    length: int = 4

    released = ("sums", "blocks")

    def event(self):
        return ParallelEvent(PureEvent(self.epsilon))

    def guarantee(self):
        return Guarantee.pure(self.epsilon, model="global", unit="one reward", neighbours="replace-reward")

    def start(self):
        return {"raw": np.zeros(2, np.int64), "sums": np.zeros(2), "blocks": np.zeros((), np.int64)}

    def decide(self, state, round, rng):
        return Decision(int(np.argmax(state["sums"])) if state["blocks"] else int(rng.integers(2)))

    def learn(self, state, feedback):
        raw = state["raw"].copy()
        raw[feedback.arm] += to_units(feedback.reward)
        return {**state, "raw": raw}

    def due(self, state, now):
        return f"block-{state['blocks']}" if now >= (int(state["blocks"]) + 1) * self.length else None

    def release(self, state, noise):
        noisy = state["raw"] + noise.laplace(2.0**20 / self.epsilon, 2)
        return {**self.lost(state, ""), "sums": state["sums"] + noisy * 2.0**-20}

    def lost(self, state, block):
        return {**state, "raw": np.zeros(2, np.int64), "blocks": state["blocks"] + 1}


class Undeclared(Blocks):
    released = ()


class Unproved(Blocks):
    def guarantee(self):
        return Guarantee.pure(1.0, model="global", unit="one reward", neighbours="replace-reward", established=False)


def play(policy, ledger, rounds, state=None, start=0, saved=None, noise=None, resume=False):
    """Rounds with a saved state after each, as a service keeps it; returns the last state."""
    state = policy.start() if state is None else state
    for index in range(start, rounds):
        decision = policy.decide(state, Round(index), generator(1, index))
        state = policy.learn(state, Feedback(index, decision.arm, CANARY))
        if saved is not None:
            saved[:] = [index + 1, save_state(state)]
        state = drive(policy, state, index + 1, ledger, noise=noise, resume=resume)
    return state


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


def test_the_whole_run_is_charged_once(path):
    with Ledger.create(path, limit=Limit.pure(1.0), anchor=path.with_suffix(".anchor")) as ledger:
        state = play(Blocks(), ledger, 21)
        assert ledger.spent.units == 1_000_000
        assert int(state["blocks"]) == 5
        assert ledger.value("policy/block-4")["sums"].tolist() == state["sums"].tolist()
    assert verify(path, path.with_suffix(".anchor")).published == 5


@pytest.mark.parametrize(
    ("point", "outcome"), [("draw", "lost"), ("drawn", "lost"), ("inserted", "lost"), ("committed", "published")]
)
def test_after_a_crash_the_stored_value_comes_back_or_the_policy_is_told(path, point, outcome):
    class Killed(BaseException):
        pass

    policy, saved = Blocks(), []
    seen: list[str] = []

    def hook(name: str) -> None:
        seen.append(name)
        if name == point and seen.count("drawn" if point != "draw" else "draw") == 2:
            raise Killed  # in the second release, on its way out

    ledger = Ledger.create(path, limit=Limit.pure(1.0))
    faults.hook = hook
    try:
        with pytest.raises(Killed):
            play(policy, ledger, 40, saved=saved)
    finally:
        faults.hook = None
    ledger.draws.session.forget()
    ledger._book.close()
    now, data = saved
    assert now == 8
    with Ledger.open(path) as ledger:
        assert ledger.status("policy/block-1") == outcome
        before = load_state(data)
        state = drive(policy, before, now, ledger)
        if outcome == "lost":
            assert state["sums"].tolist() == before["sums"].tolist()
        else:
            assert state["sums"].tolist() == ledger.value("policy/block-1")["sums"].tolist()
        assert state["raw"].tolist() == [0, 0]
        state = play(policy, ledger, 40, state=state, start=now)
        assert int(state["blocks"]) == 10
        assert ledger.spent.units == 1_000_000


def test_a_second_run_from_the_start_repeats_the_first_without_drawing(path):
    with Ledger.create(path, limit=Limit.pure(1.0), simulated=True) as ledger:
        first = play(Blocks(), ledger, 40, noise=SeededNoise(1))
        second = play(Blocks(), ledger, 40, noise=SeededNoise(2), resume=True)
    assert {name: array.tolist() for name, array in first.items()} == {
        name: array.tolist() for name, array in second.items()
    }


def test_nothing_raw_reaches_the_files(tmp_path, path):
    """Every raw sum that occurred is searched for in all forms in which the ledger would write it."""
    import base64

    raws = []

    class Watched(Blocks):
        def release(self, state, noise):
            raws.append(state["raw"].copy())
            return super().release(state, noise)

    with Ledger.create(path, limit=Limit.pure(1.0), anchor=tmp_path / "anchor") as ledger:
        play(Watched(), ledger, 40)
        found = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    assert len(raws) == 10
    for raw in raws:
        for secret in (raw.tobytes(), base64.b64encode(raw.tobytes()), str(int(raw.max())).encode()):
            assert secret not in found
    assert str(CANARY).encode() not in found


def test_a_budget_that_is_gone_refuses_the_release_and_nothing_else(path):
    with Ledger.create(path, limit=Limit.pure(0.5)) as ledger:
        with pytest.raises(BudgetError, match="largest admissible"):
            play(Blocks(), ledger, 10)
        assert ledger.spent.units == 0


@pytest.mark.parametrize(("policy", "words"), [(Undeclared(), "released"), (Unproved(), "established")])
def test_policies_that_cannot_be_trusted_with_a_ledger(path, policy, words):
    with Ledger.create(path, limit=Limit.pure(1.0)) as ledger:
        with pytest.raises(PrivacyError, match=words):
            play(policy, ledger, 10)
        assert ledger.spent.units == 0


def test_two_policies_share_a_ledger_under_their_own_accounts(path):
    with Ledger.create(path, limit=Limit.pure(2.0)) as ledger:
        for account in ("morning", "evening"):
            state = Blocks().learn(Blocks().start(), Feedback(0, 0, 0.5))
            drive(Blocks(), state, 4, ledger, account=account)
        assert ledger.spent.units == 2_000_000
        assert ledger.status("evening/block-0") == "published"


def nash(**more):
    return registry.build("policy", {"name": "private-nash", "arms": 3, "epsilon": 1.0, **more}, "policy")


def drive_nash(policy, ledger, rounds, state=None, start=0, means=(0.9, 0.1, 0.1, 0.1, 0.1), seed=1, **more):
    """A trial without delay; returns the last state and the share of its rounds on arm 0."""
    state, rng, world = policy.start() if state is None else state, generator(seed), generator(seed, "world")
    best = 0
    for index in range(start, rounds):
        state = policy.open(state, index, rng)
        arm = policy.decide(state, Round(index), rng).arm
        best += arm == 0
        state = policy.learn(state, Feedback(index, arm, float(world.random() < means[arm])))
        state = drive(policy, state, index + 1, ledger, noise=SeededNoise(index), **more)
    return state, best / rounds


@pytest.fixture
def simulated(path):
    with Ledger.create(path, limit=Limit.pure(2.0), simulated=True) as ledger:
        yield ledger


@pytest.mark.parametrize("other", [{"arms": 5}, {"growth": 0.9}, {"name": "adap-ucb"}], ids=str)
def test_an_account_belongs_to_one_complete_table(simulated, other):
    """Two policies with equal events on one account cost twice, so the second one is refused before it is charged."""
    drive_nash(nash(), simulated, 30)
    spent = simulated.spent.units
    with pytest.raises(LedgerError, match="used for something else"):
        drive_nash(nash(**other), simulated, 30)
    assert simulated.spent.units == spent
    drive_nash(nash(**other), simulated, 30, account="second")
    assert simulated.spent.units == 2 * spent


def test_a_new_run_is_not_served_the_releases_of_an_old_one(simulated):
    """Last month's trial found arm 1; a fresh start on its account is refused, and learns for itself on its own."""
    drive_nash(nash(), simulated, 200, means=(0.1, 0.9, 0.1))
    with pytest.raises(PrivacyError, match="first block already"):
        drive_nash(nash(), simulated, 200)
    with pytest.raises(PrivacyError, match="another block"):  # resume, but the state is of another run
        drive_nash(nash(), simulated, 200, seed=2, resume=True)
    assert drive_nash(nash(), simulated, 200, account="this month")[1] > 0.5


def test_a_run_that_stopped_before_its_first_state_was_saved_resumes(simulated):
    first, _ = drive_nash(nash(), simulated, 30)
    again, _ = drive_nash(nash(), simulated, 30, resume=True)
    assert same_state(first, again)


def test_a_late_retry_overwrites_nothing_that_was_opened_since(simulated):
    policy, rng = nash(), generator(1)
    state = policy.start()
    for index in range(9):  # blocks of three rounds; nobody has answered yet
        state = policy.open(state, index, rng)
    block = policy.block(state)
    state = policy.learn_all(state, [Feedback(index, block.arm, 1.0) for index in range(3)])
    drive(policy, state, 3, simulated, noise=SeededNoise(1))  # the state is lost in a crash after this
    later = state
    for index in range(9, 30):
        later = policy.open(later, index, rng)
    after = drive(policy, later, 3, simulated, noise=SeededNoise(2), resume=True)
    assert np.array_equal(after["open"], later["open"][1:])
    assert np.array_equal(after["played"], later["played"])
    assert after["counts"][block.arm] == 3.0
    stored = simulated.value("policy/block-0")
    assert stored["header"].tolist() == [block.arm, 0, 3]
    assert set(stored) == {"header", "total", "count"}


def test_rows_kept_outside_the_state_are_read_once_in_pages(simulated):
    policy, rng, asked = nash(), generator(1), []
    state = policy.start()
    for index in range(6):
        state = policy.open(state, index, rng)
    arms = [policy.decide(state, Round(index), rng).arm for index in range(6)]

    def rows(first, stop):
        asked.append((first, stop))
        for index in range(first, stop):
            yield [Feedback(index, arms[index], 1.0)]

    after = drive(policy, state, 6, simulated, noise=SeededNoise(1), rows=rows)
    assert asked == [(0, 3), (3, 6)]
    assert sorted(after["counts"].tolist()) == [0.0, 3.0, 3.0]
    drive(policy, state, 6, simulated, noise=SeededNoise(1), rows=rows, resume=True)
    assert len(asked) == 2  # stored values come back without reading anything


def test_decisions_go_on_when_the_budget_is_gone(path):
    policy, rng = nash(), generator(1)
    with Ledger.create(path, limit=Limit.pure(0.5), simulated=True) as ledger:
        state = policy.start()
        for index in range(60):
            state = policy.open(state, index, rng)
            arm = policy.decide(state, Round(index), rng).arm
            if index < 3:
                state = policy.learn(state, Feedback(index, arm, 1.0))
            if index >= 2:
                with pytest.raises(BudgetError):
                    drive(policy, state, index + 1, ledger, noise=SeededNoise(1))
        assert ledger.spent.units == 0
        assert state["ahead"][0] >= 60


def test_gdp_ncb_decides_on_past_a_release_that_was_refused():
    policy = registry.build("policy", {"name": "gdp-ncb", "arms": 2, "horizon": 100, "epsilon": 1.0}, "policy")
    state = policy.release(policy.start(), SeededNoise(1))
    assert policy.decide(state, Round(int(state["open"][2]) + 5), generator(1)).arm == state["open"][0]
