"""Worlds of one's own: logs that are replayed, people from a table, classes without compiled laws."""

from __future__ import annotations

import numpy as np
import pytest

import fairveil
from fairveil.bandits.environments.arms import ArmEnvironment
from fairveil.bandits.environments.logged import LoggedArms
from fairveil.bandits.environments.people import People
from fairveil.bandits.environments.table import RecordedArms
from fairveil.bandits.feedback import ARRIVALS_IN_WORDS
from fairveil.bandits.protocol import Round
from fairveil.bandits.simulate import Streams, walk
from fairveil.configuration import configuration
from fairveil.errors import ContractError, FairveilError, HorizonError, InputError, SpecError
from fairveil.fields import Count, described
from fairveil.randomness import generator
from fairveil.registry import build, register

MEANS = np.array([0.3, 0.5, 0.8])


def trial(rows=6000, shares=(1 / 3, 1 / 3, 1 / 3)):
    rng = generator(3, "trial")
    arm = rng.choice(3, rows, p=shares)
    wins = (rng.random(rows) < MEANS[arm]).astype(int)
    table = {"drug": [f"d{a}" for a in arm], "well": wins.tolist(), "p": np.array(shares)[arm].tolist()}
    return {**table, "late": rng.integers(0, 30, rows).tolist()}


def logged(table, log=(), **more):
    return {"name": "logged", "log": {"file": table, "arm": "drug", "outcome": "well", **dict(log)}, **more}


def run(policy, environment, rounds, **more):
    name = {"name": policy} if isinstance(policy, str) else policy
    return fairveil.run({"task": "bandit", "rounds": rounds, "policy": name, "environment": environment, **more})


def test_replay_of_an_uneven_log_shows_every_arm_equally_soon_and_its_own_mean():
    """Arms of 20, 30 and 50 % with their propensities: uniform play earns the mean of the means (4 standard errors)."""
    environment = logged(trial(shares=(0.2, 0.3, 0.5)), {"propensity": "p"})
    metrics = run("random", environment, 1000)["metrics"]
    replay = metrics["replay"]
    assert replay["rows_used"] == 1000
    assert replay["rows_read"] == pytest.approx(1000 / 0.2, abs=4 * np.sqrt(1000 * 0.8) / 0.2)
    assert replay["mean_outcome"] == pytest.approx(MEANS.mean(), abs=4 * np.sqrt(0.25 / 1000))
    assert replay["low"] < MEANS.mean() < replay["high"]
    assert "unlike_propensities" not in replay
    assert metrics["evaluation"]
    assert metrics["arms"] == ["d0", "d1", "d2"]


def test_what_replay_earns_is_what_the_policy_earns_in_the_world_itself():
    """Twelve replays of resampled rows against twelve runs on Bernoulli arms of the same means, 4 standard errors."""
    table = trial()
    world = LoggedArms(log={"file": table, "arm": "drug", "outcome": "well"}, order="resampled")
    means = {"name": "bernoulli", "means": world.true_means.tolist()}
    regrets = [
        run({"name": "private-nash", "epsilon": 1.0}, environment, 500, runs=12)["metrics"]
        for environment in (logged(table, order="resampled"), means)
    ]
    (here, there), (first, second) = (
        [found[name][-1] for found in regrets] for name in ("average_regret", "average_regret_std")
    )
    assert abs(here - there) < 4 * np.sqrt((first**2 + second**2) / 12)


def test_a_log_that_was_not_drawn_as_stated_is_named():
    replay = run("random", logged(trial(shares=(0.2, 0.3, 0.5))), 500, seed=1)["metrics"]["replay"]
    assert replay["unlike_propensities"] == ["d0", "d1", "d2"]


def test_low_outcomes_can_be_good_and_ranges_are_mapped_back():
    table = trial()
    table["well"] = [10 * value for value in table["well"]]
    log = {"high": 10.0, "arms": ["d0", "d1", "d2"]}
    metrics = run("ucb", logged(table, log, better="low"), 1000)["metrics"]
    assert np.argmax(metrics["pull_share"]) == 0
    assert metrics["replay"]["mean_outcome"] < metrics["replay"]["logged_mean"]
    assert 0 < metrics["replay"]["low"] < metrics["replay"]["high"] < 10


def test_recorded_delays_are_waited_for_and_late_ones_are_missing():
    table = trial()
    environment = build("environment", logged(table, {"delay": "late"}, window=20), "environment")
    steps = list(walk(build("policy", {"name": "ucb", "arms": 3}, "policy"), environment, 50, Streams.of(1, 0)))
    assert len(steps) == 50
    assert environment.lateness.window == 20
    place = environment.prepare(generator(1))
    waits = []
    for t in range(200):
        place.reward(Round(t), t % 3, generator(1))
        waits.append(place.wait(Round(t), t % 3, environment.lateness, generator(1)))
    assert set(waits) == {-1, *range(21)}
    result = run({"name": "private-nash", "epsilon": 1.0}, logged(table, {"delay": "late"}, window=20), 800)
    assert result["metrics"]["replay"]["rows_used"] == 800


def silent_trial(share=0.4, **more):
    """The same trial; of arm d1 a share never answers, and has no delay either."""
    table, rng = trial(**more), generator(4, "silence")
    quiet = [drug == "d1" and rng.random() < share for drug in table["drug"]]
    for name in ("well", "late"):
        table[name] = ["" if gone else str(value) for gone, value in zip(quiet, table[name])]
    return table, quiet


def test_an_empty_outcome_is_refused_until_it_is_said_what_it_is():
    table, _ = silent_trial()
    with pytest.raises(InputError, match="a cell is empty") as refused:
        run("ucb", logged(table), 100)
    assert 'missing = "never"' in refused.value.fix
    assert "remove those rows" in refused.value.fix
    assert run("ucb", logged(table, missing="never"), 100)["metrics"]["replay"]["rows_used"] == 100


def test_people_without_an_outcome_never_answer():
    """Their rounds are played, nothing is learned of them, and the figures are those of the people who answered."""
    table, quiet = silent_trial()
    world = build("environment", logged(table, missing="never"), "environment")
    told = {key: [cell for cell, gone in zip(cells, quiet) if not gone] for key, cells in table.items()}
    answered = LoggedArms(log={"file": told, "arm": "drug", "outcome": "well"})
    assert world.true_means == pytest.approx(answered.true_means)
    place, waits = world.prepare(generator(1)), []
    for index in range(300):
        place.reward(Round(index), 1, generator(1))
        waits.append(place.wait(Round(index), 1, world.lateness, generator(1)))
    assert set(waits) == {0, -1}
    counted = place.counted()
    assert counted["silent"] == waits.count(-1) == pytest.approx(120, abs=4 * np.sqrt(300 * 0.24))
    assert counted["total"] / waits.count(0) == pytest.approx(MEANS[1], abs=4 * np.sqrt(0.25 / 180))
    found = run("random", logged(table, missing="never"), 1500)["metrics"]
    replay = found["replay"]
    assert replay["rows_without_outcome"] == pytest.approx(1500 * 0.4 / 3, abs=4 * np.sqrt(1500 * 0.13 * 0.87))
    weights = np.array([1, 0.6, 1]) / 2.6
    assert replay["mean_outcome"] == pytest.approx(weights @ MEANS, abs=4 * np.sqrt(0.25 / 1300))
    assert "silence" in replay["estimates"]


def test_whether_somebody_answered_is_public_or_protected_as_the_spec_says():
    table, _ = silent_trial()
    nash, environment = {"name": "private-nash", "epsilon": 1.0}, logged(table, missing="never")
    public = run(nash, environment, 1200)
    hidden = run(nash, environment, 1200, feedback={"treat": "default"})
    full = run(nash, logged(trial()), 1200)
    notes = [result["guarantee"]["notes"] for result in (public, hidden)]
    said = [[words in found for words in ARRIVALS_IN_WORDS.values()] for found in notes]
    assert said == [[True, False, False], [False, True, False]]
    assert full["guarantee"]["epsilon"] == public["guarantee"]["epsilon"] == hidden["guarantee"]["epsilon"]
    closed = [[row["closed"] for row in result["metrics"]["estimates"]["items"]] for result in (public, hidden)]
    assert closed[0][1] > 0
    assert closed[1] == [0, 0, 0]


def test_a_delay_may_be_empty_where_the_outcome_is_and_nowhere_else():
    table, quiet = silent_trial()
    environment = logged(table, {"delay": "late"}, window=20, missing="never")
    assert run("ucb", environment, 200)["metrics"]["replay"]["rows_without_outcome"] > 0
    table["late"][quiet.index(False)] = ""
    with pytest.raises(InputError, match="a cell is empty") as refused:
        run("ucb", environment, 200)
    assert refused.value.path == "late"


def test_an_arm_for_which_nobody_answered_is_named():
    table, _ = silent_trial(share=1.0)
    with pytest.raises(SpecError, match="nobody answered") as refused:
        run("ucb", logged(table, missing="never"), 100)
    assert refused.value.given == "d1"


@pytest.mark.parametrize(
    ("environment", "rounds", "error", "path"),
    [
        (logged(trial(300)), 100, HorizonError, "rounds"),
        (logged(trial(300), {"arms": ["d0", "d1", "d2", "d3"]}), 10, SpecError, "log.arms"),
        (logged(trial(300), {"arms": ["d0", "d1"]}), 10, InputError, "drug"),
        (logged(trial(300), {"delay": "late"}), 10, SpecError, "environment.window"),
        (logged(trial(300), floor=0.9), 10, SpecError, "environment.floor"),
        (logged(trial(300), arms=2), 10, SpecError, "environment.arms"),
        (logged(trial(300), {"outcome": "wel"}), 10, SpecError, "environment.log.outcome"),
        (logged(trial(300), {"low": 2.0}), 10, SpecError, "environment.log.low"),
    ],
)
def test_mistakes_of_a_log_are_named(environment, rounds, error, path):
    with pytest.raises(error) as caught:
        run("ucb", environment, rounds)
    assert caught.value.path == path
    assert caught.value.fix


def test_a_log_that_ends_too_soon_says_so():
    """All of one arm first: uniform in number, not in order."""
    ordered = {"drug": ["a"] * 500 + ["b"] * 500, "well": [1] * 1000}
    with pytest.raises(HorizonError, match="ended before"):
        run("random", logged(ordered), 400)
    assert run("random", logged(ordered, order="shuffled"), 400)["metrics"]["replay"]["rows_used"] == 400


# People ---------------------------------------------------------------------------------------------------------------


def staff(rows=400):
    rng = generator(5, "staff")
    sex, site = rng.choice(["f", "m"], rows, p=[0.3, 0.7]), rng.choice(["n", "s"], rows)
    years, degree = rng.uniform(0, 20, rows), rng.choice(["none", "ba", "ma"], rows)
    rating = np.clip(2 + years / 4 + 2 * (degree == "ma") + (sex == "m") + rng.normal(0, 0.3, rows), 0, 10)
    table = {"sex": sex, "site": site, "years": years, "degree": degree, "rating": rating}
    return {name: values.tolist() for name, values in table.items()} | {"day": [k // 4 for k in range(rows)]}


COLUMNS = {
    "years": {"low": 0, "high": 20},
    "degree": {"values": ["none", "ba", "ma"], "shares": [0.3, 0.4, 0.3]},
    "sex": {"values": ["f", "m"]},
    "site": {"values": ["n", "s"]},
}


def people(**more):
    base = {"file": staff(), "outcome": "rating", "high": 10.0, "groups_by": ["sex"], "columns": COLUMNS}
    return {"name": "people", **base, **more}


def made(**more) -> People:
    return build("environment", people(**more), "environment")


def test_groups_are_values_or_intersections_and_the_schema_is_public():
    assert made().group_names == ("sex=f", "sex=m")
    world = made(groups_by=["sex", "site"])
    assert world.group_names == ("sex=f/site=n", "sex=f/site=s", "sex=m/site=n", "sex=m/site=s")
    schema = world.schema
    assert schema.names == (
        "years",
        "degree=none",
        "degree=ba",
        "degree=ma",
        "sex=f",
        "sex=m",
        "site=n",
        "site=s",
        "constant",
    )
    assert schema.informative.tolist() == [True, False, True, True, False, False, False, False, False]
    assert (np.linalg.norm(world.pool.features, axis=1) <= schema.norm + 1e-12).all()
    changed = {**staff(), "years": [0.0] * 400, "rating": [1.0] * 400}
    assert np.array_equal(made(file=changed, groups_by=["sex", "site"]).schema.centre, schema.centre)


def test_file_order_shows_everybody_once_with_the_recorded_outcome():
    table, world = staff(), made(order="file", per_round=6)
    chunk = world.draw(0, 67, generator(1))
    shown = chunk.group >= 0
    assert shown.sum() == 400
    assert chunk.reward[shown].tolist() == pytest.approx(table["rating"])
    assert [world.group_names[g] for g in chunk.group[shown]] == [f"sex={value}" for value in table["sex"]]
    with pytest.raises(HorizonError):
        run("random", people(order="file", per_round=6), 68)


def test_rounds_by_a_column_and_too_many_in_one():
    world = made(order="file", per_round=4, round="day")
    assert world._file_rounds.shape == (100, 4)
    assert run("fair-greedy", people(order="file", per_round=4, round="day"), 100)["metrics"]["fair_regret"][-1] > 0
    with pytest.raises(InputError, match=r"row 4 \(and 99 more") as caught:
        run("fair-greedy", people(order="file", per_round=3, round="day"), 10)
    assert caught.value.path == "day"


def test_step_api_and_simulator_see_the_same_people():
    world = made()
    place = world.prepare(generator(1))
    shown = place.show(0, generator(2))
    rewards = world.draw(0, 1, generator(2)).reward[0]
    assert [place.reward(shown, arm, generator(3)) for arm in range(2)] == rewards.tolist()
    with pytest.raises(HorizonError):
        place.reward(Round(5), 0, generator(3))


def test_merit_is_the_fitted_outcome_and_small_outcomes_can_be_good():
    world, turned = made(), made(better="low")
    assert np.corrcoef(world.pool.score, world._members.outcome)[0, 1] > 0.95
    assert np.allclose(world._members.outcome + turned._members.outcome, 10.0)
    held = made(holdout=0.5)
    assert held.pool.size.sum() == 200


def test_a_draft_is_not_public():
    secure = {"policy": {"name": "batched-private-fair-greedy", "epsilon": 1.0, "delta": 1e-5}, "rounds": 50}
    spec = {"task": "bandit", **secure, "environment": people(declared="drafted")}
    assert any("read off" in note for note in fairveil.run(spec)["guarantee"]["notes"])
    with pytest.raises(SpecError) as caught:
        fairveil.run({**spec, "noise": "secure"})
    assert caught.value.path == "environment.declared"
    served = fairveil.run({**spec, "noise": "secure", "environment": people()})
    assert served["meta"]["simulated"] is False
    assert any("with replacement" in note for note in served["guarantee"]["notes"])
    once = fairveil.run({**spec, "environment": people(order="file", per_round=4)})
    assert not any("with replacement" in note for note in once["guarantee"]["notes"])


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"groups_by": ["colour"]}, "environment.columns.colour"),
        ({"groups_by": ["years"]}, "environment.columns.years"),
        ({"groups_by": []}, "environment.groups_by"),
        ({"columns": {"sex": COLUMNS["sex"]}}, "environment.columns"),
        ({"columns": {**COLUMNS, "rating": {"low": 0, "high": 10}}}, "environment.columns.rating"),
        ({"columns": {**COLUMNS, "years": {"low": 20, "high": 0}}}, "environment.columns.years.low"),
        ({"columns": {**COLUMNS, "years": {"low": 0}}}, "environment.columns.years"),
        ({"columns": {**COLUMNS, "years": {"low": 0, "hihg": 10}}}, "environment.columns.years.hihg"),
        ({"columns": {**COLUMNS, "degree": {"values": ["none", "ba"]}}}, "degree"),
        ({"columns": {**COLUMNS, "degree": {"low": 0, "high": 1}}}, "degree"),
        ({"order": "file"}, "environment.per_round"),
        ({"round": "day"}, "environment.round"),
        ({"low": 10.0}, "environment.low"),
        ({"minimum": 300}, "environment.minimum"),
    ],
)
def test_mistakes_of_a_schema_are_named(change, path):
    with pytest.raises(FairveilError) as caught:
        run("random", people(**change), 10)
    assert caught.value.path == path


# Items ---------------------------------------------------------------------------------------------------------------


def shop(**more):
    rng = generator(7, "shop")
    price, kind = rng.uniform(0, 10, 300), rng.choice(["a", "b"], 300)
    sold = (rng.random(300) < 0.1 + 0.07 * price).astype(int)
    table = {"price": price.tolist(), "kind": kind.tolist(), "sold": sold.tolist()}
    columns = {"price": {"low": 0, "high": 10}, "kind": {"values": ["a", "b"]}}
    return {"name": "items", "file": table, "outcome": "sold", "columns": columns, "actions": 4, **more}


def test_items_of_a_table_are_shown_and_pay_what_is_recorded():
    world = build("environment", shop(order="file"), "environment")
    place = world.prepare(generator(1))
    rewards = [place.reward(place.show(t, generator(2)), arm, generator(3)) for t in range(75) for arm in range(4)]
    assert rewards == shop()["file"]["sold"]
    assert (np.linalg.norm(world.contexts, axis=1) <= 1 + 1e-12).all()
    drawn = build("environment", shop(), "environment").prepare(generator(1))
    shown = drawn.show(7, generator(2))
    again = drawn.show(7, generator(9))
    assert all(np.array_equal(a.features, b.features) for a, b in zip(shown.candidates, again.candidates))


def test_exposure_on_items_learns_more_than_chance_and_keeps_its_promise():
    """2,000 decisions without optimism: fairness regret below that of random choice."""
    policy = {"name": "fairx-linucb", "width": 0.0}
    regret = [run(p, shop(), 2000)["metrics"]["fairness_regret"][-1] for p in (policy, {"name": "random"})]
    assert regret[0] < 0.8 * regret[1]
    private = {"name": "batched-priv-fairx", "epsilon": 1.0, "delta": 1e-5}
    result = run(private, shop(agents=2, declared="drafted"), 60)
    assert result["guarantee"]["epsilon"] == pytest.approx(1.0)
    assert any("read off" in note for note in result["guarantee"]["notes"])


@pytest.mark.parametrize(
    ("change", "rounds", "path"),
    [
        ({"order": "file"}, 76, "rounds"),
        ({"actions": 301}, 5, "environment.actions"),
        ({"columns": {}}, 5, "environment.columns"),
        ({"low": 1.0}, 5, "environment.low"),
        ({"merit": 3}, 5, "environment.merit"),
    ],
)
def test_mistakes_of_items_are_named(change, rounds, path):
    with pytest.raises(FairveilError) as caught:
        run({"name": "fairx-linucb"}, shop(**change), rounds)
    assert caught.value.path == path


# A class of one's own ------------------------------------------------------------------------------------------------


@configuration
class Echo(ArmEnvironment):
    """The rewards of a recorded table, without laws."""

    arms: Count = described("number of arms", default=2)

    @property
    def _table(self):
        rows = generator(1, "echo").random((400, self.arms))
        return RecordedArms(rewards=tuple(map(tuple, rows.tolist())))

    @property
    def true_means(self):
        return self._table.true_means

    def reward(self, round, arm, rng):
        return float(self._table._raw[round.index, arm])


@pytest.mark.parametrize("name", ["ucb", "private-nash", "adap-ucb"])
def test_a_world_without_laws_is_played_in_steps_with_the_decisions_of_compiled_code(name):
    register("environment", "echo")(Echo)
    policy = {"name": name} if name == "ucb" else {"name": name, "epsilon": 1.0}
    table = [list(row) for row in Echo()._table.rewards]
    mine = run(policy, {"name": "echo"}, 400)["metrics"]
    compiled = run(policy, {"name": "table", "rewards": table}, 400)["metrics"]
    assert mine["pull_share"] == compiled["pull_share"]
    assert mine["average_regret"] == pytest.approx(compiled["average_regret"])


def test_a_world_without_rewards_is_named():
    class Silent(ArmEnvironment):
        arms, true_means = 2, np.array([0.1, 0.2])

    with pytest.raises(ContractError, match="reward"):
        Silent().reward(Round(0), 0, generator(1))
