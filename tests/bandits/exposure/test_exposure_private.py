"""What the private policies have in common: what they promise, and what an observer of their messages can measure."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fairveil.bandits.exposure import BatchedPrivFairx, PrivFairx, PrivFairxPrinted
from fairveil.bandits.ledgered import drive
from fairveil.bandits.protocol import Candidate, Feedback, Round
from fairveil.errors import PrivacyError, SpecError
from fairveil.ledger import Ledger, Limit
from fairveil.privacy.conversions import gdp_mu
from fairveil.privacy.noise import SeededNoise
from fairveil.proof import audit, find_pair
from fairveil.proof.pairs import exposure as audits
from fairveil.proof.pairs.exposure import messages_pair, reaction_pair, run_messages, worst_interactions
from fairveil.randomness import generator

FULL = {"agents": 10, "dimension": 5, "horizon": 100_000, "epsilon": 2.0, "delta": 0.1}
SMALL = {"agents": 2, "dimension": 2, "horizon": 4096, "epsilon": 1.0, "delta": 1e-5}


def measured_std(policy, release, trials=6000):
    """Std of the off-diagonal numbers of one agent's message at a release, over independent streams of empty leaves."""
    wide = policy.running.many(trials)
    state, noise = wide.start(), SeededNoise(3)
    for _ in range(release):
        state, estimate = wide.release(state, noise)
    shown = wide.last_batch(state) if hasattr(wide, "last_batch") else estimate
    above = np.triu_indices(policy.dimension + 1, 1)
    diagonal = np.arange(policy.dimension + 1)
    return shown[:, above[0], above[1]].std(), shown[:, diagonal, diagonal].std()


@pytest.mark.parametrize("release", [1, 7])
@pytest.mark.parametrize("kind", ["sound", "printed", "batched"])
def test_noise_of_released_statistics_is_what_the_formula_says(kind, release):
    # 6,000 streams of 15 (or 6) numbers: the standard error of a std is below 0.4 %, the band is 2 %.
    policy = {
        "sound": lambda: PrivFairx(**FULL),
        "printed": lambda: PrivFairxPrinted(**FULL),
        "batched": lambda: BatchedPrivFairx(**FULL),
    }[kind]()
    off, diagonal = measured_std(policy, release)
    mu = gdp_mu(2.0, 0.1)
    published = 4 * 2 * math.sqrt(16) * math.log(20) / 2
    node = {"sound": 2 * math.sqrt(15) / mu, "printed": published, "batched": 1.5 / mu}[kind]
    nodes = {"sound": {1: 1.0, 7: 1 + 2 / 3 + 4 / 7}, "printed": {1: 1, 7: 3}, "batched": {1: 1, 7: 1}}[kind][release]
    assert off == pytest.approx(node * math.sqrt(nodes), rel=0.02)
    assert diagonal == pytest.approx(math.sqrt(2) * node * math.sqrt(nodes), rel=0.02)
    if kind != "batched":
        assert off == pytest.approx(policy.running.expected_std(release), rel=0.02)


def test_what_each_policy_promises():
    frozen = PrivFairx(**FULL).guarantee()
    assert frozen.neighbours == "replace-interaction"
    assert (frozen.epsilon, frozen.delta, frozen.model, frozen.established) == (2.0, 0.1, "federated", True)
    for policy in (
        PrivFairx(**FULL, local_raw=True),
        PrivFairxPrinted(**FULL),
        BatchedPrivFairx(**FULL, personal=True),
        BatchedPrivFairx(**FULL, local_raw=True),
    ):
        promise = policy.guarantee()
        assert promise.neighbours == "replace-interaction-rows-fixed"
        assert promise.established
        assert any("other rows stay fixed" in note for note in promise.notes)
    assert BatchedPrivFairx(**FULL).guarantee().neighbours == "replace-interaction"
    assert BatchedPrivFairx(**FULL).event().kind == "parallel"
    assert 20_002 / BatchedPrivFairx(**FULL).syncs > 100


@pytest.mark.parametrize("weight", [0.3, math.sqrt(0.5), 1.0])
def test_the_worst_interactions_are_worst(weight):
    policy = BatchedPrivFairx(**SMALL, reward_weight=weight)
    first, second = worst_interactions(policy)
    gap = np.linalg.norm(np.outer(first, first) - np.outer(second, second))
    assert gap == pytest.approx(math.sqrt(2) * (1 + weight**2))
    rng, largest = np.random.default_rng(2), 0.0
    for _ in range(3000):
        rows = rng.normal(size=(2, 2))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        pair = np.column_stack([rows, weight * rng.choice([-1, 1], 2)])
        largest = max(largest, np.linalg.norm(np.outer(pair[0], pair[0]) - np.outer(pair[1], pair[1])))
    assert largest <= gap * (1 + 1e-12)
    assert largest > 0.99 * gap


@pytest.mark.parametrize("kind", ["sound", "batched", "personal"])
def test_messages_keep_their_promise_and_use_most_of_it(kind):
    policy = {
        "sound": lambda: PrivFairx(**SMALL, schedule="doubling"),
        "batched": lambda: BatchedPrivFairx(**SMALL),
        "personal": lambda: BatchedPrivFairx(**SMALL, personal=True),
    }[kind]()
    finding = audit(messages_pair(policy), trials=4_000)
    assert finding.verdict == "consistent"
    zero, one = (run_messages(policy, world, 8_000, SeededNoise(1, world), generator(1)) for world in (0, 1))
    shift = (one - zero).mean(axis=0)
    spread = np.cov(zero.T).reshape(len(shift), len(shift))
    mu = math.sqrt(shift @ np.linalg.solve(spread, shift))
    # 8,000 trials a world: the standard error of the distance is 0.016, the band is four of them.
    assert 0.5 * gdp_mu(1.0, 1e-5) < mu < gdp_mu(1.0, 1e-5) + 0.064


class HalfNoise(SeededNoise):
    """Broken on purpose: half of the noise that was asked for."""

    def gaussians(self, sigmas):
        return super().gaussians(np.asarray(sigmas) / 2)


@pytest.mark.parametrize("kind", [PrivFairx, BatchedPrivFairx])
def test_half_of_the_noise_is_caught(kind):
    pair = messages_pair(kind(**SMALL, schedule="doubling"))
    broken = replace(pair, run=lambda world, trials, noise, rng: pair.run(world, trials, HalfNoise(3, world), rng))
    assert audit(pair, trials=8_000).verdict == "consistent"
    assert audit(broken, trials=8_000).verdict == "violated"


def literal(kind):
    """Broken on purpose: the published listing taken literally, where rows are inserted at every synchronisation."""

    class Literal(kind):
        def release(self, state, noise):
            after = super().release(state, noise)
            after["leaf"][:] = state["leaf"]
            return after

    return Literal


@pytest.mark.parametrize("kind", [PrivFairx, PrivFairxPrinted, BatchedPrivFairx])
def test_the_literal_listing_is_caught(kind, monkeypatch):
    # The published budget (2, 0.1); its variance is so large that 64 synchronisations are needed to show the mistake.
    monkeypatch.setattr(audits, "WATCHED", 64)
    facts = {**SMALL, "schedule": {"name": "growing", "factor": 1.05}, "epsilon": 2.0, "delta": 0.1}
    assert kind(**facts).syncs >= 64
    assert audit(messages_pair(literal(kind)(**facts)), trials=1_000).verdict == "violated"
    assert audit(messages_pair(kind(**facts)), trials=1_000).verdict == "consistent"


def test_raw_local_policies_are_caught_and_frozen_ones_are_not():
    # Before the first message there are 64 rounds: one flipped reward moves up to 63 further rows of it.
    facts = {**SMALL, "schedule": {"name": "growing", "first": 64, "factor": 4.0}, "width": 0.0}
    for kind, raw in ((PrivFairx, {"local_raw": True}), (BatchedPrivFairx, {"personal": True})):
        found = audit(reaction_pair(kind(**facts, **raw)), trials=150)
        assert found.verdict == "violated", (kind, raw, found.epsilon_lower)
        assert audit(reaction_pair(kind(**facts)), trials=150).verdict == "consistent"


def test_pairs_are_found_by_spec():
    _, pair = find_pair({"kind": "policy", "name": "batched-priv-fairx", **SMALL})
    assert (pair.epsilon, pair.delta) == (1.0, 1e-5)
    _, reaction = find_pair({"kind": "policy", "name": "priv-fairx", "pair": "reaction", **SMALL})
    assert "reacts" in reaction.worlds or "react" in reaction.worlds
    with pytest.raises(SpecError, match="two directions"):
        find_pair({"kind": "policy", "name": "priv-fairx", "pair": "reaction", **SMALL, "dimension": 1})


def interaction(policy, index, reward=0.5):
    shown = Round(index, tuple(Candidate(0, context) for context in np.eye(policy.dimension)), index % policy.agents)
    return Feedback(index, 0, reward, shown)


def test_ledgers_refuse_raw_rows_unless_their_weaker_neighbours_are_named(tmp_path):
    for number, policy in enumerate((BatchedPrivFairx(**SMALL, personal=True), PrivFairx(**SMALL, local_raw=True))):
        state = policy.start()
        for index in range(40):
            state = policy.learn(state, interaction(policy, index)) if index < 32 else state
        path, limit = tmp_path / f"{number}.db", Limit.covering(policy.event())
        with Ledger.create(path, limit=limit, simulated=True) as ledger:
            with pytest.raises(PrivacyError, match="raw rows"):
                drive(policy, state, 32, ledger, noise=SeededNoise(1))
            assert ledger.spent.units == 0
            named = "replace-interaction-rows-fixed"
            assert int(drive(policy, state, 32, ledger, noise=SeededNoise(1), neighbours=named)["syncs"]) > 0
