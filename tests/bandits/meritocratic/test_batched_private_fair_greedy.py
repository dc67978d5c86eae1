"""Batched-Private-Fair-Greedy: batches by decision, budgets, bounds, late rewards, and what it achieves."""

import math
from dataclasses import replace

import numpy as np
import pytest

import fairveil
from fairveil import registry
from fairveil.bandits.environments.base import Environment
from fairveil.bandits.facts import fitted
from fairveil.bandits.feedback import NEVER, Lateness
from fairveil.bandits.meritocratic import BatchedPrivateFairGreedy, PrivateFairGreedy, Scaling
from fairveil.bandits.meritocratic.estimate import believed_rows
from fairveil.bandits.protocol import Block, Candidate, Feedback, Round
from fairveil.bandits.simulate import Case, Streams, start_run, walk
from fairveil.errors import InputError, PrivacyError, SpecError
from fairveil.privacy.conversions import gdp_delta
from fairveil.privacy.noise import SeededNoise, ZeroNoise
from fairveil.randomness import generator


def runner_of(policy, world, seed, noise):
    return start_run(Case.of(policy, world, 1), Streams.of(seed, 0, noise))


SMALL = {"name": "synthetic-census", "people_per_group": 800}
RUGGED = {**SMALL, "candidates": 2, "presence": 0.6, "joins": {"g3": 60}, "delay": 15.0, "missing": 0.1}


def world_of(table):
    registry.load()
    return registry.build("environment", table, "environment")


def play(runner, world, rounds, seed=1, size=50):
    stream = generator(seed, "world")
    slots = [runner.play(world.draw(first, min(size, rounds - first), stream))[0] for first in range(0, rounds, size)]
    return np.concatenate(slots)


def spec(policy, rounds=4000, environment=None, **more):
    return {
        "task": "bandit", "policy": policy, "environment": environment or SMALL, "rounds": rounds, "seed": 5,
        "checkpoints": [rounds], **more,
    }  # fmt: skip


BATCHED = {"name": "batched-private-fair-greedy", "epsilon": 1.0, "delta": 1e-5}
PRIVATE = {"name": "private-fair-greedy", "epsilon": 15.0, "delta": 0.1, "bound": 3.5}


def test_zero_noise_batches_equal_a_direct_computation():
    world = world_of(SMALL)
    policy = fitted(BatchedPrivateFairGreedy(epsilon=5.0, delta=1e-5, first_batch=200), world, 400)
    chunk = world.draw(0, 200, generator(1, "world"))
    runner = runner_of(policy, world, 2, ZeroNoise())
    slots, _ = runner.play(chunk)
    rows = np.arange(200)
    direct = policy.sum_rows(chunk.features[rows, slots], chunk.group[rows, slots], chunk.reward[rows, slots])
    weight = 200 / (200 + policy.sums.expected_std(1) ** 2)
    np.testing.assert_allclose(runner.state["moments"], weight * direct.T @ direct, atol=0.05)
    table = runner.state["tables"]
    assert (np.diff(table, axis=1) >= -1e-12).all()
    assert table.min() >= 0
    assert table.max() <= 1


def test_no_row_exceeds_the_bound_however_wild_the_candidate():
    world = world_of(SMALL)
    policy = fitted(BatchedPrivateFairGreedy(epsilon=1.0, delta=1e-5), world, 100)
    wild = np.full((3, 24), 1e9)
    scales = ((0.0, 1.0), (np.full(20, 3.0), np.full(20, 0.5)))  # as declared, and as after a rescaling
    for shift, stretch in scales:
        rows = policy.sum_rows(wild, np.array([0, 1, 2]), np.array([1e12, -1e12, 0.0]), shift, stretch)
        assert (np.linalg.norm(rows, axis=1) <= policy.sums.bound * (1 + 1e-12)).all()


def test_the_bound_is_a_public_input_without_default():
    with pytest.raises(SpecError, match="scaling"):
        BatchedPrivateFairGreedy(epsilon=1.0, delta=1e-5, groups=2).start()


def test_a_scaling_comes_from_the_public_schema_and_not_from_candidates():
    one, two = (world_of({**SMALL, "people_seed": seed}) for seed in (1, 2))
    made = [fitted(BatchedPrivateFairGreedy(epsilon=1.0, delta=1e-5), world, 100).scaling for world in (one, two)]
    assert made[0] == made[1]
    assert made[0].norm == pytest.approx(math.sqrt(20))


def test_a_scale_that_is_far_off_is_mended_once_and_old_rows_do_not_come_back():
    wrong = {"columns": [0, 1], "centre": [8.0, 0.0], "spread": [1.0, 1.0], "reward_bound": 4.0, "reward_centre": 1.0}
    world = world_of({"name": "gaussian", "weights": [1.0, 0.5], "means": [[0.0, 0.0], [1.0, 0.0]]})
    table = {**BATCHED, "epsilon": 20.0, "scaling": {**wrong, "norm": 10.0}}
    policy = fitted(registry.build("policy", table, "policy"), world, 4000)
    runner = start_run(Case.of(policy, world, 4000), Streams.of(1, 0))
    seen = []
    for stop in range(50, 4001, 50):
        runner.advance(stop)
        seen.append(runner.state)
    at = [bool(state["rescaled"]) for state in seen]
    assert at == sorted(at)
    assert at[-1]
    first = seen[at.index(True)]
    assert first["rows"] == 0
    assert -9 < first["shift"][0] < -5, "the chosen lie above the middle of all, which is at -7.5"
    assert all((state["shift"] == first["shift"]).all() for state in seen[at.index(True) :])


def test_scaling_errors_name_the_key():
    for wrong in (
        {"kind": "magic"},
        {"columns": [99]},
        {"centre": [1.0]},
        {"norms": 2.0},
        {"columns": [0], "spread": [0.0]},
    ):
        with pytest.raises(SpecError, match="scaling"):
            fairveil.run(spec({**BATCHED, "scaling": wrong}))


def test_budgets_add_up_to_the_promise():
    policy = fitted(BatchedPrivateFairGreedy(epsilon=1.0, delta=1e-5), world_of(SMALL), 100)
    parts = [part.event for part in policy.event().events]
    total = math.hypot(*(part.mu for part in parts))
    assert total == pytest.approx(policy.mu, rel=1e-9)
    discrete = sum((1 + math.e) * part.draws * 0.021 / part.grid_sigma**2 for part in parts)
    assert gdp_delta(total, 1.0) + discrete <= 1e-5


def test_sound_beats_printed_and_batched_beats_both():
    regret = {
        name: fairveil.run(spec(policy, runs=2))["metrics"]["fair_regret"][-1]
        for name, policy in {
            "printed": {**PRIVATE, "variant": "printed"},
            "sound": PRIVATE,
            "batched": {**BATCHED, "epsilon": 15.0, "delta": 0.1},
        }.items()
    }
    # Measured 1,130 / 440 / 70 at this size; random choice has 1,200.
    assert regret["batched"] < 0.5 * regret["sound"] < 0.5 * regret["printed"]
    assert regret["batched"] < 0.15 * regret["printed"]


def test_batched_at_strict_privacy_is_far_below_random_and_near_parity():
    metrics = fairveil.run(spec(BATCHED, 20_000, {"name": "synthetic-census"}, runs=2))["metrics"]
    assert metrics["fair_regret"][-1] < 0.1 * 6000
    assert metrics["parity_gap"][-1] < 0.05
    assert metrics["theta_error"][-1] < 0.05
    assert metrics["spent"]["epsilon"] == 1.0


def test_late_missing_absent_and_joining_still_learn_and_small_groups_say_how_unsure_they_are():
    result = fairveil.run(spec({**BATCHED, "epsilon": 5.0}, 4000, {**RUGGED, "joins": {"g3": 3000}}, runs=2))
    assert result["spec"]["policy"]["totals"] == "noisy"
    assert result["metrics"]["fair_regret"][-1] < 0.35 * 4000 * 0.33
    unsure = result["metrics"]["rank_uncertainty"]
    assert set(unsure) == {"g1", "g2", "g3", "g4"}
    assert all(0 < value <= 0.151 for value in unsure.values())
    assert set(result["metrics"]["unsure_groups"]) == {name for name, value in unsure.items() if value > 0.05}


def test_a_group_that_nobody_was_seen_of_keeps_its_doubt():
    world = world_of({**SMALL, "joins": {"g4": 10**6}})
    policy = fitted(BatchedPrivateFairGreedy(epsilon=5.0, delta=1e-5, first_batch=500), world, 2000)
    runner = runner_of(policy, world, 1, SeededNoise(1))
    play(runner, world, 2000)
    unsure = runner.uncertainty()
    assert unsure[3] > 0.1 > unsure[0]


def test_public_totals_are_refused_where_a_group_may_be_absent():
    with pytest.raises(SpecError, match="totals"):
        fairveil.run(spec({**BATCHED, "totals": "public"}, 100, {**SMALL, "presence": 0.5}))


def test_same_seed_same_result_and_policies_see_the_same_candidates():
    first, second = (fairveil.run(spec(BATCHED, 500)) for _ in range(2))
    assert first["metrics"] == second["metrics"]


def test_memory_does_not_grow_with_the_horizon():
    world = world_of(SMALL)
    policy = fitted(BatchedPrivateFairGreedy(epsilon=5.0, delta=1e-5, window=500), world, 10_000)
    runner = runner_of(policy, world, 1, SeededNoise(1))
    sizes = []
    stream = generator(1, "world")
    for first in range(0, 10_000, 1000):
        runner.play(world.draw(first, 1000, stream))
        sizes.append(sum(array.nbytes for array in runner.state.values()))
    assert max(sizes) <= 500 * 4 * (20 + 1) * 8 + 20_000


# Rows and people belong to the batch of their decision ---------------------------------------------------------------

SCALING = Scaling(columns=(0, 1), centre=(0.0, 0.0), spread=(0.5, 0.5), norm=1.4, reward_centre=0.0, reward_bound=1.0)


def live(**changes):
    facts = {"epsilon": 1.0, "delta": 1e-5, "groups": 2, "features": 2, "scaling": SCALING, "first_batch": 8, **changes}
    return BatchedPrivateFairGreedy(**facts)


def answers(count, first=0, reward=0.3, seed=3):
    rng = np.random.default_rng(seed)
    out = []
    for index in range(first + count):
        shown = Round(index, tuple(Candidate(group, rng.uniform(-0.5, 0.5, 2)) for group in (0, 1)))
        out.append(Feedback(index, index % 2, reward, shown))
    return out[first:]


def test_a_batch_is_due_when_its_rounds_are_settled():
    policy = live()
    state = policy.start()
    assert policy.block(state) == Block("batch-0", 0, 8)
    assert policy.due(state, 7) is None
    assert policy.due(state, 8) == "batch-0"
    state = policy.release(policy.learn_all(state, answers(8)), ZeroNoise())
    assert policy.block(state) == Block("batch-1", 8, 20)


def test_rounds_are_taken_once_in_their_order_and_never_beyond_the_open_batch():
    policy, given = live(), answers(12)
    state = policy.learn_all(policy.start(), given[:5])
    for again in (given[4], given[0]):
        assert policy.learn(state, again) is state, "a queue may deliver twice"
    with pytest.raises(InputError, match="later batch"):
        policy.learn(state, given[8])
    state = policy.release(policy.learn_all(state, given[5:8]), SeededNoise(1))
    assert policy.learn(state, given[7]) is state, "its batch is released"
    assert int(policy.learn(state, given[9])["next"]) == 10, "round 8 settled unused"


def test_every_row_and_every_person_is_in_one_release():
    """No row and no person of a released (or lost) batch is in what later batches release."""
    policy, given = live(), answers(20)
    whole, only = policy.start(), policy.start()
    for first, last in ((0, 8), (8, 20)):
        whole = policy.learn_all(whole, given[first:last])
        assert whole["sum/rows"] == last
        assert len(whole["people"]) == 2 * (last - first)
        whole = policy.release(whole, ZeroNoise())
        assert len(whole["people"]) == 0
        assert not whole["sum/open"].any()
    only = policy.lost(policy.learn_all(only, given[:8]), "batch-0")
    assert not only["sum/open"].any()
    assert len(only["people"]) == 0
    only = policy.release(policy.learn_all(only, given[8:]), ZeroNoise())
    assert (only["sum/last"] == whole["sum/last"]).all(), "the second batch holds its own rows only"
    exact = policy.sum_rows(
        np.stack([f.round.candidates[f.arm].features for f in given[8:]]),
        np.array([f.round.candidates[f.arm].group for f in given[8:]]),
        np.array([f.reward for f in given[8:]]),
        whole["shift"],
        whole["stretch"],
    )
    np.testing.assert_allclose(policy.sums.grid.publish(whole["sum/last"]), exact.T @ exact, atol=1e-3)


def test_a_round_that_nobody_answered_shows_its_people_and_no_row():
    policy, given = live(), answers(8)
    silent = [replace(f, reward=None) if f.index % 2 else f for f in given]
    full, half = (policy.learn_all(policy.start(), each) for each in (given, silent))
    assert (full["people"] == half["people"]).all()
    assert full["sum/rows"] == 8
    assert half["sum/rows"] == 4
    released = [policy.release(state, ZeroNoise()) for state in (full, half)]
    assert released[0]["rows"] == released[1]["rows"], "batches are weighed by their rounds, not by who answered"


def test_learn_all_is_learn_one_by_one():
    policy, given = live(), [replace(f, reward=None) if f.index == 3 else f for f in answers(8)]
    one = policy.start()
    for feedback in given:
        one = policy.learn(one, feedback)
    at_once = policy.learn_all(policy.start(), given)
    assert all(np.array_equal(one[name], at_once[name]) for name in one)


@pytest.mark.parametrize("treat", ["public", "default", "private"])
def test_a_delay_that_depends_on_who_is_chosen_shows_in_no_exact_count(treat):
    """One candidate of round 3 changes, and with it when (or whether) the round is answered: counts stay the same.

    Under public arrivals the time of the release may move, and nothing else; under hidden ones not even that.
    """
    policy, rounds = live(first_batch=16), 40
    seen = []
    for silent in (False, True):
        world = Recorded(rounds, silent)
        lateness = ByPerson(window=6, treat=treat)
        streams = Streams.of(1, 0, SeededNoise(2))
        steps = list(walk(policy, world, rounds, streams, lateness))
        after = next(step.state for step in steps if step.state["batch"] == 1)
        times = [index for index, step in enumerate(steps) if step.state["batch"] == 1]
        seen.append((after, times[0]))
    first, second = (state for state, _ in seen)
    for name in ("rows", "noise_variance", "batch", "end"):
        assert np.array_equal(first[name], second[name]), name
    # of noisy counts by a sum whose rounding follows the bins: the same number of people up to that
    np.testing.assert_allclose(first["rank_std"], second["rank_std"], rtol=1e-12)
    assert (seen[0][1] == seen[1][1]) or treat == "public"


class ByPerson(Lateness):
    """The candidate of round 3 with a high first feature never answers; all others answer at once."""

    def wait(self, round, arm, rng):
        return NEVER if round.index == 3 and round.candidates[0].features[0] > 0.4 else 0


class Recorded(Environment):
    family = "meritocratic"

    def __init__(self, rounds, changed):
        self.given = answers(rounds)
        self.changed = changed

    def show(self, index, rng):
        shown = self.given[index].round
        if index == 3 and self.changed:
            return Round(3, (Candidate(0, np.array([0.5, 0.5])), *shown.candidates[1:]))
        return shown

    def reward(self, round, arm, rng):
        return 0.2


@pytest.mark.parametrize("treat", ["public", "default", "private"])
def test_a_reward_shows_in_nothing_before_its_batch_is_released(treat):
    """Noise and coins fixed: one reward inside an open batch changes no decision and no public byte until then."""
    policy, runs = live(first_batch=16), []
    for reward in (0.2, -0.9):
        world = Recorded(40, False)
        world.reward = lambda round, arm, rng, reward=reward: reward if round.index == 3 else 0.2
        runs.append(list(walk(policy, world, 40, Streams.of(1, 0, SeededNoise(2)), Lateness(window=6, treat=treat))))
    last = next(index for index, step in enumerate(runs[0]) if step.state["batch"] == 1)
    for first, second in zip(runs[0][:last], runs[1][:last]):
        assert first.decision.arm == second.decision.arm
        assert all(np.array_equal(first.state[name], second.state[name]) for name in policy.released)
    assert not np.array_equal(runs[0][last].state["sum/last"], runs[1][last].state["sum/last"])


def test_few_answers_are_noticed_through_the_noise_only():
    world = world_of(SMALL)
    policy = fitted(BatchedPrivateFairGreedy(epsilon=5.0, delta=1e-5), world, 20_000)
    for missing, low, high in ((0.0, 1.0, 1.0), (0.7, 0.2, 0.35)):
        case = Case.of(policy, world, 20_000, lateness=Lateness.of({"delay": 0, "missing": missing}))
        runner = start_run(case, Streams.of(1, 0))
        for stop in range(2000, 20_001, 2000):
            runner.advance(stop)
        moments = policy._moments(runner.state)
        assert low <= believed_rows(moments) / moments.rows <= high


def test_ties_and_uniform_rounds_state_their_true_propensity():
    policy, rng = live(), generator(1)
    twins = Round(0, (Candidate(0, np.array([0.1, 0.2])), Candidate(0, np.array([0.1, 0.2]))))
    assert policy.decide(policy.start(), twins, rng).propensity == 0.5
    state = policy.release(policy.learn_all(policy.start(), answers(8)), SeededNoise(1))
    assert policy.decide(state, replace(twins, index=8), rng).propensity == 0.5
    apart = Round(8, (Candidate(0, np.array([0.5, 0.5])), Candidate(0, np.array([-0.5, -0.5]))))
    assert policy.decide(state, apart, rng).propensity == 1.0


def test_a_stored_release_of_another_batch_is_refused():
    policy = live()
    state = policy.learn_all(policy.start(), answers(8))
    value = policy.draw(state, SeededNoise(1))
    after = policy.adopt(state, "batch-0", value)
    assert all((after[name] == array).all() for name, array in policy.release(state, SeededNoise(1)).items())
    with pytest.raises(PrivacyError, match="another block"):
        policy.adopt(after, "batch-1", value)
    with pytest.raises(PrivacyError, match="another block"):
        live(first_batch=9).adopt(live(first_batch=9).start(), "batch-0", value)


def test_the_guarantee_says_what_is_public_and_what_was_settled_after_looking():
    notes = live().guarantee().notes
    assert "groups" in notes[0]
    assert "handed over" in notes[0]
    assert any("reward arrived is public" in note for note in notes)
    assert not any("number" in note or "how many candidates of each" in note for note in notes)
    assert any("how many candidates of each group" in note for note in live(totals="public").guarantee().notes)
    looked = replace(SCALING, caveats=("the norm was settled after runs on these records",))
    assert "the norm was settled after runs on these records" in live(scaling=looked).guarantee().notes
    seen = fitted(BatchedPrivateFairGreedy(epsilon=1.0, delta=1e-5), world_of(SMALL), 100)
    assert any("range of the reward" in note for note in seen.guarantee().notes)
    given = {"reward_bound": 1.0}
    result = fairveil.run(spec({**BATCHED, "scaling": given}, 50))
    assert not any("range of the reward" in note for note in result["guarantee"]["notes"])


def test_totals_that_nobody_declared_are_noisy_in_both_private_policies():
    assert live().histogram.total == "noisy"
    assert live(totals="public").histogram.total == "public"
    exact = PrivateFairGreedy(epsilon=1.0, delta=1e-5, bound=1.0, rounds=10)
    assert exact.draws_a_count == 2
    assert replace(exact, totals="public").draws_a_count == 1
