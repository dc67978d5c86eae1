"""The compiled loop: every agent sees contexts, decides, earns and keeps its row, for a stretch without
synchronisation.

The step interface calls the same functions one decision at a time.
"""

from __future__ import annotations

import math
from collections import namedtuple

import numpy as np

from fairveil.bandits.environments.exposure import draw_contexts
from fairveil.bandits.exposure.belief import believe, believe_plain, refresh, refresh_all
from fairveil.bandits.exposure.optimism import optimistic
from fairveil.compiling import njit
from fairveil.fairness.exposure import fill_law

World = namedtuple("World", "theta noise contexts lasts kinds numbers tables")
"""The truth: parameter, reward noise, context law and number of rounds per agent, true merits."""

Rules = namedtuple("Rules", "kinds numbers tables rows scales rule local trigger")
"""The public configuration of a policy as a kernel reads it.

rows = (private, context bound, reward bound, reward weight, grid units per 1); scales: see `refresh`; rule: radius;
local: own unreleased rows are used; trigger = (threshold or inf, round of the last synchronisation).
"""

Tally = namedtuple("Tally", "fairness reward pulls exposure merit")
"""Sums over rounds: regret per agent; times chosen, probability given and probability deserved per action."""

EXACT, WEIGHTED, PUBLISHED = 0, 1, 2

Releases = namedtuple("Releases", "kind times total noise first second plan facts degrees quantiles")
"""Synchronisations at known times, and all that is public about them: how beliefs are made (exact sums, weighted by
noise, or as published), the running exact sum, the noise of every release (summed over agents, with the row and column
of every number), and what `believe` or `believe_plain` reads.
"""


@njit(cache=True, nogil=True)
def make_row(x, y, rows, row):
    """The scaled row [x/L, w y/B] of one interaction; a private one is clipped and put on the grid toward zero.

    A context above its bound is scaled down together with its reward, which keeps the linear model; then the reward is
    clipped to its own bound. Without privacy the row is [x, y].
    """
    dimension = len(x)
    if rows[0] == 0.0:
        for k in range(dimension):
            row[k] = x[k]
        row[dimension] = y
        return
    norm = 0.0
    for k in range(dimension):
        norm += x[k] * x[k]
    norm = math.sqrt(norm)
    shrink = 1.0 if norm <= rows[1] else rows[1] / norm * (1.0 - 1e-15)
    for k in range(dimension):
        row[k] = math.trunc(x[k] * shrink / rows[1] * rows[4]) / rows[4]
    reward = min(max(y * shrink, -rows[2]), rows[2])
    row[dimension] = math.trunc(reward / rows[2] * rows[3] * rows[4]) / rows[4]


@njit(cache=True, nogil=True)
def raw_row(x, y, rows, row):
    """The same scaled row as the agent itself uses it: neither clipped nor rounded."""
    for k in range(len(x)):
        row[k] = x[k] / rows[1]
    row[len(x)] = y / rows[2] * rows[3]


@njit(cache=True, nogil=True)
def add_row(row, total):
    """total += row row^T, lower triangle and diagonal mirrored."""
    for i in range(len(row)):
        for j in range(i + 1):
            product = row[i] * row[j]
            total[i, j] += product
            if j < i:
                total[j, i] += product


@njit(cache=True, nogil=True)
def choose_law(contexts, centre, root, kind, numbers, table, base, slopes, means, law, work):
    """The law an agent plays: exposure in proportion to merit at the optimistic parameter."""
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
    optimistic(base, slopes, kind, numbers, table, means, law, work)


@njit(cache=True, nogil=True)
def draw_arm(law, coin):
    """The arm at which the cumulative law passes the coin."""
    total = 0.0
    for a in range(len(law) - 1):
        total += law[a]
        if coin < total:
            return a
    return len(law) - 1


@njit(cache=True, nogil=True)
def advance(
    first, last, world_rng, choice_rng, world, rules, prior, target, centre, root, leaf, local, start_det, tally
):
    """Play rounds first..last-1, or until an agent's raw trigger fires; returns the round reached."""
    agents, dimension = centre.shape
    actions = len(tally.pulls)
    contexts = np.empty((actions, dimension))
    base, means, law, fair = np.empty(actions), np.empty(actions), np.empty(actions), np.empty(actions)
    slopes = np.empty((actions, dimension))
    work = np.empty((6, max(actions, 2 * dimension)))
    factors = np.empty((2, dimension, dimension))
    row = np.empty(dimension + 1)
    for now in range(first, last):
        fired = False
        for i in range(agents):
            if now >= world.lasts[i]:
                continue
            draw_contexts(world_rng, world.contexts[i], contexts)
            choose_law(
                contexts, centre[i], root[i], rules.kinds[i], rules.numbers[i], rules.tables[i],
                base, slopes, means, law, work,
            )  # fmt: skip
            arm = draw_arm(law, choice_rng.random())
            for a in range(actions):
                total = 0.0
                for k in range(dimension):
                    total += contexts[a, k] * world.theta[k]
                base[a] = total
            fill_law(base, world.kinds[i], world.numbers[i], world.tables[i], fair)
            unfair = 0.0
            lost = 0.0
            for a in range(actions):
                unfair += abs(fair[a] - law[a])
                lost += (fair[a] - law[a]) * base[a]
                tally.exposure[a] += law[a]
                tally.merit[a] += fair[a]
            tally.fairness[i] += unfair
            tally.reward[i] += lost
            tally.pulls[arm] += 1
            earned = base[arm] + world.noise * world_rng.standard_normal()
            make_row(contexts[arm], earned, rules.rows, row)
            add_row(row, leaf[i])
            if rules.local:
                raw_row(contexts[arm], earned, rules.rows, row)
                add_row(row, local[i])
                log_det = refresh(
                    prior[i], target[i], local[i], rules.scales, rules.rule[i], now + 1.0, centre[i], root[i], factors
                )
                if (now + 1 - rules.trigger[1]) * (log_det - start_det[i]) > rules.trigger[0]:
                    fired = True
        if fired:
            return now + 1
    return last


@njit(cache=True, nogil=True)
def synchronise(made, releases, leaf, local, prior, target, rule):
    """Take in the rows of all agents, with the noise of release number ``made``; in place."""
    total = releases.total
    for r in range(total.shape[0]):
        for c in range(total.shape[1]):
            rows = leaf[0, r, c]
            for i in range(1, len(leaf)):
                rows += leaf[i, r, c]
            total[r, c] += rows
    leaf[:] = 0.0
    local[:] = 0.0
    if releases.kind == EXACT:
        believe_plain(total, 0.0, releases.facts, releases.plan[0], prior, target, rule)
        return
    noisy = total.copy()
    for k in range(len(releases.first)):
        r, c = releases.first[k], releases.second[k]
        noisy[r, c] += releases.noise[made, k]
        if r != c:
            noisy[c, r] += releases.noise[made, k]
    if releases.kind == WEIGHTED:
        believe(
            noisy, releases.plan[made, 0], 1.0, releases.facts, releases.degrees, releases.quantiles,
            prior, target, rule,
        )  # fmt: skip
    else:
        believe_plain(noisy, releases.plan[made, 0], releases.facts, releases.plan[made, 1:], prior, target, rule)


@njit(cache=True, nogil=True)
def play(
    first, last, made, releases, world_rng, choice_rng, world, rules, prior, target, centre, root, leaf, local,
    start_det, tally,
):  # fmt: skip
    """Play rounds first..last-1 with the synchronisations that fall due; returns how many are made then."""
    now = first
    while now < last:
        planned = releases.times[made] if made < len(releases.times) else last + 1
        now = advance(
            now, min(last, planned), world_rng, choice_rng, world, rules, prior, target, centre, root, leaf, local,
            start_det, tally,
        )  # fmt: skip
        if now == planned:
            synchronise(made, releases, leaf, local, prior, target, rules.rule)
            refresh_all(prior, target, local, rules.scales, rules.rule, float(now), centre, root, start_det)
            made += 1
    return made
