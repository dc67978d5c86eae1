"""Every composition that is served, searched through the methods that serve: its bound is never exceeded, and reached.

The break that this reduces: bins, sums and folds of a loop took their sensitivity from a chain that nobody searched, so
a number that was too small would have agreed with its own test. Here small neighbouring inputs go through the code that
serves, to the numbers that noise is added to; what the worst of them costs is compared with what is promised.
"""

from __future__ import annotations

import ast
import itertools
import math
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import fairveil
from fairveil import registry
from fairveil.bandits.protocol import Candidate, Feedback, Round
from fairveil.evaluate.private import PrivateValue
from fairveil.loop import Person, Reward, Store, accept
from fairveil.loop.lives import Lives, units_of_person
from fairveil.loop.problems import LoopError
from fairveil.privacy.encodings import RowCode
from fairveil.privacy.histograms import Histogram, histogram
from fairveil.privacy.stability import ROW, AtMost, AtMostGroups, Chain, FanOut
from fairveil.privacy.sums import BatchSum, shapes
from fairveil.privacy.vectors import ONE
from fairveil.proof.laws.reports import furthest
from fairveil.proof.laws.runs import built, claimed, run_cost
from fairveil.proof.laws.sums import Probe, draw_effects, priced, promised
from fairveil.proof.mutants import method
from fairveil.proof.pairs.privacy import watched
from fairveil.reports.evaluation import Evaluation
from fairveil.streams import PersonCounts
from fairveil.streams.columns import Columns

POLICIES = {
    "private-nash": {"arms": 2, "epsilon": 1.0},
    "adap-ucb": {"arms": 2, "epsilon": 1.0},
    "batched-private-fair-greedy": {"epsilon": 1.0, "delta": 1e-6, "groups": 2, "features": 1, "scaling": {
        "columns": [0], "centre": [0.0], "spread": [1.0], "norm": 2.0, "reward_centre": 0.5, "reward_bound": 0.5}},
    "batched-priv-fairx": {"epsilon": 1.0, "delta": 1e-6, "agents": 1, "dimension": 2, "horizon": 100,
                           "reward_weight": 1.0},
}  # fmt: skip


def policy(name):
    return registry.build("policy", {"name": name, **POLICIES[name]}, "policy")


def dearest(shown, worlds, pure=False):
    """What the dearest pair of these worlds costs, written in the draws of what is shown."""
    exact = {world: shown(world, Probe()) for world in worlds}
    _, effects = draw_effects(partial(shown, worlds[0]))
    return max(priced(effects, exact[one] - exact[other], pure) for one, other in itertools.combinations(worlds, 2))


# Streams --------------------------------------------------------------------------------------------------------------


def people(per_step, participation):
    """All that one person may do in four steps, with another person in each of them."""
    counts = []
    for times in itertools.product(range(per_step + 2), repeat=4):
        held = PersonCounts(per_step, participation)
        counts.append([held.step(["other", *["ann"] * number]) for number in times])
    moved = np.array(counts) - counts[0]
    made = PersonCounts(per_step, participation)
    found, keys = [np.abs(moved).max()], made.keys()
    if participation is None:
        return found, [keys["sensitivity"]]
    found += [np.count_nonzero(moved, axis=1).max(), np.linalg.norm(moved, axis=1).max()]
    return found, [keys["sensitivity"], keys["participation"], made.chain.sensitivity.l2]


def columns(neighbours, each):
    """A person at an end of the range in at most so many of three columns of one step, or in others, or away."""
    table = {"name": "baseline-gaussian", "mu": 0.5, "unit": "event", "neighbours": neighbours}
    made = Columns.build(table, ["a", "b", "c"], columns_per_person=each)
    there = [row for row in itertools.product((0.0, 1.0), repeat=3) if sum(row) <= each]

    def shown(row, noise):
        tracks = made.advance(made.start(), np.array([row]) + 5.0, noise)
        return np.concatenate([track.units for track in tracks]).astype(float)

    if neighbours == "replace":
        return [dearest(shown, there)], [promised(made)]
    return [max(dearest(shown, [there[0], row]) for row in there[1:])], [promised(made)]


# Sums and histograms --------------------------------------------------------------------------------------------------


def bins(kind, total, count):
    made = Histogram(count, method=kind, mu=1.0, total=total)
    return [dearest_value(made)], [promised(made)]


def dearest_value(made):
    """A value in any bin, or, where the total is noisy, away."""
    ends = np.linspace(made.low, made.high, made.bins + 1)
    worlds = [*(ends[1:] + ends[:-1]) / 2, *([None] if made.total == "noisy" else [])]

    def shown(value, noise):
        state = made.add(made.start(), [0.3, 0.9] if value is None else [0.3, 0.9, value])
        return made.measure(state, noise).ravel()

    return dearest(shown, worlds)


ROWS = {
    "scalar": [0.0, 0.3, 1.0, 7.0],
    "vector": [(0.0, 0.0), (1.0, 0.0), (-1.0, 0.0), (0.0, 9.0), (0.6, 0.8)],
    "symmetric": [(0.0, 0.0), (1.0, 0.0), (-1.0, 0.0), (0.0, 9.0), (0.6, 0.8)],
}


def sums(shape, neighbours):
    """A row that is another one, or nothing, beside a third."""
    made = BatchSum(mu=1.0, shape=shape, dimension=1 if shape == "scalar" else 2, neighbours=neighbours)

    def shown(row, noise):
        state = made.add(made.start(), np.array([ROWS[shape][-1], row]))
        return np.asarray(made.release(state, noise)[1], float).ravel()

    if neighbours == "replace-row":
        return [dearest(shown, ROWS[shape])], [promised(made)]
    nothing = ROWS[shape][0]
    return [max(dearest(shown, [nothing, row]) for row in ROWS[shape][1:])], [promised(made)]


# Folds of a loop ------------------------------------------------------------------------------------------------------


def rewards(name):
    """A run of a policy of arms, and the same with another answer in one of its rounds."""
    _, made, world = next(iter(built(policy(name))))
    return [run_cost(made, world)], [claimed(made)]


def candidates():
    """A candidate with another feature, group and reward: its row of the regression and its place in the ranks."""
    made = policy("batched-private-fair-greedy")
    worlds = list(itertools.product((-9.0, -2.0, 0.0, 2.0), (0, 1), (-3.0, 0.0, 0.5, 1.0)))

    def shown(world, noise):
        feature, group, reward = world
        rows = made.sum_rows(np.array([[feature]]), np.array([group]), np.array([reward]))
        state = made.sums.add(made.sums.start(), rows)
        return np.asarray(made.sums.release(state, noise)[1])[np.triu_indices(rows.shape[1])]

    return [math.hypot(dearest(shown, worlds), dearest_value(made.histogram))], [claimed(made)]


def interactions():
    """A round with another context and reward in the open sum of an agent, in all releases that follow."""
    made, units = policy("batched-priv-fairx"), []
    for *context, reward in itertools.product((-9.0, -1.0, 0.0, 1.0), (-1.0, 0.0, 1.0), (-5.0, -1.0, 0.0, 1.0)):
        state = made.open(made.start(), 0, np.random.default_rng(0))
        answer = Feedback(0, 0, reward, Round(0, (Candidate(0, np.array(context)),)))
        units.append(made.exact_units(made.learn(state, answer), 0))

    def apart(pair):
        return np.linalg.norm((units[pair[0]] - units[pair[1]]) / made.running.grid.spread)

    def shown(world, noise):
        state, seen = {**made.running.start(), "open": units[world]}, []
        for _ in range(watched(made.running)):
            state, estimate = made.running.release(state, noise)
            seen.append(estimate.ravel())
        return np.concatenate(seen)

    worst = max(itertools.combinations(range(len(units)), 2), key=apart)
    return [apart(worst), dearest(shown, worst)], [made.running.grid.sensitivity, claimed(made)]


def lives(events, places):
    """Who asks three times, each time at so many places: at how many of them a person is learned."""
    person = Person(max_events=events, candidates=places)
    about = {
        "policy": {"name": "batched-private-fair-greedy", "epsilon": 1.0, "delta": 1e-6}, "groups": ["a", "b"],
        "features": [{"name": "x", "low": -1.0, "high": 1.0}], "reward": Reward(0, 1, wait="60s"),
    }  # fmt: skip
    found = 0
    with TemporaryDirectory() as folder, Store.open(f"sqlite:///{folder}/store.db") as store:
        loop = store.create("queue", **about, person=person)
        for who, stood in enumerate(itertools.product(range(places + 2), repeat=3)):
            learned = 0
            for number, times in enumerate(stood):
                shown = [f"p-{who}"] * times + [f"other-{who}-{number}"]
                request = [{"group": "a", "features": [0.1], "subject": one} for one in shown]
                with suppress(LoopError):  # more places of one request than a person may have
                    reply = loop.decide(f"e-{who}-{number}", candidates=request)
                    learned += times * (reply.learning == "pending")
            found = max(found, learned)
        return [found], [units_of_person(loop.facts.spec, Lives())]


# Evaluation -----------------------------------------------------------------------------------------------------------


def values(budget, rules, blanks):
    """A row of a log with another weight for each rule and another reward, or none where that is private."""
    weights = tuple(2.0 + number for number in range(rules))
    made = Evaluation(tuple(f"rule {one}" for one in range(rules)), weights, blanks=blanks, **budget)
    rewards = [-2.0, 0.0, 0.25, 1.0, *([math.nan] if blanks else [])]
    rows = itertools.product(itertools.product((0.0, 1.0, 9.0), repeat=rules), rewards)
    l1, square = furthest([made.units(np.array([weight]), np.array([reward])) for weight, reward in rows])[0]
    if made.price.laplace:
        return [l1], [made.vector.l1]
    one_more = (ONE + 1) / ONE  # what rounding may add to a row under Gaussian noise, see `PrivateValue.encoding`
    return [math.sqrt(square) * one_more], [math.sqrt(made.vector.square)]


SERVED = {
    **{f"people {step} {part}": partial(people, step, part) for step in (1, 2) for part in (1, 3, None)},
    **{f"columns {near} {each}": partial(columns, near, each) for near in ("replace", "add-remove") for each in (1, 2)},
    **{f"bins {kind} {total} {count}": partial(bins, kind, total, count)
       for kind in ("tree", "toeplitz") for total in ("public", "noisy") for count in (2, 3, 5, 8)},
    **{f"sums {shape} {near}": partial(sums, shape, near)
       for shape in ROWS for near in ("replace-row", "zero-out-row")},
    **{f"folds {name}": partial(rewards, name) for name in ("private-nash", "adap-ucb")},
    "folds batched-private-fair-greedy": candidates,
    "folds batched-priv-fairx": interactions,
    **{f"lives {events} {places}": partial(lives, events, places) for events in (1, 2) for places in (1, 2)},
    **{f"values {' '.join(budget)} {rules}{' blanks' * blanks}": partial(values, budget, rules, blanks)
       for budget in ({"epsilon": 1.0}, {"mu": 0.5}) for rules in (1, 2) for blanks in (False, True)},
}  # fmt: skip


def search(name):
    found, bound = SERVED[name]()
    assert (np.array(found) <= np.array(bound) * (1 + 1e-9)).all(), f"{name}: {found} above {bound}"
    assert found == pytest.approx(bound, rel=1e-9), f"{name} is not reached"


@pytest.mark.parametrize("name", SERVED)
def test_a_served_composition_reaches_its_bound_and_never_exceeds_it(name):
    search(name)


def one_fewer(original):
    return lambda self, before: original(replace(self, **{limit_of(self): getattr(self, limit_of(self)) - 1}), before)


def limit_of(part):
    return "rows" if isinstance(part, AtMost) else "groups"


def as_if_absent(original):
    return lambda self, *parts, **about: original(self, *parts, **about | {"replaced": False})


def shorter(original):
    return lambda self, chain: 0.9999 * original(self, chain)


SMALLER = [
    (AtMostGroups, "bound", one_fewer, ("people 1 3", "people 2 3", "columns replace 2", "columns add-remove 2")),
    (AtMost, "bound", one_fewer, ("people 2 1", "people 2 None", "lives 2 1", "lives 2 2")),
    (FanOut, "bound", lambda _: lambda self, before: before, ("bins tree public 5", "bins tree noisy 3", "lives 1 2")),
    (Chain, "__init__", as_if_absent, (
        "columns replace 1", "bins tree public 8", "bins toeplitz public 3", "sums vector replace-row",
        "sums symmetric replace-row", "folds batched-private-fair-greedy", "folds batched-priv-fairx")),
    (RowCode, "moved", shorter, (
        "bins toeplitz noisy 5", "sums scalar replace-row", "sums symmetric zero-out-row", "folds private-nash",
        "folds adap-ucb")),
    (PrivateValue, "encoding", lambda original: lambda self, rules=1: original(self, 1),
     ("values epsilon 2", "values mu 2 blanks")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("owner", "name", "change", "served"),
    [(owner, name, change, one) for owner, name, change, served in SMALLER for one in served],
)
def test_a_smaller_bound_is_exceeded(owner, name, change, served):
    with method(owner, name, change), pytest.raises(AssertionError, match="above"):
        search(served)


FOLDS = {
    "private-nash": ("sum",),
    "adap-ucb": ("sum",),
    "batched-private-fair-greedy": ("sums", "histogram"),
    "batched-priv-fairx": ("running",),
}


def noises(name):
    held = [getattr(policy(name), one) for one in FOLDS[name]]
    bits = [made.grid_bits if isinstance(made, Histogram) else made.grid.sum_bits for made in held]
    return [math.ldexp(made.sigma, -least) for made, least in zip(held, bits, strict=True)]


@pytest.mark.parametrize("name", FOLDS)
def test_twice_the_rows_of_a_unit_are_twice_the_noise_of_every_fold(name, monkeypatch):
    """Nothing in between declares by hand what one row can move."""
    before = noises(name)
    for module in (shapes, histogram):
        monkeypatch.setattr(module, "ROW", replace(ROW, rows=2))
    assert noises(name) == pytest.approx([2 * level for level in before], rel=1e-6)


HERE = {
    "streams.serving.people": "people", "streams.columns": "columns", "privacy.histograms.histogram": "bins",
    "privacy.sums.shapes": "sums", "loop.lives": "lives", "evaluate.private": "values", "reports.evaluation": "values",
}  # fmt: skip
ELSEWHERE = {
    "reports.fairness": "reports/test_report_sensitivity.py",
    "reports.layout": "reports/test_report_sensitivity.py",
}
SOURCES = {"fairveil.privacy.stability", "fairveil.privacy.encodings"}


def test_whoever_composes_is_searched():
    root, found = Path(fairveil.__file__).parent, set()
    for file in root.rglob("*.py"):
        taken = {getattr(node, "module", None) for node in ast.walk(ast.parse(file.read_text()))}
        if taken & SOURCES:
            found.add(".".join(file.relative_to(root).with_suffix("").parts))
    assert found - {"privacy.encodings"} == {*HERE, *ELSEWHERE}
    assert {name.split()[0] for name in SERVED} == {*HERE.values(), "folds"}
    assert {f"folds {name}" for name in FOLDS} <= set(SERVED)
    assert {*FOLDS, "local-nash"} == set(accept.SERVED), "a local policy has no fold: people noise their own bit"
    assert all((Path(__file__).parents[1] / test).exists() for test in ELSEWHERE.values())
