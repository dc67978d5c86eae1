"""The compiled simulator against the step interface, decision by decision; worlds in which agents differ; results."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import fairveil
from fairveil import registry
from fairveil.bandits.environments.exposure import ExposureWorld, decisions_until
from fairveil.bandits.exposure import (
    BatchedPrivFairx,
    FairxLinUcb,
    FedFairx,
    PrivFairx,
    PrivFairxDubeyPentland,
    PrivFairxPrinted,
)
from fairveil.bandits.exposure.family import ExposureFamily
from fairveil.bandits.feedback import AT_ONCE, Lateness
from fairveil.bandits.simulate import Case, Streams, simulate, walk
from fairveil.configuration import describe
from fairveil.errors import HorizonError, InputError, SpecError
from fairveil.fairness.exposure import fair_law


def simulated(policy, world, spec, run, lateness=AT_ONCE):
    return simulate(Case(spec, policy, world, ExposureFamily(), lateness), {"first": run, "last": run + 1})


WORLD = {"name": "exposure", "agents": 3, "actions": 4, "dimension": 2}
FACTS = {"agents": 3, "dimension": 2, "horizon": 40}
PRIVATE = {"epsilon": 2.0, "delta": 0.1}
POLICIES = {
    "alone": lambda: FairxLinUcb(**FACTS),
    "federated": lambda: FedFairx(**FACTS),
    "federated-frozen": lambda: FedFairx(**FACTS, local_raw=False, schedule="doubling"),
    "federated-raw-trigger": lambda: FedFairx(**FACTS, schedule={"name": "determinant", "raw": True, "threshold": 5.0}),
    "federated-determinant": lambda: FedFairx(**FACTS, schedule={"name": "determinant", "threshold": 5.0}),
    "sound": lambda: PrivFairx(**FACTS, **PRIVATE),
    "sound-determinant": lambda: PrivFairx(**FACTS, **PRIVATE, schedule={"name": "determinant", "threshold": 3.0}),
    "printed": lambda: PrivFairxPrinted(**FACTS, **PRIVATE),
    "printed-floor": lambda: PrivFairxPrinted(**FACTS, **PRIVATE, definite="floor"),
    "as-read": lambda: PrivFairxDubeyPentland(**FACTS, **PRIVATE),
    "batched": lambda: BatchedPrivFairx(**FACTS, **PRIVATE, schedule={"name": "growing", "factor": 1.5}),
    "batched-raw": lambda: BatchedPrivFairx(**FACTS, **PRIVATE, local_raw=True, schedule="doubling"),
    "personal": lambda: BatchedPrivFairx(**FACTS, **PRIVATE, personal=True, schedule="doubling"),
    "lazy": lambda: PrivFairx(**FACTS, **PRIVATE, width=0.0),
}


def step_by_step(policy, world, rounds, seed, lateness=AT_ONCE, noise="seeded"):
    """Fairness and reward regret, pulls and synchronisations of one run through the protocol."""
    decisions = decisions_until(rounds, world.last_rounds(rounds))
    place = world.prepare(Streams.of(seed, 0).world)
    fairness, reward = np.zeros(world.agents), np.zeros(world.agents)
    pulls = np.zeros(world.actions, np.int64)
    steps = walk(policy, world, decisions, Streams.of(seed, 0, noise), lateness)
    for step in steps:
        means = np.array([candidate.features for candidate in step.round.candidates]) @ np.array(place.theta)
        fair = fair_law(means, place.merits()[step.round.agent])
        fairness[step.round.agent] += np.abs(fair - step.decision.probabilities).sum()
        reward[step.round.agent] += (fair - step.decision.probabilities) @ means
        pulls[step.decision.arm] += 1
        assert step.decision.propensity == step.decision.probabilities[step.decision.arm]
    return fairness, reward, pulls, int(step.state["syncs"])


def spec_of(seed, rounds, *checkpoints):
    return {"seed": seed, "rounds": rounds, "checkpoints": [*checkpoints, rounds], "noise": "seeded"}


@pytest.mark.parametrize("name", POLICIES)
def test_compiled_equals_step_by_step_noise_included(name):
    policy, world = POLICIES[name](), ExposureWorld(agents=3, actions=4, dimension=2)
    fairness, reward, pulls, syncs = step_by_step(policy, world, 40, 9)
    part = simulated(policy, world, spec_of(9, 40, 7), 0)
    assert part["pulls"].tolist() == pulls.tolist()
    assert part["syncs"] == syncs
    np.testing.assert_allclose(part["fairness"][-1], fairness, rtol=1e-9)
    np.testing.assert_allclose(part["reward"][-1], reward, rtol=1e-9, atol=1e-12)


DIFFERENT = ExposureWorld(
    agents=3,
    actions=4,
    dimension=2,
    merit=(("exp", 5.0), ("affine", 1.0, 0.5), ("power", 2.0)),
    contexts=("uniform", "sphere", "raw"),
    agent_rounds=(40, 11, 25),
)


def fitted_to(world, policy):
    changes = {"merit": world.merit, "agent_rounds": list(world.agent_rounds)}
    return registry.build("policy", {**describe(policy), **changes}, "policy")


@pytest.mark.parametrize("name", ["federated", "printed", "batched", "personal"])
def test_compiled_equals_step_by_step_when_agents_differ(name):
    policy = fitted_to(DIFFERENT, POLICIES[name]())
    fairness, _, pulls, syncs = step_by_step(policy, DIFFERENT, 40, 3)
    part = simulated(policy, DIFFERENT, spec_of(3, 40), 0)
    assert part["pulls"].tolist() == pulls.tolist()
    assert pulls.sum() == 40 + 11 + 25
    assert part["syncs"] == syncs
    np.testing.assert_allclose(part["fairness"][-1], fairness, rtol=1e-9)


LATE = {
    "fixed": Lateness("fixed", (10.0,), 10),
    "at once, window": Lateness("fixed", (0.0,), 7, treat="default"),
    "uniform": Lateness("uniform", (0.0, 30.0), 20),
    "missing": Lateness("geometric", (6.0,), 15, missing=0.3),
    "default": Lateness("geometric", (6.0,), 15, missing=0.3, treat="default", default=0.2),
    "never back": Lateness("fixed", (500.0,), 500),
}


@pytest.mark.parametrize("differ", [False, True])
@pytest.mark.parametrize("late", LATE)
def test_late_feedback_is_compiled_as_it_is_played(late, differ):
    world = DIFFERENT if differ else ExposureWorld(agents=3, actions=4, dimension=2)
    policy = BatchedPrivFairx(**FACTS, **PRIVATE, schedule={"name": "growing", "factor": 1.5}, outstanding=3)
    policy = fitted_to(world, policy) if differ else policy
    family = ExposureFamily()
    case = Case(spec_of(4, 40), policy, world, family, LATE[late])
    assert policy.simulator(case, case.streams(0)) is not None
    fairness, _, pulls, syncs = step_by_step(policy, world, 40, 4, LATE[late])
    part = simulated(policy, world, spec_of(4, 40, 11, 23), 0, LATE[late])
    assert part["pulls"].tolist() == pulls.tolist()
    assert part["syncs"] == syncs
    np.testing.assert_allclose(part["fairness"][-1], fairness, rtol=1e-9)


@pytest.mark.parametrize("name", ["alone", "sound", "personal"])
def test_policies_without_a_compiled_clock_play_late_feedback_in_steps(name):
    policy, world = POLICIES[name](), ExposureWorld(agents=3, actions=4, dimension=2)
    fairness, _, _, syncs = step_by_step(policy, world, 20, 4, LATE["missing"])
    part = simulated(policy, world, spec_of(4, 20), 0, LATE["missing"])
    np.testing.assert_allclose(part["fairness"][-1], fairness, rtol=1e-12)
    assert part["syncs"] == syncs


@pytest.mark.parametrize(
    "name", ["alone", "federated", "federated-frozen", "sound", "printed", "printed-floor", "lazy"]
)
def test_a_run_compiled_as_a_whole_equals_its_stretches(name, monkeypatch):
    policy, world = POLICIES[name](), ExposureWorld(agents=3, actions=4, dimension=2)
    whole = simulated(policy, world, spec_of(5, 37, 9), 1)
    monkeypatch.setattr(type(policy), "planned", lambda *facts: None)
    stretches = simulated(policy, world, spec_of(5, 37, 9), 1)
    assert whole["syncs"] == stretches["syncs"]
    for key in ("fairness", "reward", "theta_error", "pulls", "exposure", "merit"):
        np.testing.assert_allclose(whole[key], stretches[key], rtol=1e-10, err_msg=key)


NUMPY = {
    "alone": FairxLinUcb,
    "federated": FedFairx,
    "sound": lambda **facts: PrivFairx(**facts, **PRIVATE),
    "batched": lambda **facts: BatchedPrivFairx(**facts, **PRIVATE, schedule="doubling"),
    "personal": lambda **facts: BatchedPrivFairx(**facts, **PRIVATE, schedule="doubling", personal=True),
}


@pytest.mark.parametrize("name", NUMPY)
def test_an_implementation_in_plain_numpy_finds_the_same_regret(name):
    path = Path(__file__).parents[3] / "bench" / "exposure_numpy.py"
    found = importlib.util.spec_from_file_location("exposure_numpy", path)
    plain = importlib.util.module_from_spec(found)
    found.loader.exec_module(plain)
    policy, world = NUMPY[name](agents=3, dimension=4, horizon=60), ExposureWorld(agents=3, dimension=4)
    part = simulated(policy, world, spec_of(2, 60), 0)
    np.testing.assert_allclose(part["fairness"][-1], plain.play(policy, 60, 2), rtol=1e-6)


def spec(policy, rounds=60, runs=2, **more):
    return {"task": "bandit", "policy": policy, "environment": WORLD, "rounds": rounds, "runs": runs, "seed": 4, **more}


@pytest.mark.parametrize("name", ["fairx-linucb", "fed-fairx", "priv-fairx", "batched-priv-fairx"])
def test_a_spec_runs_and_repeats(name):
    table = {"name": name} | (PRIVATE if "priv" in name else {})
    first, second = fairveil.run(spec(table)), fairveil.run(spec(table))
    assert first["metrics"] == second["metrics"]
    assert fairveil.run(first["spec"])["spec"] == first["spec"]
    metrics = first["metrics"]
    for key in ("fairness_regret", "fairness_regret_sum", "reward_regret"):
        assert len(metrics[key]) == len(metrics[f"{key}_std"]) == len(first["spec"]["checkpoints"])
    np.testing.assert_allclose(metrics["fairness_regret_sum"], 3 * np.array(metrics["fairness_regret"]))
    for key in ("selection_share", "exposure_share", "merit_share"):
        assert sum(metrics[key]) == pytest.approx(1.0)
    assert metrics["messages"]["count"] == 3 * metrics["synchronisations"]
    assert metrics["messages"]["bytes"] == metrics["messages"]["count"] * 8 * (7 if name.startswith("batched") else 6)
    spent = metrics["spent"]["epsilon"]
    assert spent == ([2.0] * 3 if "priv" in name else [0.0] * 3)
    assert first["meta"]["simulated"]
    assert (first["guarantee"] is None) == ("priv" not in name)


def test_another_seed_gives_another_run_and_more_runs_keep_the_first():
    base = fairveil.run(spec({"name": "fed-fairx"}))["metrics"]["fairness_regret_runs"]
    more = fairveil.run(spec({"name": "fed-fairx"}, runs=3))["metrics"]["fairness_regret_runs"]
    assert more[:2] == base
    assert fairveil.run({**spec({"name": "fed-fairx"}), "seed": 5})["metrics"]["fairness_regret_runs"] != base


def test_policies_see_the_same_world_so_that_runs_can_be_paired():
    alone = fairveil.run(spec({"name": "fairx-linucb"}))["metrics"]
    together = fairveil.run(spec({"name": "fed-fairx"}))["metrics"]
    assert alone["merit_share"] == together["merit_share"]


def test_secure_noise_runs_the_policy_itself():
    result = fairveil.run(spec({"name": "batched-priv-fairx", **PRIVATE, "schedule": "doubling"}, noise="secure"))
    assert not result["meta"]["simulated"]
    assert result["metrics"]["synchronisations"] == 6


def test_the_random_policy_and_sums_before_any_synchronisation():
    result = fairveil.run(spec({"name": "random"}, rounds=30))["metrics"]
    assert "theta_error" not in result
    assert max(result["exposure_share"]) == pytest.approx(0.25)
    alone = fairveil.run(spec({"name": "fed-fairx", "schedule": "never"}))["metrics"]
    assert alone["fairness_regret"] == fairveil.run(spec({"name": "fairx-linucb"}))["metrics"]["fairness_regret"]
    silent = fairveil.run(spec({"name": "priv-fairx", **PRIVATE, "schedule": "never"}))["metrics"]
    assert silent["spent"]["epsilon"] == [0.0] * 3


def test_one_agent_is_a_federation_too():
    world = {**WORLD, "agents": 1}
    for table in ({"name": "fed-fairx"}, {"name": "batched-priv-fairx", **PRIVATE, "personal": True}):
        result = fairveil.run({**spec(table), "environment": world})
        assert result["metrics"]["fairness_regret"][-1] > 0
    # Personal learning of a single agent has nobody to listen to: it is exactly learning alone, up to the grid.
    alone = fairveil.run({**spec({"name": "fairx-linucb"}), "environment": world})["metrics"]["fairness_regret"]
    np.testing.assert_allclose(result["metrics"]["fairness_regret"], alone, rtol=2e-2)


def test_actions_are_chosen_as_often_as_the_laws_say():
    metrics = fairveil.run(spec({"name": "fairx-linucb"}, rounds=400))["metrics"]
    np.testing.assert_allclose(metrics["selection_share"], metrics["exposure_share"], atol=0.06)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"agents": 4}, "policy.agents"),
        ({"dimension": 3}, "policy.dimension"),
        ({"horizon": 10}, "policy.horizon"),
        ({"width": -1.0}, "policy.width"),
        ({"schedule": {"name": "growing", "first": 0}}, "schedule.first"),
        ({"merit": ["exp", -1]}, "merit.rate"),
        ({"merit": [["exp", 1], ["exp", 2]]}, "merit"),
        ({"personal": True}, "policy.personal"),
    ],
)
def test_wrong_specs_name_the_place(change, path):
    with pytest.raises((SpecError, HorizonError), match=path):
        fairveil.run(spec({"name": "fed-fairx", **change}))


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"contexts": "cube"}, "contexts"),
        ({"contexts": ["uniform"]}, "contexts"),
        ({"theta": [1.0]}, "theta"),
        ({"agent_rounds": [3]}, "agent_rounds"),
        ({"noise": -0.1}, "environment.noise"),
        ({"merit": ["step", 1]}, "merit"),
        ({"merit": 3}, "merit"),
    ],
)
def test_wrong_worlds_name_the_place(change, path):
    with pytest.raises(SpecError, match=path):
        fairveil.run({**spec({"name": "fed-fairx"}), "environment": {**WORLD, **change}})


def test_rounds_that_do_not_fit_are_refused():
    policy = PrivFairx(**FACTS, **PRIVATE, strict=True)
    world = ExposureWorld(agents=3, actions=4, dimension=2, contexts="raw", theta=(0.6, 0.8))
    rng = np.random.default_rng(1)
    long = next(shown for index in range(0, 300, 3) if _longest(shown := world.show(index, rng)) > 1)
    with pytest.raises(InputError, match="longer than its bound") as problem:
        policy.decide(policy.start(), long, rng)
    assert "1.2" not in str(problem.value)
    assert PrivFairx(**FACTS, **PRIVATE).decide(policy.start(), long, rng).arm < 4
    other = ExposureWorld(agents=3, actions=4, dimension=3).prepare(rng).show(0, rng)
    with pytest.raises(InputError, match="dimension"):
        policy.decide(policy.start(), other, rng)


@pytest.mark.parametrize("name", ["priv-fairx", "batched-priv-fairx"])
def test_strict_runs_refuse_worlds_whose_contexts_are_too_long(name):
    strict = {"name": name, **PRIVATE, "strict": True}
    raw = {**WORLD, "contexts": ["uniform", "raw", "uniform"]}
    with pytest.raises(SpecError, match="strict refuses them"):
        fairveil.run({**spec(strict), "environment": raw})
    for table, world in ((strict, WORLD), ({**strict, "context_bound": 1.5}, raw), ({**strict, "strict": False}, raw)):
        result = fairveil.run({**spec(table, rounds=20), "environment": world})
        assert "clip" not in str(result["metrics"])  # how many rows were clipped appears nowhere


def _longest(shown):
    return max(np.linalg.norm(candidate.features) for candidate in shown.candidates)
