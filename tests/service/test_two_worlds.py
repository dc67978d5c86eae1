"""Two worlds, byte for byte: random scripts of requests in which one person sends something else.

Answers, errors (also unforeseen), logs, metrics, the trail, pages, events of others, reports and stored hashes are the
same in both until a release holds a row of that person; with the numbers of the first world published in the second,
also after it. The break that began it: who was over a limit moved everybody behind into other blocks and other reports,
on every one of these channels.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import postgres_server
import pytest

from fairveil.bandits.protocol import HEADER
from fairveil.ledger.draws import Draws
from fairveil.loop.places import Placing
from fairveil.loop.play import stands_in
from fairveil.loop.public import loop_table
from fairveil.proof.adapters.replayed_loop import _told
from fairveil.proof.adapters.replayed_service import (
    _conflicts_told,
    _counts_rewards,
    _logs_words,
    _tagged,
    _without_places,
)
from fairveil.proof.adapters.served import BROKEN, Served, Step, equal_coins, waited
from fairveil.proof.engine.replay import Tape
from fairveil.proof.mutants import function, method
from fairveil.service.app import Service
from fairveil.service.metrics import Metrics

WAIT = 60
ARMS = {"name": "private-nash", "arms": 2, "epsilon": 1.0}
QUEUE = {"name": "batched-private-fair-greedy", "epsilon": 1.0, "delta": 1e-6, "first_batch": 4, "bins": 8}
OWN = ("ann", "bob")
EXACT = (HEADER, "count", "rows", "answered")
"""What a block publishes as it is."""


def a_loop(rng, name, missing):
    """A loop of any kind."""
    spec = {"name": name, "reward": {"low": 0, "high": 1, "wait": f"{WAIT}s", "missing": missing}}
    if rng.random() < 0.4:
        spec |= {"policy": QUEUE, "groups": ["a", "b"], "features": [{"name": "x", "low": -1.0, "high": 1.0}]}
    else:
        spec |= {"policy": ARMS, "groups": ["a", "b", "rare"]}
        if rng.random() < 0.3:
            spec["explore"] = 0.5
    person = {"max_events": int(rng.integers(1, 3))} if rng.random() < 0.7 else {}
    if "features" not in spec and rng.random() < 0.3:
        person["sticky"] = True
    if rng.random() < 0.6:
        spec["reports"] = {"every": int(rng.integers(3, 9)), "rho" if "features" in spec else "epsilon": 0.5}
    return spec | ({"person": person} if person else {})


class Script:
    """The steps of both worlds, made from one seed."""

    def __init__(self, seed):
        self.rng, self.steps = np.random.default_rng(seed), ([], [])
        self.again = np.random.default_rng([seed, 23])
        self.name = f"s-{seed}"
        missing = "public" if np.random.default_rng([seed, 22]).random() < 0.4 else "default"
        self.spec = a_loop(self.rng, self.name, missing)
        self.events, self.own, self.unanswered, self.waiting = 0, [], [], []
        self.at = f"/v1/loops/{self.name}"
        self.both(Step("POST", "/v1/loops", self.spec))
        self.others(int(self.rng.integers(0, 12)))
        for event in self.waiting:
            self.both(self.rewarded(event, self.rng.random()))
        self.waiting = []
        self.both(waited(WAIT + 1))
        self.both(waited(1))
        self.left = WAIT - 2
        self.mix(int(self.rng.integers(6, 16)))

    def both(self, step):
        for steps in self.steps:
            steps.append(step)

    def apart(self, one, other):
        for steps, step in zip(self.steps, (one, other), strict=True):
            steps.append(step)

    def rewarded(self, event, value, **more):
        return Step("POST", f"{self.at}/decisions/{event}/reward", {"value": value}, **more)

    def asked(self, who, group=None, feature=0.1):
        """The body of a request of somebody; with candidates the person is one of them."""
        event, self.events = f"e-{self.events}", self.events + 1
        if "features" in self.spec:
            held = [{"group": "a", "features": [feature], "subject": who}]
            held.append({"group": "b", "features": [0.2], "subject": f"beside {event}"})
            return {"event_id": event, "candidates": held}
        return {"event_id": event, "subject": who, "group": group or "ab"[int(self.rng.integers(2))]}

    def others(self, count):
        for _ in range(count):
            body = self.asked(f"p-{self.rng.integers(6)}")
            self.waiting.append(body["event_id"])
            self.both(Step("POST", f"{self.at}/decisions", body))

    def mine(self):
        """One request of that person in both worlds: another name, group or feature, the same event."""
        worlds = []
        for _ in range(2):
            who, group = OWN[int(self.rng.integers(2))], ("a", "b", "rare")[int(self.rng.integers(3))]
            body = self.asked(who, group, float(self.rng.uniform(-1, 1)))
            if "features" not in self.spec and self.rng.random() < 0.3:
                body["exclude"] = [int(self.rng.integers(2))]
            worlds.append(body)
            self.events -= 1
        self.events += 1
        self.own.append(worlds[0]["event_id"])
        self.unanswered.append(worlds[0]["event_id"])
        return worlds

    def mix(self, count):
        kinds = ("other", "own", "batch", "reward", "own-reward", "wait", "look", "wrong", "broken", "erase", "reports")
        self.act("own")
        for _ in range(count):
            self.act(kinds[int(self.rng.integers(len(kinds)))])
        self.act("own-reward")

    def act(self, kind):
        rng, at = self.rng, self.at
        if kind == "other":
            self.others(1)
        elif kind == "own":
            self.apart(*(Step("POST", f"{at}/decisions", body, own=True) for body in self.mine()))
        elif kind == "batch":
            around = [self.asked(f"p-{rng.integers(6)}") for _ in range(2)]
            self.waiting += [body["event_id"] for body in around]
            mine = self.mine()
            self.apart(*(Step("POST", f"{at}/decisions/batch", {"decisions": [around[0], body, around[1]]},
                              mine=(body["event_id"],)) for body in mine))  # fmt: skip
        elif kind == "reward" and self.waiting:
            self.both(self.rewarded(self.waiting.pop(), rng.random()))
        elif kind == "own-reward" and self.unanswered:
            event = self.unanswered.pop()
            self.apart(*(self.rewarded(event, float(rng.uniform(-1, 2)), own=True) for _ in range(2)))
            if self.again.random() < 0.7:  # another one, which is the first again in one world or the other, or not
                self.apart(*(self.rewarded(event, float(self.again.choice((-1, 2))), own=True) for _ in range(2)))
        elif kind == "wait" and self.left > 5:
            seconds = int(rng.integers(1, self.left // 2))
            self.left -= seconds
            self.both(waited(seconds))
        elif kind == "look":
            self.both(Step("GET", at))
        elif kind == "wrong":
            self.both(Step("POST", f"{at}/decisions", {"event_id": "e-wrong", "colour": 3}))
            self.both(self.rewarded("nobody", 1.0))
        elif kind == "broken":
            self.apart(*(Step(BROKEN, f"{at}/decisions", body) for body in self.mine()))
            self.unanswered.pop()
        elif kind == "erase":
            one = OWN[int(rng.integers(2))]  # where arrivals are public an erasure shows, which is a note: of both then
            for who in OWN if self.spec["reward"]["missing"] == "public" else (one,):
                self.both(Step("DELETE", f"{at}/subjects", {"subject": who}, own=True))
        elif kind == "reports":
            self.both(Step("POST", f"{at}/budget/quote", {"kind": "fairness", "epsilon": 0.1}))


class Published:
    """Blocks of both worlds: the same draws, and in the second world the numbers of the first."""

    def __init__(self):
        self.worlds = ([], [])
        self.values = []

    def in_world(self, world):
        def change(original):
            def release(self_, names, draw, noise, payment):
                def drawn(source, earlier):
                    tape = Tape(len(earlier), {})
                    value = draw(tape, earlier)
                    told = {key: np.asarray(value[key]).tolist() for key in EXACT if key in value}
                    self.worlds[world].append((names[len(earlier)], tape.levels, told))
                    if world == 0:
                        self.values.append(value)
                    place = len(self.worlds[world]) - 1
                    return self.values[place] if place < len(self.values) else value

                return original(self_, names, drawn, noise, payment)

            return release

        return method(Draws, "release", change)


def differences(url, seed):
    """The channels on which two services differ after a script."""
    script, said, blocks = Script(seed), [], Published()
    others = [f"e-{number}" for number in range(script.events) if f"e-{number}" not in script.own][:8]
    with equal_coins():
        for world, steps in enumerate(script.steps):
            with blocks.in_world(world), url() as place, Served(place) as served:
                served.run(steps)
                assert " 201 " in served.answers[0], served.answers[0]
                said.append({**served.channels(script.name, others, script.own), "blocks": blocks.worlds[world]})
    return [channel for channel in said[0] if said[0][channel] != said[1][channel]]


def in_memory():
    """A new store whose files are nowhere near a disk that others wait for."""
    return TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)


@contextmanager
def in_a_file():
    with in_memory() as folder:
        yield f"sqlite:///{folder}/store.db"


@pytest.fixture(params=[pytest.param("sqlite"), pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request):
    """A new store each time."""
    if request.param == "sqlite":
        return in_a_file
    server = request.getfixturevalue("postgres")

    @contextmanager
    def in_a_schema():
        made = postgres_server.own_schema(server)
        try:
            yield made
        finally:
            postgres_server.drop_schema(made)

    return in_a_schema


@pytest.mark.parametrize(("count", "first"), [(6, 0), (int(os.environ.get("FAIRVEIL_WORLDS", "24")), 6)])
def test_random_scripts_say_the_same_in_two_worlds(url, count, first):
    differing = {seed: found for seed in range(first, first + count) if (found := differences(url, seed))}
    assert differing == {}


@pytest.mark.parametrize(
    ("plant", "channel", "seeds"),
    [
        (lambda: function(loop_table, _told(loop_table)), "public /v1/loops/{loop}", range(6)),
        (lambda: method(Metrics, "page", _counts_rewards), "operate /metrics", range(6)),
        (lambda: method(Service, "_cold", _tagged), "heads", range(6)),
        (lambda: method(Service, "note", _logs_words), "log", range(6)),
        (lambda: method(Placing, "decided", _without_places), "stored", [15]),
        (lambda: function(stands_in, lambda facts, row: False), "public /v1/loops/{loop}", [52, 66]),
        (lambda: method(Service, "told", _conflicts_told), "operate /metrics", [7]),
        (lambda: method(Service, "told", _conflicts_told), "log", [7]),
    ],
)
def test_the_harness_sees_what_differs(plant, channel, seeds):
    with plant():
        assert any(channel in differences(in_a_file, seed) for seed in seeds)
