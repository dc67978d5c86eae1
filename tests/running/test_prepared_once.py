"""A run prepares its spec once: one policy, one world, at most one hash, and no simulator that is not played."""

import pytest

import fairveil
from fairveil import registry
from fairveil.bandits import task as bandit
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.bandits.task import case_of
from fairveil.privacy.noise import laplace_parameter
from fairveil.running import runner
from fairveil.running.engines import KEPT, _cases, keep, prepared
from fairveil.running.runner import run_many
from fairveil.running.store import ResultStore

ARMS = {"name": "bernoulli", "means": [0.2, 0.5, 0.8]}
GROUPS = {"name": "synthetic-census", "people_per_group": 100}
AGENTS = {"name": "exposure", "agents": 2, "actions": 3, "dimension": 2}
FAMILIES = {
    "nash": ({"name": "private-nash", "epsilon": 1.0}, ARMS),
    "meritocratic": ({"name": "batched-private-fair-greedy", "epsilon": 3.0, "delta": 1e-5}, GROUPS),
    "exposure": ({"name": "batched-priv-fairx", "epsilon": 2.0, "delta": 1e-5}, AGENTS),
}


def spec_of(family, **more):
    policy, environment = FAMILIES[family]
    return {"task": "bandit", "rounds": 60, "seed": 3, "policy": policy, "environment": environment, **more}


@pytest.fixture
def built(monkeypatch):
    """Kinds of things that are built, in order; nothing is shared from before."""
    kinds, build = [], registry.build
    monkeypatch.setattr(registry, "build", lambda kind, *rest: kinds.append(kind) or build(kind, *rest))
    monkeypatch.setattr(bandit, "_shared", {})
    monkeypatch.setattr(bandit, "_ready", {})
    return kinds


@pytest.mark.parametrize("family", FAMILIES)
def test_policy_and_world_are_built_once_a_run(family, built):
    fairveil.run(spec_of(family, runs=3))
    assert built.count("environment") == built.count("policy") == 1


def test_equal_policies_are_one_in_a_process_and_other_ones_are_not(built):
    first = case_of(spec_of("nash")).policy
    assert case_of(spec_of("nash", seed=9)).policy is first
    other = {"name": "private-nash", "epsilon": 2.0}
    assert case_of({**spec_of("nash"), "policy": other}).policy.epsilon == 2.0
    assert built.count("policy") == 2


def test_generated_worlds_are_shared_and_worlds_with_rows_are_read_again(built):
    table = {"name": "table", "rewards": [[0.0, 1.0], [1.0, 0.5]] * 30}
    policy = {"name": "ucb"}
    worlds = [case_of({**spec_of("nash"), "policy": policy, "environment": table}).environment for _ in range(2)]
    assert worlds[0] is not worlds[1]
    assert case_of(spec_of("nash")).environment is case_of(spec_of("nash", seed=9)).environment


def test_a_class_of_the_same_name_is_another_policy(built):
    with registry.isolated():
        for words in ("first", "second"):
            made = registry.register("policy", "mine")(type("Mine", (PrivateNash,), {"__module__": words}))
            found = case_of({**spec_of("nash"), "policy": {"name": "mine", "epsilon": 1.0}}).policy
            assert type(found) is made
            registry._entries.pop(("policy", "mine"))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_spec_is_prepared_once_whatever_its_seed_and_nobody_can_change_what_is_kept(family, built, monkeypatch):
    fresh = [fairveil.run(spec_of(family, seed=seed)) for seed in (3, 4) if bandit._ready.clear() is None]
    prepared_anew, made = [], bandit.BanditTask.made
    monkeypatch.setattr(bandit.BanditTask, "made", lambda task, spec: prepared_anew.append(1) or made(task, spec))
    bandit._ready.clear()
    again = [fairveil.run(spec_of(family, seed=seed)) for seed in (4, 3)][::-1]
    assert len(prepared_anew) == 1
    again[0]["spec"]["policy"]["epsilon"] = again[0]["spec"]["checkpoints"][0] = 99
    again[0] = fairveil.run(spec_of(family))
    assert len(prepared_anew) == 1
    for key in runner.REPEATED_KEYS:
        assert [result[key] for result in again] == [result[key] for result in fresh]


def test_rows_of_people_and_secure_noise_are_prepared_for_every_run(built):
    case_of(spec_of("nash", noise="secure"))
    case_of(
        {**spec_of("nash"), "policy": {"name": "ucb"}, "environment": {"name": "table", "rewards": [[0.0, 1.0]] * 60}}
    )
    assert bandit._ready == {}


@pytest.mark.parametrize("stored", [False, True])
def test_a_spec_is_hashed_once_and_only_where_somebody_looks_it_up(stored, tmp_path, monkeypatch):
    hashed, spec_hash = [], runner.spec_hash
    for place in ("fairveil.running.runner.spec_hash", "fairveil.running.store.spec_hash"):
        monkeypatch.setattr(place, lambda spec: hashed.append(1) or spec_hash(spec))
    fairveil.run(spec_of("nash", runs=20), store=ResultStore(tmp_path) if stored else None)
    assert len(hashed) == int(stored)


def test_equal_specs_still_run_once(built):
    results = run_many({"a": spec_of("nash"), "b": spec_of("nash"), "c": spec_of("nash", seed=4)})
    assert results["a"] is results["b"]
    assert results["c"]["metrics"] != results["a"]["metrics"]


def test_how_many_runs_a_block_holds_is_known_without_a_simulator(monkeypatch):
    case = case_of(spec_of("nash", runs=20))
    monkeypatch.setattr(PrivateNash, "simulator", lambda *given: pytest.fail("a simulator was built"))
    assert case.family.runs_at_once(case) == 8
    late = case_of(spec_of("nash", runs=20, noise="secure"))
    assert late.family.runs_at_once(late) == 20


def test_a_process_keeps_a_few_cases_and_prepares_a_lost_one_again():
    task = runner.task_of({"task": "bandit"})
    spec, case = task.prepare(spec_of("nash"))
    for number in range(KEPT + 1):
        keep(f"test-{number}", task, case)
    assert len(_cases) <= KEPT
    again = prepared("test-0", spec)[1]
    assert again is not case
    assert again.spec == spec
    for number in range(KEPT + 1):
        prepared(f"test-{number}", spec, last=True)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 7.7])
@pytest.mark.parametrize("arrivals", ["public", "private"])
def test_the_closed_form_of_a_blocks_noise_is_that_of_its_sum(epsilon, arrivals):
    policy = PrivateNash(arms=3, epsilon=epsilon, arrivals=arrivals)
    assert policy.success == laplace_parameter(policy.sum.sigma)
