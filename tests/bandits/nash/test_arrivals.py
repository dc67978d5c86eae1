"""Release by arrival: the landed run where nothing is late, one seat a reward, and nobody waits for the slowest."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fairveil
from fairveil import SeededNoise, registry
from fairveil.bandits.environments.bernoulli import Bernoulli
from fairveil.bandits.environments.table import RecordedArms
from fairveil.bandits.feedback import AT_ONCE, Lateness
from fairveil.bandits.forecast import forecast
from fairveil.bandits.nash.adap_ucb import AdapUcb
from fairveil.bandits.nash.arrivals import CAP, retry
from fairveil.bandits.nash.local_nash import LocalNash
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.bandits.protocol import HEADER, Feedback, Round
from fairveil.bandits.simulate import Case, StepSimulator, Streams, walk
from fairveil.errors import InputError, PrivacyError, SpecError
from fairveil.randomness import generator

ROUNDS = 900
REWARDS = np.random.default_rng(3).random((ROUNDS, 5)) ** np.array([0.2, 0.5, 1.0, 2.0, 0.3])
RECORDED = RecordedArms(rewards=tuple(map(tuple, REWARDS.tolist())))
NAMES = ("private-nash", "adap-ucb", "local-nash")


def policies(**more):
    return [
        PrivateNash(arms=5, epsilon=0.7, **more),
        PrivateNash(arms=5, epsilon=3.0, arrivals="private", growth=1.0, **more),
        AdapUcb(arms=5, epsilon=1.0, **more),
        LocalNash(arms=5, epsilon=2.0, **more),
    ]


def metrics(name, release, feedback=None, rounds=400, runs=40, **more):
    spec = {
        "task": "bandit", "rounds": rounds, "runs": runs, "seed": 5, "checkpoints": [rounds],
        "policy": {"name": name, "epsilon": 1.0, "release": release}, **more,
        "environment": more.get("environment", {"name": "bernoulli", "means": [0.45, 0.6, 0.3]}),
    }  # fmt: skip
    return fairveil.run(spec | ({} if feedback is None else {"feedback": feedback}))["metrics"]


# The landed run ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("feedback", [None, {"delay": 0}, {"delay": 0, "window": 50}], ids=str)
def test_where_nothing_is_late_it_is_the_landed_run(name, feedback):
    """Every number of a result: the same decisions, noise and estimates.

    Reports of `local-nash` are counted one by one, not once a block, so at the end of a run more of them are."""
    new, old = metrics(name, "arrivals", feedback), metrics(name, "blocks", feedback)
    new["lab"].pop("bounds_coverage")
    for item in new["estimates"]["items"]:  # what estimates say beside: who stands behind them
        assert [item.pop(key) for key in ("open", "closed")] == [0, 0]
        assert all(item.pop(key) is not None for key in ("answered", "lowest", "highest"))
    if name == "local-nash":
        assert (new.pop("releases"), old.pop("releases") < 100) == (400.0, True)
        new, old = ({key: table[key] for key in table if key not in ("estimates", "lab")} for table in (new, old))
    assert new == old


@pytest.mark.parametrize("policy", policies(), ids=lambda policy: f"{policy.name}-{policy.arrivals}")
def test_where_nothing_is_late_the_steps_are_the_landed_ones(policy):
    new = type(policy)(**{**vars_of(policy), "release": "arrivals"})
    old, new = (StepSimulator(Case.of(one, RECORDED, 300), Streams.of(1, 0)).advance(300) for one in (policy, new))
    assert np.array_equal(old.codes, new.codes)
    assert np.array_equal(old.pulls, new.pulls)


def vars_of(policy):
    table = fairveil.configuration.describe(policy)
    return {key: value for key, value in table.items() if key != "name"}


def test_runs_release_by_arrival_unless_told_otherwise():
    spec = {
        "task": "bandit", "rounds": 20, "runs": 1, "policy": {"name": "private-nash", "epsilon": 1.0},
        "environment": {"name": "bernoulli", "means": [0.4, 0.6]},
    }  # fmt: skip
    assert fairveil.run(spec)["spec"]["policy"]["release"] == "arrivals"
    spec["policy"]["release"] = "both"
    with pytest.raises(SpecError) as caught:
        fairveil.run(spec)
    assert (caught.value.path, "blocks" in caught.value.allowed) == ("policy.release", True)


# Steps and the compiled run ------------------------------------------------------------------------------------------

LATE = [
    {"delay": 7},
    {"delay": 200},
    {"delay": ["uniform", 2, 40], "window": 90, "missing": 0.2},
    {"delay": ["geometric", 12.0], "missing": 0.1},
    {"delay": [3, 40, 0, ["uniform", 5, 9], 60], "missing": [0, 0.5, 1.0, 0.1, 0], "window": 70},
    {"delay": ["uniform", 2, 10], "outages": [[50, 80, 30]], "window": 25},
]


@pytest.mark.parametrize("late", LATE, ids=str)
@pytest.mark.parametrize("number", range(4), ids=["private-nash", "private", "adap-ucb", "local-nash"])
def test_late_runs_are_equal_on_a_recorded_table(number, late):
    """Rewards are given: both choose the same arms, draw the same waits and noise, and release at the same rounds."""
    policy, when = policies(released_by="arrivals")[number], Lateness.of(late)
    case = Case.of(policy, RECORDED, ROUNDS, lateness=when)
    fast, slow = policy.simulator(case, Streams.of(4, 0)), StepSimulator(case, Streams.of(4, 0))
    run, steps = fast.advance(ROUNDS), slow.advance(ROUNDS)
    if policy.local:  # bits are drawn from another stream: only what does not read them is the same
        assert run.pulls.sum() == steps.pulls.sum()
        return
    assert np.array_equal(np.repeat(run.codes, np.diff(np.append(0, run.ends))), steps.codes)
    assert np.array_equal(run.pulls, steps.pulls)
    assert fast.releases == int(slow.state["released"][0])
    for name, array in (fast.published() | {"given": fast.turns.given}).items():
        assert np.array_equal(array, slow.state[name]), name


SLOW_SUCCESS = {"delay": ["uniform", 2, 9], "delay_if": {"reward": 5}}


def shares(policy, late, runs, fast):
    world, rows = Bernoulli(means=(0.8, 0.5, 0.2)), []
    for run in range(runs):
        case, streams = Case.of(policy, world, 150, lateness=late), Streams.of(11, run)
        simulator = policy.simulator(case, streams) if fast else StepSimulator(case, streams)
        rows.append([*simulator.advance(150).pulls / 150, simulator.releases])
    return np.array(rows)


@pytest.mark.parametrize(
    ("policy", "late"),
    [
        (
            PrivateNash(arms=3, epsilon=2.0, released_by="arrivals"),
            {"delay": ["uniform", 2, 9], "delay_if": {"reward": 5}},
        ),
        (PrivateNash(arms=3, epsilon=2.0, released_by="arrivals"), {"delay": 6, "missing": 0.3, "treat": "default"}),
        (
            PrivateNash(arms=3, epsilon=3.0, arrivals="private", released_by="arrivals"),
            {"delay": 6, "missing": 0.3, "treat": "private"},
        ),
        (LocalNash(arms=3, epsilon=2.0, released_by="arrivals"), {"delay": ["uniform", 0, 25], "missing": 0.2}),
        (AdapUcb(arms=3, epsilon=2.0, released_by="arrivals"), {"delay": ["geometric", 8.0], "window": 20}),
    ],
    ids=str,
)
def test_late_runs_agree_in_law(policy, late):
    """Where rewards are drawn in another order: mean pull shares and releases within 4 standard errors."""
    slow, fast = (shares(policy, Lateness.of(late), runs, quick) for runs, quick in ((30, False), (500, True)))
    error = np.sqrt(slow.var(axis=0) / len(slow) + fast.var(axis=0) / len(fast))
    assert (np.abs(slow.mean(axis=0) - fast.mean(axis=0)) <= 4 * error + 1e-12).all()


# Any script of arrivals ----------------------------------------------------------------------------------------------

WINDOW = 30


class Scripted(Lateness):
    """Waits as a script says, by round: it may not read rewards."""

    def wait(self, round, arm, rng):
        return SCRIPT[round.index % len(SCRIPT)]


SCRIPT: list[int] = [0]
scripts = st.lists(st.integers(-1, WINDOW), min_size=1, max_size=60)
EVEN = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


def played(policy, script, rounds=140, changed=None, treat="public", noise=7):
    """Every step of a run whose rewards are fixed by the round, but for one that is changed."""

    class World(Bernoulli):
        def reward(self, round, arm, rng):
            own = float(generator(5, "reward", round.index, arm).random() < self.means[arm])
            return own if changed is None or round.index != changed[0] else changed[1]

    SCRIPT[:] = script
    late = Scripted("uniform", (0.0, float(WINDOW)), WINDOW, treat=treat)
    return list(walk(policy, World(means=(0.3, 0.5, 0.8)), rounds, Streams.of(2, 0, SeededNoise(noise)), late))


@EVEN
@given(scripts, st.sampled_from(NAMES))
def test_an_arm_of_which_nothing_is_published_has_its_share_and_one_turn(script, name):
    policy = registry.build("policy", {"name": name, "arms": 3, "epsilon": 1.0, "release": "arrivals"}, "policy")
    for step in played(policy, script):
        state, decided = step.state, step.round.index + 1
        silent = state["counts"] <= 0
        turn = policy._shape.first
        assert (state["given"][silent] <= decided / 3 + turn).all()
        never = silent & (state["closed"] >= 2 * turn) & (state["came"] == 0)
        assert (state["given"][never] <= retry(turn, 3, decided) + turn).all()


def test_also_when_nobody_answers():
    policy = PrivateNash(arms=3, epsilon=1.0, release="arrivals")
    last = played(policy, [-1], rounds=3000)[-1].state
    assert last["released"][0] == 0
    assert last["given"].max() - last["given"].min() <= policy._shape.first


@EVEN
@given(scripts)
def test_what_is_under_way_is_bound_unless_every_arm_is(script):
    policy = PrivateNash(arms=3, epsilon=1.0, release="arrivals")
    before = policy.start()
    for step in played(policy, script):
        given = step.state["given"] - before["given"]
        if given.any() and (before["counts"] > 0).all():
            arm = int(given.argmax())
            under = before["given"] - before["closed"] - before["taken"]
            most = CAP * before["seats"] + (under.sum() + policy._shape.first) / 3
            assert under[arm] <= most[arm] or (under > most).all()
        before = step.state


def told(step):
    """What is public after a step."""
    hidden = ("raw", "here")
    return step.decision.arm, {name: array.tolist() for name, array in step.state.items() if name not in hidden}


@EVEN
@given(scripts, st.integers(0, 90), st.floats(0, 1), st.floats(0, 1), st.sampled_from(NAMES[:2]))
def test_one_reward_changes_one_value_and_nothing_before_it(script, index, one, other, name):
    """Coins, arrivals and noise fixed: everything public is the same until the release that holds the changed reward;
    what changes there is the sum of one arm, by at most one reward."""
    policy = registry.build("policy", {"name": name, "arms": 3, "epsilon": 1.0, "release": "arrivals"}, "policy")
    first, second = (played(policy, script, changed=(index, value)) for value in (one, other))
    check_one_value(first, second, 1.0)


def check_one_value(first, second, most):
    for a, b in zip(first, second):
        if told(a) != told(b):
            assert a.decision.arm == b.decision.arm
            different = {name for name in a.state if not np.array_equal(a.state[name], b.state[name])}
            assert different <= {"sums", "raw"}
            moved = np.abs(a.state["sums"] - b.state["sums"])
            assert np.count_nonzero(moved) == 1
            assert moved.max() <= most * 2**20
            return


@EVEN
@given(scripts, scripts, st.integers(0, 90), st.floats(0, 1), st.floats(0, 1))
def test_hidden_arrivals_may_be_replaced_too(script, other, index, one, two):
    """treat = default: the arrival time of the changed reward is replaced together with it."""
    policy = PrivateNash(arms=3, epsilon=1.0, release="arrivals")
    length = 140
    long = (script * length)[:length]
    moved = [*long[:index], other[0], *long[index + 1 :]]
    first = played(policy, long, changed=(index, one), treat="default")
    second = played(policy, moved, changed=(index, two), treat="default")
    check_one_value(first, second, 1.0)


@EVEN
@given(scripts, st.sampled_from(NAMES[:2]))
def test_intervals_of_an_arm_are_contiguous_and_every_answer_has_one_seat(script, name):
    policy = registry.build("policy", {"name": name, "arms": 3, "epsilon": 1.0, "release": "arrivals"}, "policy")
    ends, headers = [0, 0, 0], []

    class Noted(type(policy)):
        def draw(self, state, noise):
            value = super().draw(state, noise)
            headers.append([int(number) for number in value[HEADER]])
            return value

    noted = object.__new__(Noted)
    noted.__dict__.update(policy.__dict__)
    last = played(noted, script)[-1].state
    for arm, start, stop, reach in headers:
        assert ends[arm] == start < stop
        assert reach <= policy.reach(last)
        ends[arm] = stop
    assert last["taken"].tolist() == ends
    assert (last["taken"] <= last["came"]).all()


# Estimates -----------------------------------------------------------------------------------------------------------


SLOWER, FASTER = {"reward": 10.0}, {"reward": 0.1}


@pytest.mark.parametrize(
    ("late", "plain"),
    [
        ({"delay": ["uniform", 4, 20], "window": 120, "missing": 0.1}, 0.95),
        ({"delay": ["uniform", 4, 20], "window": 200, "delay_if": SLOWER}, 0.0),
        ({"delay": ["uniform", 40, 200], "window": 200, "delay_if": FASTER}, 0.0),
        ({"delay": ["uniform", 4, 20], "window": 20, "delay_if": {"reward": 1000.0}}, 0.0),
    ],
    ids=["independent", "success 10 x slower", "success 10 x faster", "success never answers"],
)
def test_bounds_cover_whatever_the_delay_does(late, plain):
    lab = metrics("private-nash", "arrivals", late, rounds=500, runs=300)["lab"]
    assert min(lab["bounds_coverage"]) >= 0.95
    assert np.mean(lab["interval_coverage"]) >= plain


def test_estimates_say_who_stands_behind_them():
    late = {"delay": ["uniform", 4, 20], "window": 60, "missing": 0.2}
    found = metrics("private-nash", "arrivals", late, rounds=500, runs=1)
    table = found["estimates"]
    assert any("no answer yet" in note for note in table["notes"])
    for item in table["items"]:
        assert item["lowest"] <= item["low"] <= item["high"] <= item["highest"]
        assert item["closed"] > 0
    assert sum(item["answered"] + item["open"] + item["closed"] for item in table["items"]) <= 500
    assert not any(
        "no answer yet" in note for note in metrics("private-nash", "arrivals", runs=1)["estimates"]["notes"]
    )


# Refusals and loss ---------------------------------------------------------------------------------------------------


def opened(rounds=3):
    policy = PrivateNash(arms=2, epsilon=1.0, release="arrivals")
    state = policy.open(policy.start(), 0, generator(1))
    arm = policy.decide(state, Round(0), generator(1)).arm
    return policy, state, arm


def test_a_round_more_than_was_decided_is_refused():
    policy, state, arm = opened()
    rows = [Feedback(index, arm, 1.0) for index in range(4)]
    assert policy.due(policy.learn_all(state, rows[:3]), 3) == f"{arm}-0-3"
    with pytest.raises(InputError, match="more rounds"):
        policy.learn_all(state, rows)


def test_a_lost_release_loses_its_seats_and_nothing_else():
    policy, state, arm = opened()
    full = policy.learn_all(state, [Feedback(index, arm, 1.0) for index in range(3)])
    lost = policy.lost(full, f"{arm}-0-3")
    assert (lost["taken"][arm], lost["counts"][arm], lost["raw"][arm]) == (3, 0, 0)
    value = policy.draw(full, SeededNoise(1))
    for state in (lost, policy.adopt(full, f"{arm}-0-3", value)):
        with pytest.raises(PrivacyError, match="another pool"):
            policy.adopt(state, f"{arm}-0-3", value)


def test_a_state_goes_on_by_the_rule_it_was_begun_with():
    old, new = (PrivateNash(arms=2, epsilon=1.0, release=rule) for rule in ("blocks", "arrivals"))
    state = new.open(old.start(), 0, generator(1))
    assert new.decide(state, Round(0), generator(1)).arm == old.decide(state, Round(0), generator(1)).arm
    assert new.due(state, 3) == old.due(state, 3) == "block-0"


# What it is worth ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [20, 120, 360])
def test_a_long_window_costs_nothing(window):
    """T 500, three arms, outcomes after 4 to 20 decisions, one in ten never: at most .05 whatever the window."""
    found = metrics("private-nash", "arrivals", {"delay": ["uniform", 4, 20], "window": window, "missing": 0.1},
                    rounds=500, runs=1000)  # fmt: skip
    assert found["average_regret"][0] <= 0.050


def test_few_people_rest_on_one_release():
    """T 296, window 120, one in ten missing: rounds of an arm on at most one release, 95th percentile: .12 T."""
    late = Lateness.of({"delay": ["uniform", 4, 20], "window": 120, "missing": 0.1})
    policy, world, largest = PrivateNash(arms=3, epsilon=1.0, release="arrivals"), Bernoulli(means=(0.45, 0.6, 0.3)), []
    for run in range(40):
        got = np.zeros(3)
        for step in walk(policy, world, 296, Streams.of(9, run), late):
            got[step.decision.arm] += step.state["looks"][step.decision.arm] <= 1
        largest.append(got.max() / 296)
    assert np.quantile(largest, 0.95) <= 0.12


def test_an_arm_that_never_answers_is_left_alone():
    """The worst arm silent, T 5,000: at most .03 of the rounds, regret at most .012."""
    late = {"delay": ["uniform", 4, 20], "window": 360, "missing": [0.0, 0.0, 1.0]}
    found = metrics("private-nash", "arrivals", late, rounds=5000, runs=100)
    assert found["pull_share"][2] <= 0.03
    assert found["average_regret"][0] <= 0.012


@pytest.mark.parametrize(
    ("feedback", "path"),
    [
        ({"delay": [3, 4]}, "feedback.delay"),
        ({"delay": [3, 4, 5], "missing": [0.1, 0.2]}, "feedback.missing"),
        ({"missing": [0.1, 0.2, 1.5]}, "feedback.missing"),
        ({"delay": 3, "delay_if": {"reward": 0.0}}, "feedback.delay_if.reward"),
        ({"delay": 3, "outages": [[5, 5, 1]]}, "feedback.outages.0"),
    ],
)
def test_a_wrong_law_is_refused_by_name(feedback, path):
    with pytest.raises(SpecError) as caught:
        metrics("private-nash", "arrivals", feedback, runs=1)
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("feedback", "release", "words"),
    [
        ({"delay": 20, "window": 300, "treat": "default"}, "arrivals", "most of it is over"),
        ({"delay": 20, "window": 150, "treat": "default"}, "arrivals", "allotted equally, about 30% of the plan"),
        ({"delay": 20, "window": 400, "missing": 0.1}, "arrivals", "the time tells the outcome"),
        ({"delay": 20, "window": 400, "missing": 0.1}, "blocks", "holds up all arms"),
    ],
)
def test_a_quote_says_what_waiting_will_do(feedback, release, words):
    spec = {
        "task": "bandit", "rounds": 500, "policy": {"name": "private-nash", "epsilon": 1.0, "release": release},
        "environment": {"name": "bernoulli", "means": [0.4, 0.6]},
    }  # fmt: skip
    found = forecast({**spec, "feedback": feedback}, runs=0).warnings
    assert any(words in warning for warning in found)
    assert not any("of the plan" in warning or "tells" in warning for warning in forecast(spec, runs=0).warnings)
    short = forecast({**spec, "feedback": {"delay": 2, "window": 20, "treat": "default"}}, runs=0).warnings
    assert not any("of the plan" in warning for warning in short)


@pytest.mark.parametrize("late", LATE[2:], ids=str)
def test_a_lateness_is_its_table(late):
    made = Lateness.of(late)
    assert Lateness.of(made.table()) == made != AT_ONCE
