"""What is said about waiting: to who plans a loop, to who runs one, and of rounds that are not learned for what they
hold."""

from __future__ import annotations

import pytest

from fairveil.bandits.forecast import MOST_PEOPLE
from fairveil.errors import SpecError
from fairveil.loop import Person, Reward
from fairveil.loop.public import loop_table
from fairveil.loop.quoting import quote
from fairveil.loop.upkeep import check

NASH = {"name": "private-nash", "arms": 2, "epsilon": 1.0}  # turns of 3 rounds, first pools of 6


def waits(missing="default", wait="60d", policy=NASH, **plan):
    """What the quote of a loop says about a plan of 500 people, three a day."""
    reward = {"low": 0, "high": 1, "wait": wait, "missing": missing}
    return quote({"name": "q", "policy": policy, "reward": reward, "plan": {"people": 500, "per_day": 3, **plan}})


def said(table):
    return " | ".join(table["waiting"]["words"])


@pytest.mark.parametrize(
    ("wait", "people", "words"),
    [
        ("20d", 60, "the first 60 people are allotted equally, about 12% of the plan |"),
        (
            "60d",
            180,
            "allotted equally, about 36% of the plan: shorten the window, or let arrivals be public (missing =",
        ),
        ("100d", 300, "most of it is over before anything is learned"),
        ("200d", 600, "it may learn nothing"),
    ],
)
def test_hidden_outcomes_take_their_window_from_the_plan(wait, people, words):
    table = waits(wait=wait)["waiting"]
    assert words in " | ".join(table["words"])
    assert (table["people"], table["first_release"]) == (people, people + 12)
    assert ("either" in table) == (people > 125)


def test_both_ways_stand_side_by_side_with_what_becomes_public():
    table = waits(typical="10d")["waiting"]
    own, other = table["either"]
    assert (own["missing"], own["people"], own["becomes_public"]) == ("default", 180, "nothing about arrivals")
    assert (other["missing"], other["people"], other["guessed"]) == ("public", 30, False)
    assert "is public" in other["becomes_public"]
    assert 0 < other["average_regret"] < own["average_regret"] == table["average_regret"] < 0.1  # two arms, .4 and .6


def test_public_arrivals_pay_for_the_answers_alone():
    guessed, told = waits("public"), waits("public", typical="2d")
    assert (guessed["waiting"]["people"], guessed["waiting"]["guessed"]) == (30, True)
    assert "a guess: a sixth of the window" in said(guessed)
    assert (told["waiting"]["people"], told["waiting"]["guessed"]) == (6, False)
    assert "a guess" not in said(told)
    for table in (guessed, told):
        assert "the time tells the outcome" in said(table)
        assert 'missing = "default"' in said(table)
        assert "a long window costs nothing" in said(table)
        assert "at most its equal share" in said(table)


def test_a_loop_that_releases_blocks_is_told_what_holds_it_up():
    blocks = {**NASH, "release": "blocks"}
    assert "first_release" not in waits("public", policy=blocks)["waiting"]
    assert waits(people=MOST_PEOPLE + 1)["waiting"]["average_regret"] is None


def test_a_quote_without_a_plan_says_nothing_of_one():
    assert quote({"name": "q", "policy": NASH})["waiting"] is None


@pytest.mark.parametrize(
    ("plan", "path"),
    [({"people": 0}, "plan.people"), ({"per_day": -1}, "plan.per_day"), ({"typical": "soon"}, "plan.typical")],
)
def test_a_wrong_plan_is_refused_by_name(plan, path):
    with pytest.raises(SpecError) as caught:
        waits(**plan)
    assert caught.value.path == path


# Running loops --------------------------------------------------------------------------------------------------------


def create(store, missing="public", **more):
    return store.create("trial", policy=NASH, reward=Reward(0, 1, wait="60s", missing=missing), **more)


def rows(loop):
    return {
        row["action"]: [row[key] for key in ("under_way", "answered", "since")] for row in loop_table(loop)["waiting"]
    }


def test_the_table_has_by_arm_what_is_under_way_and_since_when(store, clock):
    loop = create(store)
    first, *_ = [loop.decide(f"e-{index}").action for index in range(6)]
    assert rows(loop) == {0: [3, 0, None], 1: [3, 0, None]}
    loop.reward_many([(f"e-{index}", 1.0) for index in (0, 1, 2, 3)])
    assert rows(loop) == {first: [3, 3, None], 1 - first: [3, 1, None]}
    store.tick()
    loop.decide("e-6")
    found = rows(loop)
    assert found[first][2] == 1
    assert found[1 - first][2] is None
    assert sum(row[0] for row in found.values()) == 4
    assert sum(row[1] for row in found.values()) == 1


def test_an_arm_that_nobody_answers_for_is_named(store, clock):
    loop = create(store)
    assert loop_table(loop)["warnings"] == []
    for turn in range(6):
        replies = [loop.decide(f"e-{turn}-{index}") for index in range(3)]
        loop.reward_many([(reply.event_id, 1.0) for reply in replies if reply.action == 0])
        clock.advance(61)
        store.tick()
    assert loop.status().state["closed"][1] >= 6
    assert any("nobody answers for" in words for words in loop_table(loop)["warnings"])
    assert any("more than a tenth" in words for words in loop_table(loop)["warnings"])


def test_much_under_way_on_little_published_is_a_word(store, clock):
    loop = create(store)
    for index in range(12):
        loop.decide(f"e-{index}")
    loop.reward_many([(f"e-{index}", 1.0) for index in range(12)])
    assert store.tick() == 2
    for index in range(12, 160):  # an outage: nobody answers any more, and no window closes yet
        loop.decide(f"e-{index}")
    assert any("rounds under way and 6 published" in words for words in loop_table(loop)["warnings"])


def test_a_long_window_of_a_loop_with_blocks_is_a_word(store, clock):
    loop = store.create("old", policy={**NASH, "release": "blocks"}, reward=Reward(0, 1, wait="60s", missing="public"))
    for index in range(3):
        loop.decide(f"e-{index}")
        clock.advance(1)
        loop.reward(f"e-{index}", 1.0)
    assert any("holds up all arms" in words for words in loop_table(loop)["warnings"])


# Rounds that are not learned for what is in them ----------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["public", "default"])
def test_a_round_over_the_limit_is_answered_and_settles_as_any_other(store, clock, missing):
    """Whose round it is shows nowhere: neither at the decision nor at the answer, nor when its window closes."""
    loop = create(store, missing=missing, person=Person(max_events=1))
    people = ["a", "b", "a", "c", "d", "e"]
    replies = [loop.decide(f"e-{index}", subject=person) for index, person in enumerate(people)]
    assert [reply.learning for reply in replies] == ["pending", "pending", "never", *["pending"] * 3]
    loop.reward_many([(f"e-{index}", 1.0) for index in range(6)])
    assert rows(loop)[replies[0].action][:2] == [3, 3 if missing == "public" else 0]
    for seconds in (0, 61):
        clock.advance(seconds)
        store.tick()
        state = loop.status().state
        settled = 3 if missing == "public" or seconds else 0
        for name in ("came", "counts", "taken"):
            assert state[name].tolist() == [settled, settled]
        assert state["closed"].sum() == 0
    check(store)
