"""What a loop answers: replays, windows, modes, persons, exploration, what is learned and what is not."""

from __future__ import annotations

import numpy as np
import pytest

from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.errors import BudgetError, SpecError
from fairveil.loop import Budget, Person, Retention, Reward, Store, writer
from fairveil.loop.problems import (
    Closed,
    EventReused,
    Forgotten,
    Invalid,
    NameTaken,
    OutOfRange,
    RewardDiffers,
    StorageFailed,
    UnknownEvent,
    UnknownLoop,
    UnsoundPolicy,
)
from fairveil.loop.public import loop_table, public_view
from fairveil.loop.quoting import quote
from fairveil.loop.requests import DecisionRequest

POLICY = {"name": "even-blocks", "arms": 3, "epsilon": 1.0}
DAY = 86400.0


def test_the_same_request_gets_the_same_reply_and_another_body_is_refused(loop):
    first = loop.decide("e-1", subject="p")
    again = loop.decide("e-1", subject="p")
    assert again.replayed
    assert again._replace(replayed=False) == first
    with pytest.raises(EventReused):
        loop.decide("e-1", subject="q")
    assert [loop.decide(f"n-{i}").round for i in range(4)] == [1, 2, 3, 4]
    assert loop.status().round == 5


def test_batches_answer_each_item_by_itself(loop):
    answers = loop.decide_many([{"event_id": "a"}, {"event_id": "b", "exclude": [0, 1, 2]}, {"event_id": "a"}, {}])
    assert isinstance(answers[1], Invalid)
    assert answers[2].replayed
    assert answers[2].round == answers[0].round == 0
    assert answers[3].round == 1
    rewards = loop.reward_many([("a", 0.5), ("zz", 1.0), ("a", 0.5), ("a", 0.7)])
    assert [type(one).__name__ for one in rewards] == ["RewardReply", "UnknownEvent", "RewardReply", "RewardDiffers"]


def test_a_reward_that_comes_before_its_own_decision_is_done_behind_it(loop):
    early, decided = loop.reward_item("e-0", 1.0), loop.item(DecisionRequest(event_id="e-0"))
    loop.writer.put([early])
    loop.writer.put([decided])
    loop.writer.drain()
    assert (early.outcome().learned, decided.outcome().round) == ("pending", 0)
    with pytest.raises(UnknownEvent):
        loop.reward("e-1", 1.0)


def test_so_many_rewards_wait_for_decisions_in_the_queue_and_others_are_unknown_at_once(loop, monkeypatch):
    assert writer.PATIENT == 1000
    monkeypatch.setattr(writer, "PATIENT", 3)
    monkeypatch.setattr(writer, "MOST", 6)
    told = []
    loop.writer.finished = told.extend
    early = [loop.reward_item(f"e-{number}", 1.0) for number in range(5)]
    stranger = loop.reward_item("nobody", 1.0)
    decided = [loop.item(DecisionRequest(event_id=f"e-{number}")) for number in range(5)]
    for item in (*early, stranger, *decided):
        loop.writer.put([item])
    loop.writer.drain()
    assert [item.done for item in early] == [False] * 3 + [True] * 2
    assert told == [*early[3:], stranger]
    assert {type(item.error) for item in told} == {UnknownEvent}
    while loop.writer.waiting:
        loop.writer.drain()
    assert [item.outcome().learned for item in early[:3]] == ["pending"] * 3
    assert len(told) == 11
    monkeypatch.setattr(writer, "MOST", 1)
    loop.close()
    refused = loop.reward_item("e-9", 1.0)  # its decisions are refused: it waits for one of them, not for each
    for item in (refused, *(loop.item(DecisionRequest(event_id="e-9")) for _ in range(2))):
        loop.writer.put([item])
    for _ in range(3):
        loop.writer.drain()
    loop.writer.put([loop.item(DecisionRequest(event_id="e-9"))])
    assert not refused.done
    loop.writer.drain()
    assert isinstance(refused.error, UnknownEvent)


def test_rewards_inside_and_after_the_window(loop, clock):
    for event in ("in-time", "late", "never"):
        loop.decide(event)
    assert loop.reward("in-time", 0.5).learned == "pending"
    assert loop.reward("in-time", 0.5).learned == "pending"
    with pytest.raises(RewardDiffers):
        loop.reward("in-time", 0.6)
    with pytest.raises(UnknownEvent):
        loop.reward("unknown", 0.6)
    for value in (float("nan"), float("inf"), "1", True):
        with pytest.raises(Invalid):
            loop.reward("in-time", value)
    clock.advance(61)
    assert loop.reward("late", 0.5)[2:] == ("never", "late")
    assert loop.reward("late", 0.9)[2:] == ("never", "late")
    assert loop.event("late")["reward"] == "late"
    assert loop.event("never")["reward"] == "none"


def test_rewards_are_clipped_or_refused(store):
    soft = store.create("soft", policy=POLICY, reward=Reward(-1, 3, wait="60s"))
    hard = store.create("hard", policy=POLICY, reward=Reward(-1, 3, wait="60s", strict=True))
    for loop in (soft, hard):
        loop.decide("e")
    assert soft.reward("e", 99.0).learned == "pending"
    assert soft.reward("e", 3.0).learned == "pending"  # the same after clipping
    with pytest.raises(OutOfRange):
        hard.reward("e", 3.1)


def test_a_block_is_released_when_its_windows_have_closed_and_its_rows_are_erased(store, loop, clock):
    for index in range(7):
        loop.decide(f"e-{index}")
        loop.reward(f"e-{index}", 1.0)
    assert store.tick() == 0
    clock.advance(61)
    assert store.tick() == 1
    status = loop.status()
    assert (status.round, status.settled, status.version, status.erased) == (7, 7, 1, 5)
    assert status.state["counts"].tolist() == [5.0, 0.0, 0.0]
    assert loop.event("e-0")["reward"] == "released"
    assert loop.reward("e-0", 0.0)[2:] == ("never", "released")
    with store.reading() as tx:
        rows = tx.execute("SELECT round, reward FROM events WHERE reward IS NOT NULL ORDER BY round")
    assert [row[0] for row in rows] == [5, 6]
    assert store.tick() == 0
    assert loop.ledger.status("trial/0/block-0") == "published"
    assert loop.ledger.remaining.units == 0


@pytest.mark.parametrize("missing", ["default", "public"])
def test_missing_rewards(store, clock, missing):
    loop = store.create("m", policy={**POLICY, "epsilon": 1000.0}, reward=Reward(0, 1, wait="60s", missing=missing))
    for index in range(5):
        loop.decide(f"e-{index}")
    loop.reward("e-0", 1.0)
    loop.reward("e-2", 1.0)
    assert store.tick() == 0
    assert loop.status().settled == (1 if missing == "public" else 0)
    clock.advance(61)
    assert store.tick() == 1
    state = loop.status().state
    assert state["counts"][0] == (5.0 if missing == "default" else 2.0)
    assert round(state["sums"][0] / 2**20) == 2


def test_public_arrivals_settle_at_once_when_all_are_in(store):
    loop = store.create("m", policy=POLICY, reward=Reward(0, 1, wait="60s", missing="public"))
    for index in range(5):
        loop.decide(f"e-{index}")
        loop.reward(f"e-{index}", 1.0)
    assert store.tick() == 1


def test_public_arrivals_wait_for_a_deferred_decision_and_not_for_one_that_is_never_learned(store):
    loop = store.create("m", policy=POLICY, reward=Reward(0, 1, wait="60s", missing="public"))
    for index in range(5):
        loop.decide(f"e-{index}", defer=index == 1)
        loop.reward(f"e-{index}", 1.0)
    assert store.tick() == 0
    assert loop.status().settled == 1  # its reward is in, but it may still be shown
    assert loop.activate("e-1")
    assert store.tick() == 1
    loop.set_mode("apprentice")
    shown = [loop.decide(f"b-{index}", baseline=index % 3) for index in range(5)]
    for reply in shown:
        if reply.learning == "pending":
            loop.reward(reply.event_id, 1.0)
    assert {reply.learning for reply in shown} == {"pending", "never"}
    assert store.tick() == 1
    assert loop.status().settled == 10


def test_private_arrivals_need_a_policy_that_noises_counts(store):
    with pytest.raises(SpecError, match="counts"):
        store.create("m", policy=POLICY, reward=Reward(0, 1, wait="60s", missing="private"))


def test_deferred_decisions_count_only_when_activated(store, clock):
    loop = store.create("d", policy=POLICY, reward=Reward(0, 1, wait="60s"))
    for index in range(5):
        loop.decide(f"e-{index}", defer=index < 2)
        loop.reward(f"e-{index}", 1.0)
    assert loop.activate("e-0")
    assert loop.activate("e-0")
    with pytest.raises(Invalid):
        loop.activate("e-4")
    clock.advance(61)
    assert not loop.activate("e-1")
    store.tick()
    assert loop.status().state["counts"][0] == 4.0


def test_modes(store, clock):
    loop = store.create("m", policy=POLICY, reward=Reward(0, 1, wait="60s"), mode="shadow")
    shadow = loop.decide("s", baseline=2)
    assert (shadow.action, shadow.round, shadow.learning, shadow.reason) == (2, None, "never", "shadow")
    loop.set_mode("apprentice")
    own, other = loop.decide("a", baseline=0), loop.decide("b", baseline=1)
    assert (own.action, own.round, own.learning) == (0, 0, "pending")
    assert (other.action, other.round, other.learning, other.reason) == (1, 1, "never", "baseline")
    loop.set_mode("online")
    assert loop.decide("o").learning == "pending"
    loop.set_mode("frozen")
    frozen = loop.decide("f")
    assert (frozen.round, frozen.learning, frozen.reason) == (None, "frozen", "mode")
    assert loop.reward("f", 1.0)[2:] == ("never", "mode")
    assert loop.decide("s", baseline=2).replayed
    with pytest.raises(SpecError):
        loop.set_mode("asleep")
    with store.reading() as tx:
        assert [row[0] for row in tx.execute("SELECT action FROM trail ORDER BY seq")] == ["create"] + ["mode"] * 3


def test_persons(store):
    loop = store.create("p", policy=POLICY, reward=Reward(0, 1, wait="60s"), person=Person(max_events=2))
    with pytest.raises(Invalid, match="person"):
        loop.decide("x")
    learned = [loop.decide(f"e-{index}", subject="p-1").learning for index in range(4)]
    assert learned == ["pending", "pending", "never", "never"]
    assert loop.decide("other", subject="p-2").learning == "pending"
    assert loop_table(loop)["person_guarantee"]["epsilon"] == 2.0


def test_returning_persons_keep_their_arm(store, clock):
    loop = store.create("p", policy=POLICY, reward=Reward(0, 1, wait="60s"), person=Person(max_events=1, sticky=True))
    first = loop.decide("a", subject="p-1")
    for index in range(12):
        loop.decide(f"x-{index}", subject=f"q-{index}")
    again = loop.decide("b", subject="p-1")
    assert (again.action, again.propensity, again.learning, again.reason) == (first.action, 1.0, "never", "sticky")
    elsewhere = loop.decide("c", subject="p-1", exclude=[first.action])
    assert elsewhere.action != first.action
    assert elsewhere.learning == "never"


def test_exploration_and_exclusion_have_true_propensities(store):
    loop = store.create("x", policy={**POLICY, "length": 5000}, reward=Reward(0, 1, wait="60s"), explore=0.3)
    replies = [one for part in range(6) for one in loop.decide_many([{"event_id": f"{part}-{i}"} for i in range(500)])]
    shares = np.bincount([one.action for one in replies], minlength=3) / 3000
    assert abs(shares - np.array([0.8, 0.1, 0.1])).max() < 0.03
    assert {round(one.propensity, 9) for one in replies if one.action == 0} == {0.8}
    assert {round(one.propensity, 9) for one in replies if one.action == 1} == {0.1}
    assert all((one.learning == "pending") == (one.action == 0) for one in replies)
    excluded = loop.decide_many([{"event_id": f"z-{i}", "exclude": [0]} for i in range(400)])
    assert {one.action for one in excluded} == {1, 2}
    assert {round(one.propensity, 9) for one in excluded} == {0.5}
    assert {one.reason for one in excluded} == {"excluded"}


@pytest.mark.parametrize(
    ("request_", "path"),
    [
        ({"candidates": [{"features": [1.0]}]}, "candidates"),
        ({"exclude": [3]}, "exclude"),
        ({"exclude": [0, 1, 2]}, "exclude"),
        ({"baseline": 3}, "baseline"),
        ({"baseline": 1, "exclude": [1]}, "baseline"),
        ({"group": "a"}, "group"),
        ({"event_id": ""}, "event_id"),
        ({"event_id": "a\nb"}, "event_id"),
        ({"subject": "x" * 201}, "subject"),
        ({"colour": 1}, ""),
    ],
)
def test_requests_that_do_not_fit(loop, request_, path):
    more = {name: value for name, value in request_.items() if name != "event_id"}
    with pytest.raises(Invalid) as caught:
        loop.decide(request_.get("event_id"), **more)
    assert caught.value.path == path
    assert loop.status().round == 0


def test_policies_that_cannot_serve_people_are_refused_by_name(store):
    gdp = {"name": "gdp-ncb", "arms": 3, "epsilon": 1.0, "horizon": 1000}
    for table, words in (({"name": "ucb", "arms": 3}, "protects nobody"), (gdp, "late rewards")):
        with pytest.raises(UnsoundPolicy, match="private-nash") as caught:
            store.create("x", policy=table)
        assert words in str(caught.value)


def test_descriptions_that_are_wrong(store, loop):
    with pytest.raises(NameTaken):
        store.create("trial", policy=POLICY)
    with pytest.raises(UnknownLoop):
        store.loop("nobody")
    for table, path in [
        ({"reward": {"low": 1, "high": 0}}, "reward.high"),
        ({"reward": {"wait": "soon"}}, "reward.wait"),
        ({"reward": {"default": 0.5}}, "reward.default"),
        ({"person": {"max_events": 0}}, "person.max_events"),
        ({"actions": ["a", "b"]}, "actions"),
        ({"actions": ["a", "a", "b"]}, "actions"),
        ({"mode": "asleep"}, "mode"),
        ({"colour": 1}, "colour"),
        ({"policy": {"name": "even-blocks", "arms": 3, "epsilon": -1.0}}, "policy.epsilon"),
        ({"budget": {"epsilon": 1.0}}, "budget.ledger"),
        ({"retention": {"events": "1s"}}, "retention.events"),
    ]:
        with pytest.raises(SpecError) as caught:
            store.create("x", **{"policy": POLICY, **table})
        assert caught.value.path == path, table
    with pytest.raises(SpecError, match="name"):
        store.create("../x", policy=POLICY)


def test_loops_share_a_ledger_up_to_its_limit(store):
    shared = {"ledger": "hospital", "epsilon": 2.5}
    store.create("a", policy=POLICY, budget=Budget(**shared))
    store.create("b", policy=POLICY, budget={"ledger": "hospital"})
    with pytest.raises(BudgetError, match="largest admissible"):
        store.create("c", policy=POLICY, budget={"ledger": "hospital"})
    assert store.names() == ["a", "b"]
    assert store.ledger("hospital").spent.units == 2_000_000


def test_a_closed_loop_decides_no_more(store, loop):
    loop.decide("e")
    loop.close()
    with pytest.raises(Closed):
        loop.decide("f")
    assert loop.decide("e").replayed
    assert loop_table(loop)["closed"] is not None


def test_retention_leaves_only_the_key(store, clock):
    loop = store.create("r", policy=POLICY, reward=Reward(0, 1, wait="60s"), retention=Retention(events="2d"))
    for index in range(5):
        loop.decide(f"e-{index}")
    clock.advance(61)
    store.tick()
    clock.advance(3 * DAY)
    store.tick()
    for call in (lambda: loop.decide("e-0"), lambda: loop.reward("e-0", 1.0), lambda: loop.event("e-0")):
        with pytest.raises(Forgotten):
            call()
    with store.reading() as tx:
        [row] = tx.execute("SELECT body, action, decided, reward, context FROM events WHERE round = 0")
    assert row == (None,) * 5


def test_raw_rows_that_are_kept_too_short_count_as_missing(store, clock):
    loop = store.create("r", policy=POLICY, reward=Reward(0, 1, wait="1h"), retention=Retention(raw="1m", events="1d"))
    for index in range(5):
        loop.decide(f"e-{index}")
        loop.reward(f"e-{index}", 1.0)
    clock.advance(120)
    store.tick()
    with store.reading() as tx:
        assert tx.execute("SELECT count(reward) FROM events") == [(0,)]


def test_a_person_can_be_erased(store, loop, clock):
    for index in range(5):
        loop.decide(f"e-{index}", subject=f"p-{index % 2}")
        loop.reward(f"e-{index}", 1.0)
    assert loop.erase_subject("p-0") == 3
    assert loop.erase_subject("p-0") == 0
    clock.advance(61)
    store.tick()
    assert loop.status().state["counts"][0] == 5.0  # missing rewards count as the default


def test_starting_from_what_another_loop_published(store, loop, clock):
    for index in range(12):
        loop.decide(f"e-{index}")
    clock.advance(61)
    store.tick()
    other = store.create("second", policy=POLICY, reward=Reward(0, 1, wait="60s"), start_from="trial")
    assert other.status().state["counts"].tolist() == loop.status().state["counts"].tolist()
    assert other.decide("e-0").round == 15  # behind every block of the other loop
    table = loop_table(other)
    assert (table["decided"], table["rounds"], table["first_round"]) == (1, 16, 15)
    with pytest.raises(SpecError, match="cannot be read"):
        store.create("third", policy={**POLICY, "arms": 4}, start_from="trial")


def test_the_public_view_and_a_quote(store, loop, clock):
    for index in range(5):
        loop.decide(f"e-{index}")
        loop.reward(f"e-{index}", 1.0)
    clock.advance(61)
    store.tick()
    view = public_view(store, "trial")
    table = view.loops["trial"]
    assert table["version"] == 1
    arm = table["published"]["arms"][0]
    assert (arm["rounds"], arm["mean"], arm["low"], arm["high"]) == (5, None, None, None)  # a plug-in without estimates
    assert view.budgets["trial"]["epsilon"] == 1.0
    assert loop.release("summary")["id"] == "summary-0-1"
    assert loop.release("summary") == loop.release("summary")
    assert quote({"name": "q", "policy": POLICY})["cost"] == "epsilon 1"


def test_a_quote_has_the_noise_that_the_policy_states():
    policy = PrivateNash(arms=3, epsilon=1.0)
    quoted = quote({"name": "q", "policy": {"name": "private-nash", "arms": 3, "epsilon": 1.0}})
    noise = policy.noises()[0]
    assert quoted["noise"] == {"on": noise.on, "law": noise.law, "deviation": noise.std}
    assert quoted["rounds_to_useful"] == 3 * 8  # each arm: noise of variance 2 below that of 8 rewards
    assert quote({"name": "q", "policy": POLICY})["noise"] == {}  # a plug-in that states none


def test_another_key_is_refused_unless_said_aloud(store_url, clock):
    with Store.open(store_url, clock=clock, key=bytes(32)) as store:
        store.create("trial", policy=POLICY).decide("e-1")
    with pytest.raises(StorageFailed, match="key"):
        Store.open(store_url, clock=clock, key=bytes([1] * 32))
    with Store.open(store_url, clock=clock, key=bytes([1] * 32), new_key=True) as store, pytest.raises(UnknownEvent):
        store.loop("trial").reward("e-1", 1.0)


def test_a_clock_that_is_set_back_stands_still(store, loop, clock):
    first = loop.decide("a")
    clock.advance(-3600)
    second = loop.decide("b")
    assert second.reward_until == first.reward_until
    clock.advance(7200)
    assert loop.decide("c").reward_until > second.reward_until


def test_after_a_start_no_window_closes_for_a_while(store_url, clock):
    with Store.open(store_url, clock=clock, key=bytes(32)) as store:
        loop = store.create("t", policy=POLICY, reward=Reward(0, 1, wait="2h"))
        for index in range(5):
            loop.decide(f"e-{index}")
    clock.advance(3 * 3600)
    with Store.open(store_url, clock=clock, key=bytes(32)) as store:
        loop = store.loop("t")
        assert store.tick() == 0
        assert loop.reward("e-0", 1.0).learned == "pending"  # it could not be delivered while the service was down
        clock.advance(61)
        assert loop.reward("e-1", 1.0)[2:] == ("never", "late")
        assert store.tick() == 1
