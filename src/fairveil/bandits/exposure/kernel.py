"""The compiled loop: every agent sees contexts, decides, earns and keeps its row, for a stretch without
synchronisation.

The step interface calls the same functions one decision at a time.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairveil.arrays import Bools, Floats, Ints
from fairveil.bandits.environments.exposure import draw_contexts
from fairveil.bandits.exposure.belief import (
    BeliefFacts,
    Beliefs,
    Quantiles,
    Radius,
    believe,
    believe_plain,
    refresh,
    refresh_all,
)
from fairveil.bandits.exposure.optimism import optimistic
from fairveil.compiling import by_kind, inner, njit
from fairveil.fairness.exposure import fill_law

EXACT, WEIGHTED, PUBLISHED = 0, 1, 2
"""How a synchronisation makes beliefs: of exact sums, weighted by noise, or by the published confidence set."""
BELOW_ONE = 1.0 - 1e-15
"""A row that is scaled to its bound stays below it in floating point."""


class Merits(NamedTuple):
    """Merit functions as numbers, first axis agents."""

    kinds: Ints
    numbers: Floats
    tables: Floats


class Rows(NamedTuple):
    """How an interaction becomes a scaled row [x/L, w y/B]; without privacy the row is [x, y]."""

    private: bool
    context: float
    """L, the bound of contexts."""
    reward: float
    """B, the bound of rewards."""
    weight: float
    """w, the weight of the reward."""
    units: float
    """Grid units of 1."""


class Trigger(NamedTuple):
    """The raw determinant rule: its threshold (infinite: none) and the round of the last synchronisation."""

    limit: float
    last: float


class Rules(NamedTuple):
    """The public configuration of a policy as a kernel reads it."""

    merits: Merits
    rows: Rows
    facts: BeliefFacts
    trigger: Trigger


class LocalRules(Rules):
    """Of a policy whose agents use their own unreleased rows."""

    __slots__ = ()


class World(NamedTuple):
    """The truth: parameter, reward noise, context law and number of rounds per agent, true merits."""

    theta: Floats
    noise: float
    contexts: Ints
    lasts: Ints
    merits: Merits


class Gathered(NamedTuple):
    """Sums of rows per agent: not published yet, and as the agent itself uses them."""

    leaf: Floats
    local: Floats


class Sums(NamedTuple):
    """Sums over rounds: regret per agent; times chosen, probability given and probability deserved per action."""

    fairness: Floats
    reward: Floats
    pulls: Ints
    exposure: Floats
    merit: Floats


class Stage(NamedTuple):
    """All that a stretch of rounds reads and changes.

    ``answered``: whether the reward of a decision comes (by the decision's number; empty: all do); ``default`` stands
    for one that does not (not a number: it is left out). ``batch``: the batch of a decision, where several are filled
    at a time and ``gathered.leaf`` holds one after the other (empty: there is one).
    """

    world: World
    rules: Rules
    beliefs: Beliefs
    gathered: Gathered
    tally: Sums
    answered: Bools
    default: float
    batch: Ints


class Span(NamedTuple):
    """Rounds first..last-1; in the first one agents from ``begin`` on play, in the last one those before ``end``.
    ``decided`` decisions were made before; they number the answers."""

    first: int
    last: int
    begin: int
    end: int
    decided: int


class Releases(NamedTuple):
    """Synchronisations at known times, and all that is public about them.

    The running exact sum, the noise of every release (summed over agents, with the row and column of every number),
    tau^2 or the shift of every release, and the radius of every release where it is published.
    """

    kind: int
    times: Ints
    total: Floats
    noise: Floats = np.empty((0, 0))
    first: NDArray[np.intp] = np.empty(0, np.intp)
    second: NDArray[np.intp] = np.empty(0, np.intp)
    spread: Floats = np.empty(0)
    radius: Any = Radius(*np.empty((5, 0)))
    quantiles: Quantiles = Quantiles(np.empty(0), np.empty(0))


class Scratch(NamedTuple):
    """Memory of one decision."""

    contexts: Floats
    base: Floats
    slopes: Floats
    means: Floats
    law: Floats
    work: Floats


@inner
def scratch_for(actions, dimension):
    return Scratch(
        np.empty((actions, dimension)),
        np.empty(actions),
        np.empty((actions, dimension)),
        np.empty(actions),
        np.empty(actions),
        np.empty((6, max(actions, 2 * dimension))),
    )


@njit(cache=True, nogil=True)
def make_row(x, y, rows, row):
    """The scaled row [x/L, w y/B] of one interaction; a private one is clipped and put on the grid toward zero.

    A context above its bound is scaled down together with its reward, which keeps the linear model; then the reward is
    clipped to its own bound. Without privacy the row is [x, y].
    """
    dimension = len(x)
    if not rows.private:
        for k in range(dimension):
            row[k] = x[k]
        row[dimension] = y
        return
    norm = 0.0
    for k in range(dimension):
        norm += x[k] * x[k]
    norm = math.sqrt(norm)
    shrink = 1.0 if norm <= rows.context else rows.context / norm * BELOW_ONE
    for k in range(dimension):
        row[k] = math.trunc(x[k] * shrink / rows.context * rows.units) / rows.units
    reward = min(max(y * shrink, -rows.reward), rows.reward)
    row[dimension] = math.trunc(reward / rows.reward * rows.weight * rows.units) / rows.units


@njit(cache=True, nogil=True)
def raw_row(x, y, rows, row):
    """The same scaled row as the agent itself uses it: neither clipped nor rounded."""
    for k in range(len(x)):
        row[k] = x[k] / rows.context
    row[len(x)] = y / rows.reward * rows.weight


@njit(cache=True, nogil=True)
def add_row(row, total):
    """total += row row^T, lower triangle and diagonal mirrored."""
    for i in range(len(row)):
        for j in range(i + 1):
            product = row[i] * row[j]
            total[i, j] += product
            if j < i:
                total[j, i] += product


@njit(cache=True, nogil=True, inline="always")
def choose_law(i, beliefs, merits, scratch):
    """The law agent i plays on ``scratch.contexts``: exposure in proportion to merit at the optimistic parameter."""
    contexts, base, slopes = scratch.contexts, scratch.base, scratch.slopes
    centre, root = beliefs.centre[i], beliefs.root[i]
    actions, dimension = contexts.shape
    for a in range(actions):
        total = 0.0
        for k in range(dimension):
            total += contexts[a, k] * centre[k]
        base[a] = total
        for j in range(dimension):
            total = 0.0
            for k in range(j + 1):  # root is upper triangular
                total += contexts[a, k] * root[k, j]
            slopes[a, j] = total
    optimistic(
        base, slopes, merits.kinds[i], merits.numbers[i], merits.tables[i], scratch.means, scratch.law, scratch.work
    )


@njit(cache=True, nogil=True)
def draw_arm(law, coin):
    """The arm at which the cumulative law passes the coin."""
    total = 0.0
    for a in range(len(law) - 1):
        total += law[a]
        if coin < total:
            return a
    return len(law) - 1


@njit(cache=True, nogil=True, inline="always")
def measure(i, world, scratch, fair, tally):
    """Means of the actions into ``scratch.base``, the fair law into ``fair``, what the played law misses into tally."""
    contexts, means, law = scratch.contexts, scratch.base, scratch.law
    for a in range(len(means)):
        total = 0.0
        for k in range(contexts.shape[1]):
            total += contexts[a, k] * world.theta[k]
        means[a] = total
    fill_law(means, world.merits.kinds[i], world.merits.numbers[i], world.merits.tables[i], fair)
    unfair = 0.0
    lost = 0.0
    for a in range(len(means)):
        unfair += abs(fair[a] - law[a])
        lost += (fair[a] - law[a]) * means[a]
        tally.exposure[a] += law[a]
        tally.merit[a] += fair[a]
    tally.fairness[i] += unfair
    tally.reward[i] += lost


@by_kind
def use_locally(
    rules: Any, beliefs: Beliefs, local: Floats, i: int, x: Floats, y: float, now: float, row: Floats, factors: Floats
) -> bool:
    """What agent i does with an interaction of its own before it is released; tells whether its trigger fires."""
    return False


@use_locally.of(LocalRules)  # type: ignore[attr-defined]
def _use_locally(
    rules: Any, beliefs: Beliefs, local: Floats, i: int, x: Floats, y: float, now: float, row: Floats, factors: Floats
) -> bool:
    raw_row(x, y, rules.rows, row)
    add_row(row, local[i])
    log_det = refresh(i, beliefs, local[i], rules.facts, now, factors)
    return (now - rules.trigger.last) * (log_det - beliefs.log_det[i]) > rules.trigger.limit


@njit(cache=True, nogil=True)
def advance(span, world_rng, choice_rng, stage):
    """Play a span of rounds, or until an agent's raw trigger fires; returns the round reached."""
    first, last, decided = span.first, span.last, span.decided
    world, rules, beliefs, tally = stage.world, stage.rules, stage.beliefs, stage.tally
    leaf, local = stage.gathered.leaf, stage.gathered.local
    agents, dimension = beliefs.centre.shape
    scratch = scratch_for(len(tally.pulls), dimension)
    fair, row, factors = np.empty(len(tally.pulls)), np.empty(dimension + 1), np.empty((2, dimension, dimension))
    for now in range(first, last):
        fired = False
        for i in range(span.begin if now == first else 0, span.end if now == last - 1 else agents):
            if now >= world.lasts[i]:
                continue
            draw_contexts(world_rng, world.contexts[i], scratch.contexts)
            choose_law(i, beliefs, rules.merits, scratch)
            arm = draw_arm(scratch.law, choice_rng.random())
            measure(i, world, scratch, fair, tally)
            tally.pulls[arm] += 1
            earned = scratch.base[arm] + world.noise * world_rng.standard_normal()
            decided += 1
            if len(stage.answered) > 0 and not stage.answered[decided - 1]:
                if math.isnan(stage.default):
                    continue
                earned = stage.default
            make_row(scratch.contexts[arm], earned, rules.rows, row)
            add_row(row, leaf[i + agents * stage.batch[decided - 1] if len(stage.batch) > 0 else i])
            if use_locally(rules, beliefs, local, i, scratch.contexts[arm], earned, now + 1.0, row, factors):
                fired = True
        if fired:
            return now + 1
    return last


@inner
def synchronise(made, releases, stage):
    """Take in the rows of all agents, with the noise of release number ``made``; in place."""
    total, leaf = releases.total, stage.gathered.leaf
    for r in range(total.shape[0]):
        for c in range(total.shape[1]):
            rows = leaf[0, r, c]
            for i in range(1, len(leaf)):
                rows += leaf[i, r, c]
            total[r, c] += rows
    leaf[:] = 0.0
    stage.gathered.local[:] = 0.0
    facts, beliefs = stage.rules.facts, stage.beliefs
    if releases.kind == EXACT:
        believe_plain(total, 0.0, facts, beliefs)
        return
    noisy = total.copy()
    for k in range(len(releases.first)):
        r, c = releases.first[k], releases.second[k]
        noisy[r, c] += releases.noise[made, k]
        if r != c:
            noisy[c, r] += releases.noise[made, k]
    if releases.kind == WEIGHTED:
        believe(noisy, releases.spread[made], 1.0, facts, releases.quantiles, beliefs)
    else:
        radius, now = releases.radius, beliefs.radius
        for i in range(len(now.offset)):
            now.offset[i] = radius.offset[made]
            now.level[i] = radius.level[made]
            now.follows[i] = radius.follows[made]
            now.base[i] = radius.base[made]
            now.growth[i] = radius.growth[made]
        believe_plain(noisy, releases.spread[made], facts, beliefs)


@njit(cache=True, nogil=True)
def play(first, last, made, releases, world_rng, choice_rng, stage):
    """Play rounds first..last-1 with the synchronisations that fall due; returns how many are made then."""
    now = first
    while now < last:
        planned = releases.times[made] if made < len(releases.times) else last + 1
        span = Span(now, min(last, planned), 0, len(stage.gathered.leaf), 0)
        now = advance(span, world_rng, choice_rng, stage)
        if now == planned:
            synchronise(made, releases, stage)
            refresh_all(stage.beliefs, stage.gathered.local, stage.rules.facts, float(now))
            made += 1
    return made
