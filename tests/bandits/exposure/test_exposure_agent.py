"""Agents and their messages: nothing raw leaves, nothing bad is believed, nothing is spent twice."""

import logging

import numpy as np
import pytest

from fairveil.bandits.environments.exposure import ExposureWorld
from fairveil.bandits.exposure import BatchedPrivFairx, PrivFairx, PrivFairxPrinted
from fairveil.bandits.exposure.agent import Agent, matrix_of
from fairveil.bandits.protocol import Candidate, Feedback, Round, settle
from fairveil.errors import BudgetError, FairveilError, HorizonError, InputError, LedgerError, PrivacyError
from fairveil.federated import Message, exchange
from fairveil.ledger import Ledger, Limit
from fairveil.privacy.noise import SeededNoise
from fairveil.randomness import generator

FACTS = {"agents": 3, "dimension": 2, "horizon": 24, "epsilon": 2.0, "delta": 1e-3, "schedule": "doubling"}
POLICIES = {
    "sound": lambda: PrivFairx(**FACTS),
    "batched": lambda: BatchedPrivFairx(**FACTS),
    "personal": lambda: BatchedPrivFairx(**FACTS, personal=True),
    "printed": lambda: PrivFairxPrinted(**FACTS),
}


@pytest.fixture
def federation(tmp_path):
    ledgers = []

    def make(policy):
        for _ in range(policy.agents):
            path, limit = tmp_path / f"{len(ledgers)}.db", Limit.covering(policy.event())
            ledgers.append(Ledger.create(path, limit=limit, simulated=True))
        known = policy.guarantee().neighbours
        return [Agent(policy, i, ledgers[-policy.agents + i], neighbours=known) for i in range(policy.agents)]

    yield make
    for ledger in ledgers:
        ledger.close()


def play(agents, rounds, noise, seed=1):
    """A federation in one process; returns all messages and the exact sums behind each of them."""
    policy = agents[0].policy
    world = ExposureWorld(agents=len(agents), actions=4, dimension=2)
    rng, choice = generator(seed, "world"), generator(seed, "choice")
    place = world.prepare(rng)
    sent, exact, arms = [], [], []
    raw = np.zeros((len(agents), 3, 3))
    for now in range(rounds):
        for i, agent in enumerate(agents):
            contexts = np.array([candidate.features for candidate in place.show(now * len(agents) + i, rng).candidates])
            decision = agent.act(contexts, choice)
            reward = float(contexts[decision.arm] @ place.theta + 0.1 * rng.standard_normal())
            agent.observe(reward)
            arms.append(decision.arm)
            row = np.append(contexts[decision.arm], policy.reward_weight * np.clip(reward, -1, 1))
            raw[i] += np.outer(row, row)
        if agents[0].due():
            exact.append(raw.copy())
            sent.append(exchange(agents, [noise] * len(agents)))
            if isinstance(policy, BatchedPrivFairx):
                raw[:] = 0
    return sent, exact, arms


@pytest.mark.parametrize("name", POLICIES)
def test_a_federation_of_agents_decides_as_the_policy_does(name, federation):
    policy = POLICIES[name]()
    agents = federation(policy)
    _, _, arms = play(agents, 24, SeededNoise(8))
    # the same through the policy's own steps
    world = ExposureWorld(agents=3, actions=4, dimension=2)
    rng, choice, noise = generator(1, "world"), generator(1, "choice"), SeededNoise(8)
    place, state, found = world.prepare(rng), policy.start(), []
    for index in range(3 * 24):
        shown = place.show(index, rng)
        decision = policy.decide(state, shown, choice)
        found.append(decision.arm)
        state = policy.learn(state, Feedback(index, decision.arm, place.reward(shown, decision.arm, rng), shown))
        state = settle(policy, state, index + 1, noise)
    assert arms == found
    for i, agent in enumerate(agents):
        np.testing.assert_allclose(agent.state["centre"][i], state["centre"][i], rtol=1e-12)
        assert agent.syncs == 5


@pytest.mark.parametrize("name", POLICIES)
def test_every_number_of_every_message_carries_noise(name, federation):
    policy = POLICIES[name]()
    sent, exact, _ = play(federation(policy), 24, SeededNoise(8))
    level = policy.running.expected_std(1)
    assert len(sent) == 5
    offsets = []
    for messages, sums in zip(sent, exact):
        for message in messages:
            truth = sums[message.sender]
            offsets.append((matrix_of(message) - truth)[np.triu_indices(3)][:-1])  # the y y entry is never sent
            assert message.guarantee == policy.guarantee().to_dict()
            assert set(message.payload) == {"gram", "moment"} | ({"rows"} if policy.counts_rows else set())
            assert not message.lost
    offsets = np.array(offsets)
    assert (np.abs(offsets) > level * 1e-4).all()  # not one entry is exact: chance of a false alarm below 1e-2 in all
    assert 0.5 * level < offsets.std() < 6 * level


class Spy(SeededNoise):
    """Seeded noise that counts its draws."""

    def __init__(self):
        super().__init__(3)
        self.draws = 0

    def gaussians(self, sigmas):
        self.draws += np.size(sigmas)
        return super().gaussians(sigmas)


def test_sending_again_repeats_the_message_and_spends_nothing(federation):
    agents = federation(POLICIES["batched"]())
    agent, noise = agents[0], Spy()
    agent.act(np.eye(2), generator(1))
    agent.observe(0.4)
    assert agent.due()
    assert agent.ledger.spent.units == 0
    first = agent.send(noise)
    spent, draws = agent.ledger.spent, noise.draws
    assert spent.units > 0
    assert draws > 0
    again = agent.send(noise)
    assert again is first
    assert (agent.ledger.spent, noise.draws) == (spent, draws)
    assert agent.ledger.status("agent-0/sync-0") == "published"


class Hiccup:
    """A ledger that draws and then cannot store, as often as told: a full disk, an anchor that does not answer."""

    def __init__(self, ledger, monkeypatch):
        self.left, inner = 0, ledger._book.append

        def append(kind, *args, **facts):
            if kind == "publish" and self.left:
                self.left -= 1
                raise LedgerError("the disk is full")
            return inner(kind, *args, **facts)

        monkeypatch.setattr(ledger._book, "append", append)


def row_one(agent, reward=0.5):
    """One interaction whose row is known: the first action is the only direction shown."""
    agent.act(np.array([[1.0, 0.0], [1.0, 0.0]]), generator(1))
    agent.observe(reward)


def quiet(agent, rounds):
    for _ in range(rounds):
        agent.act(np.zeros((2, 2)), generator(2))
        agent.observe(0.0)


@pytest.mark.parametrize("kind", ["batched", "sound", "personal"])
def test_a_retried_message_leaves_no_row_for_the_next_one(kind, federation, monkeypatch):
    agents = federation(POLICIES[kind]())
    agent, noise = agents[0], SeededNoise(4)
    hiccup = Hiccup(agent.ledger, monkeypatch)
    row_one(agent)
    hiccup.left = 2
    for _ in range(2):
        with pytest.raises(LedgerError, match="disk"):
            agent.send(noise)
    spent = agent.ledger.spent
    first = agent.send(noise)  # the value that was drawn at the first attempt, stored now
    assert agent.ledger.spent == spent
    assert not first.lost
    assert not agent.state["leaf"][0].any()
    for other in agents[1:]:
        quiet(other, 1)
        agent.receive(other.send(SeededNoise(5, other.index)))
    # In the next message there is nothing of it: without noise it is what an agent without rows would send.
    quiet(agent, 1)
    leaf = agent.state["leaf"][0]
    assert agent.syncs == 1
    assert not leaf.any()


def test_no_row_is_in_two_messages_over_retries_and_restarts(federation, monkeypatch):
    """Draws without noise add up: over all messages every row is there once, whatever happened between them."""
    policy = POLICIES["batched"]()
    agents = federation(policy)
    sums = np.zeros((3, 3))
    sent = []
    real = BatchedPrivFairx.privatise

    def spied(self, state, agents, noise):
        if 0 in agents:
            sums[:] += state["leaf"][0]
        return real(self, state, agents, noise)

    monkeypatch.setattr(BatchedPrivFairx, "privatise", spied)
    hiccup = Hiccup(agents[0].ledger, monkeypatch)
    truth, rounds = np.zeros((3, 3)), 0
    saved = agents[0].save()
    for sync in range(4):
        while not agents[0].due():
            for agent in agents:
                row_one(agent, reward=0.25)
            row = np.array([1.0, 0.0, 0.25 * policy.reward_weight])
            truth += np.outer(row, row)
            rounds += 1
        if sync == 1:
            hiccup.left = 3
            for _ in range(3):
                with pytest.raises(LedgerError):
                    agents[0].send(SeededNoise(6))
        if sync == 2:
            # A restart from an old copy after the message was stored; the interactions are played again.
            agents[0].send(SeededNoise(6))
            again = Agent(policy, 0, agents[0].ledger)
            again.load(saved)
            for old in sent:
                while not again.due():
                    row_one(again, reward=0.25)
                again.send(SeededNoise(7))
                for message in old[1:]:
                    again.receive(message)
            while not again.due():
                row_one(again, reward=0.25)
            agents[0] = again
        sent.append(exchange(agents, [SeededNoise(9, sync, i) for i in range(3)]))
    assert agents[0].syncs == 4
    assert rounds == 8
    np.testing.assert_allclose(sums, truth, atol=1e-3)


def test_an_agent_that_starts_again_over_its_ledger_repeats_its_messages_and_drops_the_rows(federation):
    agents = federation(POLICIES["batched"]())
    sent, _, _ = play(agents, 2, SeededNoise(2))
    spent, noise = agents[0].ledger.spent, Spy()
    fresh = Agent(agents[0].policy, 0, agents[0].ledger)
    with pytest.raises(PrivacyError, match="released its first block"):
        fresh.send(noise)
    again = Agent(agents[0].policy, 0, agents[0].ledger, resume=True)
    again.act(np.eye(2), generator(7))
    again.observe(0.9)
    for sync, messages in enumerate(sent):
        repeated = again.send(noise)
        assert (repeated.sync, again.ledger.spent, noise.draws) == (sync, spent, 0)
        assert np.array_equal(repeated.payload["gram"], messages[0].payload["gram"])
        for message in messages[1:]:
            assert again.receive(message).accepted
    # Whether its row is in the old messages cannot be known: nothing was drawn, so it is dropped.
    assert again.syncs == len(sent) == 2
    assert not again.state["leaf"][0].any()
    for index, agent in enumerate((agents[0], again)):
        np.testing.assert_allclose(agent.state["centre"][0], agents[0].state["centre"][0], rtol=1e-12, err_msg=index)


@pytest.mark.parametrize("kind", ["batched", "sound"])
def test_a_lost_message_says_so_and_the_federation_goes_on(kind, federation):
    class Broken(Spy):
        def gaussians(self, sigmas):
            raise RuntimeError("died while drawing")

    agents = federation(POLICIES[kind]())
    for agent in agents:
        row_one(agent)
    with pytest.raises(RuntimeError):
        agents[0].send(Broken())
    message = agents[0].send(SeededNoise(1))
    assert message.lost
    assert not message.payload["gram"].any()  # nothing was public before it
    assert not agents[0].state["leaf"][0].any()
    assert Message.from_bytes(message.to_bytes()).lost
    assert exchange(agents, [SeededNoise(3, i) for i in range(3)])[0] is message
    assert [agent.syncs for agent in agents] == [1, 1, 1]
    for agent in agents:
        row_one(agent)
    messages = exchange(agents, [SeededNoise(8, i) for i in range(3)])
    assert [one.lost for one in messages] == [False] * 3
    assert [agent.syncs for agent in agents] == [2, 2, 2]
    np.testing.assert_allclose(agents[0].state["centre"][0], agents[2].state["centre"][2], rtol=1e-12)


@pytest.mark.parametrize("name", POLICIES)
def test_agents_saved_and_loaded_at_every_round_decide_the_same(name, federation):
    policy = POLICIES[name]()
    _, _, arms = play(federation(policy), 24, SeededNoise(8))
    agents = federation(policy)

    class Restarted(list):
        def __iter__(self):
            for i, agent in enumerate(list.__iter__(self)):
                fresh = Agent(policy, i, agent.ledger, neighbours=policy.guarantee().neighbours)
                fresh.load(agent.save())
                self[i] = fresh
                yield fresh

    _, _, again = play(Restarted(agents), 24, SeededNoise(8))
    assert again == arms


def test_a_copy_of_another_agent_or_policy_is_refused(federation):
    agents = federation(POLICIES["batched"]())
    with pytest.raises(InputError, match="another agent"):
        agents[0].load(agents[1].save())
    other = Agent(POLICIES["sound"](), 0, agents[0].ledger)
    with pytest.raises(InputError, match="another policy"):
        other.load(agents[0].save())


def test_an_account_belongs_to_one_policy(federation):
    agents = federation(POLICIES["batched"]())
    row_one(agents[0])
    agents[0].send(SeededNoise(1))
    spent = agents[0].ledger.spent
    twin = BatchedPrivFairx(**{**FACTS, "width": 0.5})  # the same event, other releases
    assert twin.event() == agents[0].policy.event()
    other = Agent(twin, 0, agents[0].ledger, resume=True)
    row_one(other)
    with pytest.raises(FairveilError, match="agent-0"):
        other.send(SeededNoise(1))
    assert agents[0].ledger.spent == spent


def test_counts_of_rows_travel_and_say_nothing_where_missing_rewards_have_a_default(federation):
    facts = {**FACTS, "agents": 1, "schedule": {"name": "growing", "factor": 2.0, "first": 4}}
    policy = BatchedPrivFairx(**facts)
    for default, rows in ((None, 2), (0.0, 4)):
        [agent] = federation(policy)
        agent.default = default
        for index in range(4):
            agent.act(np.eye(2), generator(1))
            agent.observe(0.5 if index % 2 else None)
        message = agent.send(SeededNoise(1))
        assert message.payload["rows"] == rows
        assert agent.syncs == 1


def test_late_rewards_wait_for_the_rounds_before_them(federation):
    agents = federation(POLICIES["batched"]())
    agent = agents[0]
    for _ in range(3):
        agent.act(np.eye(2), generator(1))
    agent.observe(0.3, round=2)
    agent.observe(0.2, round=1)
    assert (agent.settled, agent.due()) == (0, False)
    assert not agent.state["leaf"][0].any()
    with pytest.raises(InputError, match="no open decision"):
        agent.observe(0.9, round=1)
    agent.observe(None, round=0)  # it will never come
    assert (agent.settled, agent.due()) == (3, True)
    assert not agent.state["leaf"][0].any()  # the first block is round 0 alone
    agent.send(SeededNoise(1))
    for other in agents[1:]:
        quiet(other, 1)
        agent.receive(other.send(SeededNoise(5, other.index)))
    assert agent.state["leaf"][0].any()  # round 1, and not yet round 2
    np.testing.assert_allclose(agent.state["leaf"][0].max(), 1.0)


def test_weaker_neighbours_must_be_named(federation, tmp_path):
    for policy in (POLICIES["personal"](), POLICIES["printed"](), BatchedPrivFairx(**FACTS, local_raw=True)):
        for given in (None, "replace-interaction"):
            with pytest.raises(PrivacyError, match="raw rows"):
                Agent(policy, 0, None, neighbours=given)
        Agent(policy, 0, None, neighbours="replace-interaction-rows-fixed")


def test_the_whole_run_is_charged_once(federation):
    policy = POLICIES["batched"]()
    agents = federation(policy)
    play(agents, 24, SeededNoise(2))
    for agent in agents:
        assert agent.ledger.spent == Limit.covering(policy.event()).charge(policy.event())


def test_messages_travel_as_bytes(federation):
    agents = federation(POLICIES["sound"]())
    agents[1].act(np.eye(2), generator(1))
    agents[1].observe(0.4)
    message = agents[1].send(SeededNoise(1))
    there = Message.from_bytes(message.to_bytes())
    assert (there.sender, there.sync, there.round) == (1, 0, 1)
    for name in ("gram", "moment"):
        assert np.array_equal(there.payload[name], message.payload[name])
    assert agents[0].receive(there).accepted
    for junk in (b"", b"{}", b"\xff\xfe", b'{"version": 9}', message.to_bytes()[:-5], b"[1, 2]"):
        with pytest.raises(InputError, match="not a message"):
            Message.from_bytes(junk)


def changed(message, **facts):
    arrays = {name: facts.pop(name) for name in list(facts) if name in message.payload}
    return Message(**{**vars(message), "payload": {**message.payload, **arrays}, **facts})


BAD = {
    "shape": (lambda m: changed(m, gram=np.zeros((3, 3))), "wrong shape"),
    "vector": (lambda m: changed(m, moment=np.zeros((2, 1))), "wrong shape"),
    "type": (lambda m: changed(m, gram=m.payload["gram"].astype(np.float32)), "wrong shape"),
    "list": (lambda m: changed(m, moment=[0.0, 1.0]), "wrong shape"),
    "nan": (lambda m: changed(m, gram=np.full((2, 2), np.nan)), "not finite"),
    "infinite": (lambda m: changed(m, moment=np.array([np.inf, 0.0])), "not finite"),
    "huge": (lambda m: changed(m, moment=np.array([1e308, 0.0])), "too large"),
    "crooked": (lambda m: changed(m, gram=np.array([[1.0, 2.0], [3.0, 4.0]])), "not symmetric"),
    "more": (lambda m: changed(m, payload={**m.payload, "more": np.zeros(())}), "other arrays"),
    "nothing": (lambda m: changed(m, payload=None), "other arrays"),
    "stranger": (lambda m: changed(m, sender=7), "stranger"),
    "negative": (lambda m: changed(m, sender=-1), "stranger"),
    "itself": (lambda m: changed(m, sender=0), "itself"),
    "future": (lambda m: changed(m, sync=3), "out of order"),
    "round": (lambda m: changed(m, round=2), "not in the schedule"),
    "place": (lambda m: changed(m, sync="0"), "place in the schedule"),
    "promise": (lambda m: changed(m, guarantee={**m.guarantee, "epsilon": 0.1}), "another guarantee"),
    "no promise": (lambda m: changed(m, guarantee=None), "another guarantee"),
    "junk": (lambda m: "hello", "not a message"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_messages_are_refused_logged_without_content_and_cost_nothing(case, federation, caplog):
    agents = federation(POLICIES["batched"]())
    agents[1].act(np.eye(2), generator(1))
    agents[1].observe(0.4)
    good = agents[1].send(SeededNoise(1))
    make, reason = BAD[case]
    before = {name: array.copy() for name, array in agents[0].state.items()}
    with caplog.at_level(logging.DEBUG):
        receipt = agents[0].receive(make(good))
    assert not receipt.accepted
    assert reason in receipt.reason
    assert agents[0].refused == [receipt.reason]
    assert agents[0].ledger.spent.units == 0
    assert all(np.array_equal(before[name], agents[0].state[name]) for name in before)
    assert len(caplog.records) == 1
    numbers = (*good.payload["gram"].ravel(), *good.payload["moment"])
    digits = [text for number in numbers for text in (f"{number:.3f}", repr(float(number)))]
    assert not any(text in caplog.text for text in digits)
    assert agents[0].receive(good).accepted  # and the honest message still gets through


def test_replayed_messages_are_refused(federation):
    agents = federation(POLICIES["batched"]())
    sent, _, _ = play(agents, 24, SeededNoise(2))
    assert agents[0].receive(sent[0][1]).reason == "replayed"
    assert agents[0].receive(sent[-1][2]).reason == "replayed"
    fresh = federation(POLICIES["batched"]())
    assert fresh[0].receive(sent[0][1]).accepted
    assert fresh[0].receive(sent[0][1]).reason == "replayed"


def test_a_message_of_the_next_synchronisation_may_wait(federation):
    agents = federation(POLICIES["batched"]())
    sent, _, _ = play(agents, 24, SeededNoise(2))
    late = federation(POLICIES["batched"]())[0]
    late.act(np.eye(2), generator(1))
    late.observe(0.1)
    assert late.receive(sent[1][1]).accepted
    assert late.receive(sent[0][1]).accepted
    assert late.receive(sent[0][2]).accepted
    assert late.syncs == 0
    late.send(SeededNoise(1))
    assert late.syncs == 1
    assert late.receive(sent[1][1]).reason == "replayed"
    assert late.receive(sent[1][2]).accepted


@pytest.mark.parametrize("kind", ["batched", "sound", "personal", "local"])
def test_rows_between_sending_and_the_last_message_are_kept_for_the_next_one(kind, federation):
    policy = BatchedPrivFairx(**FACTS, local_raw=True) if kind == "local" else POLICIES[kind]()
    agents = federation(policy)
    for agent in agents:
        agent.act(np.eye(2), generator(1))
        agent.observe(0.4)
    messages = [agent.send(SeededNoise(9, agent.index)) for agent in agents]
    agents[0].act(np.array([[1.0, 0.0], [1.0, 0.0]]), generator(2))
    agents[0].observe(0.5)  # agent 0 goes on before the others' messages arrive
    for message in messages[1:]:
        assert agents[0].receive(message).accepted
    assert agents[0].syncs == 1
    weight = policy.reward_weight
    row = np.array([1.0, 0.0, 0.5 * weight])
    np.testing.assert_allclose(agents[0].state["leaf"][0], np.outer(row, row), atol=1e-4)
    if kind == "local":
        np.testing.assert_allclose(agents[0].state["local"][0], np.outer(row, row), atol=1e-12)
        prior, facts = agents[0].state["prior"][0], policy.facts
        target = agents[0].state["target"][0] + facts.moment / facts.variance * np.array([0.5 * weight, 0.0])
        centre = np.linalg.solve(prior + facts.gram / facts.variance * np.diag([1.0, 0.0]), target)
        np.testing.assert_allclose(agents[0].state["centre"][0], centre, rtol=1e-9)
    if kind == "personal":
        assert agents[0].state["local"][0][0, 0] > 1  # all rows, the one that was sent too


def test_a_message_cannot_change_after_it_was_checked(federation):
    agents = federation(POLICIES["batched"]())
    agents[1].act(np.eye(2), generator(1))
    agents[1].observe(0.4)
    gram, moment = np.eye(2), np.ones(2)
    sent = agents[1].send(SeededNoise(1))
    message = changed(sent, gram=gram, moment=moment)
    assert agents[0].receive(message).accepted
    gram[:] = np.nan
    assert np.array_equal(message.payload["gram"], np.eye(2))
    for array in (sent.payload["gram"], message.payload["moment"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = np.nan


def test_the_time_of_a_message_is_checked_when_statistics_set_it(federation):
    agents = federation(PrivFairx(**{**FACTS, "schedule": {"name": "determinant"}}))
    agents[1].act(np.eye(2), generator(1))
    agents[1].observe(0.4)
    message = agents[1].send(SeededNoise(1))
    assert agents[0].receive(changed(message, round=5)).reason == "not in the schedule"
    assert agents[0].receive(message).accepted


def test_a_ledger_without_room_keeps_the_message_back(tmp_path):
    policy, noise = POLICIES["batched"](), Spy()
    less = BatchedPrivFairx(**{**FACTS, "epsilon": 0.5})
    with Ledger.create(tmp_path / "small.db", limit=Limit.covering(less.event()), simulated=True) as ledger:
        agent = Agent(policy, 0, ledger)
        agent.act(np.eye(2), generator(1))
        agent.observe(0.4)
        with pytest.raises(BudgetError):
            agent.send(noise)
        assert (ledger.spent.units, noise.draws, agent.syncs) == (0, 0, 0)


def test_every_agent_needs_a_source_of_noise(federation):
    agents = federation(POLICIES["batched"]())
    with pytest.raises(InputError, match="one noise per party"):
        exchange(agents, [None])
    assert all(agent.ledger.spent.units == 0 for agent in agents)


def test_agents_refuse_to_run_without_a_promise_or_past_their_schedule(federation, tmp_path):
    raw = PrivFairxPrinted(**{**FACTS, "schedule": {"name": "determinant", "raw": True}})
    with pytest.raises(PrivacyError, match="established"):
        Agent(raw, 0, None)
    with pytest.raises(InputError, match="unknown"):
        Agent(POLICIES["sound"](), 3, None)
    agents = federation(POLICIES["batched"]())
    with pytest.raises(InputError, match="no open decision"):
        agents[0].observe(1.0)
    play(agents, 24, SeededNoise(2))
    spent = agents[0].ledger.spent
    assert not agents[0].due(10**6)
    with pytest.raises(HorizonError, match="no synchronisation is left"):
        agents[0].send(SeededNoise(1))
    assert agents[0].ledger.spent == spent


def test_a_wrong_reward_or_context_is_refused_without_its_value(federation):
    agent = federation(POLICIES["batched"]())[0]
    with pytest.raises(InputError) as problem:
        agent.act([[0.123, np.nan], [0.0, 1.0]], generator(1))
    assert "0.123" not in str(problem.value)
    for wrong in ([["secret", 1.0], [0.0, 1.0]], [[1.0, 2.0], [3.0]], np.empty((0, 2)), np.ones(2)):
        with pytest.raises(InputError) as problem:
            agent.act(wrong, generator(1))
        assert "secret" not in str(problem.value)
    assert agent.played == 0
    agent.act(np.eye(2), generator(1))
    with pytest.raises(InputError, match="not a number"):
        agent.observe(float("nan"))
    with pytest.raises(InputError, match="not a number"):
        agent.observe("0.5")
    pair = Round(0, (Candidate(0, np.zeros(2)),) * 2)
    for arm in (-1, 2):
        with pytest.raises(InputError, match="not shown"):
            agent.policy.learn(agent.state, Feedback(0, arm, 0.5, pair))
    shown = Round(0, (Candidate(0, np.zeros(2)),), agent=9)
    with pytest.raises(InputError, match="unknown"):
        agent.policy.decide(agent.state, shown, generator(1))
    with pytest.raises(InputError, match="learn from contexts"):
        agent.policy.learn(agent.state, Feedback(0, 0, 0.5))


def rounds(agent, count):
    """Play rounds of an agent, the same for the same agent and round."""
    for _ in range(count):
        rng = generator(5, agent.index, agent.played)
        agent.act(rng.random((3, 2)), rng)
        agent.observe(float(rng.random()))


@pytest.mark.parametrize("name", ["batched", "personal", "sound"])
def test_an_absent_agent_is_left_out_and_follows_later(name, federation):
    agents = federation(POLICIES[name]())
    here, away = agents[:2], agents[2]
    log = []
    for sync, count in enumerate((1, 1, 2)):  # doubling: rounds 1, 2, 4
        for agent in here:
            rounds(agent, count)
            agent.leave_out([2])
        log += exchange(here, [SeededNoise(sync, i) for i in range(2)])
        assert [agent.syncs for agent in here] == [sync + 1] * 2
    rounds(away, 4)  # meanwhile it played; nothing is due before it knows of the others
    assert away.ledger.spent.units == 0
    stranger = Message(2, 3, 8, log[0].payload, log[0].guarantee)
    assert here[0].receive(stranger).reason == "from a party that is left out"
    away.catch_up(log)
    assert away.syncs == 3
    np.testing.assert_array_equal(away.state["released"], here[0].state["released"])
    np.testing.assert_array_equal(away.state["variance"], here[0].state["variance"])
    assert away.state["variance"][2] == 0
    for agent in agents:
        agent.take_back([2])
        rounds(agent, 4)
    messages = exchange(agents, [SeededNoise(9, i) for i in range(3)])
    if agents[0].policy.counts_rows:
        assert [int(message.payload["rows"]) for message in messages] == [4, 4, 8]  # all rows of the absent one join
    for agent in agents:
        np.testing.assert_array_equal(agent.state["released"], agents[0].state["released"])
        assert agent.syncs == 4
    assert away.state["variance"][2] > 0


def test_rows_of_rounds_that_went_by_join_the_next_message(federation):
    agents = federation(POLICIES["batched"]())
    log = []
    for sync, count in enumerate((1, 1)):
        for agent in agents[:2]:
            rounds(agent, count)
            agent.leave_out([2])
        log += exchange(agents[:2], [SeededNoise(sync)] * 2)
    late = agents[2]
    late.catch_up(log)
    rounds(late, 4)  # two of its rounds lie before the second synchronisation, by its own count
    message = late.send(SeededNoise(3))
    assert int(message.payload["rows"]) == 4


def test_a_log_with_an_own_message_is_believed_only_with_the_own_ledger(federation, tmp_path):
    policy = POLICIES["batched"]()
    agents = federation(policy)
    for agent in agents:
        rounds(agent, 1)
    log = exchange(agents, [SeededNoise(1)] * 3)
    spent = agents[0].ledger.spent
    again = Agent(policy, 0, agents[0].ledger, resume=True)
    again.catch_up(log)
    assert again.syncs == 1
    assert again.ledger.spent == spent
    np.testing.assert_array_equal(again.state["released"], agents[1].state["released"])
    with Ledger.create(tmp_path / "new.db", limit=Limit.covering(policy.event()), simulated=True) as empty:
        fresh = Agent(policy, 0, empty)
        with pytest.raises(PrivacyError, match="ledger does not know"):
            fresh.catch_up(log)
        assert empty.spent.units == 0


def test_a_log_must_be_whole_and_well_formed(federation):
    agents = federation(POLICIES["batched"]())
    for agent in agents[:2]:
        rounds(agent, 1)
        agent.leave_out([2])
    log = exchange(agents[:2], [SeededNoise(1)] * 2)
    other = Message(0, 0, 1, {**log[0].payload, "rows": np.asarray(7.0)}, log[0].guarantee)
    for wrong in (
        [Message(0, 1, 2, log[0].payload, log[0].guarantee)],
        [*log, other],
        [Message(0, 0, 3, log[0].payload, log[0].guarantee)],
        [Message(0, 0, 1, {**log[0].payload, "moment": np.full(2, np.inf)}, log[0].guarantee)],
    ):
        with pytest.raises(InputError, match="log"):
            agents[2].catch_up(wrong)
        assert agents[2].syncs == 0
    for wrong in ([7], [0, 1, 2]):
        with pytest.raises(InputError, match="cannot be left out"):
            agents[2].leave_out(wrong)
