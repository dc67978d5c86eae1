"""The exposure policies as plain NumPy: one loop over rounds and agents, everything inside it in array operations.

Written to be fast within that form: all starts of the optimistic step are tried in one array, the noise of all agents
is drawn together, and a belief is computed once per row or synchronisation, not oftener. It draws the same random
numbers as the compiled simulator, so the two can be compared run by run. Merit e^(10 mu), standard contexts.
"""

from __future__ import annotations

import math

import numpy as np

from fairveil.bandits.environments.exposure import ExposureWorld
from fairveil.bandits.exposure import BatchedPrivFairx
from fairveil.bandits.exposure.optimism import FLAT, SECOND_START, STEPS, TOLERANCE
from fairveil.bandits.exposure.priv_fairx import PrivFairxForm
from fairveil.bandits.simulate import Streams

RATE, ACTIONS = 10.0, 10


def value(means):
    weights = np.exp(RATE * (means - means.max()))
    law = weights / weights.sum()
    found = law @ means
    return found, law, law * (1 + RATE * (means - found))


def ascend(base, slopes, reach, z):
    now, law, slope = value(base + slopes @ z)
    for _ in range(STEPS):
        gradient = slope @ slopes
        norm = math.sqrt(gradient @ gradient)
        if norm <= 0 or norm - gradient @ z <= TOLERANCE * reach:
            break
        share, better = 1.0, False
        while share > 0.05:
            trial = z + share * (gradient / norm - z)
            reached, new_law, new_slope = value(base + slopes @ trial)
            if reached > now:
                better = True
                break
            share *= 0.5
        if not better:
            break
        now, law, slope, z = reached, new_law, new_slope, trial
    return now, law


def optimistic(base, slopes):
    """The law of the most rewarding parameter, as `fairveil.bandits.exposure.optimism` finds it."""
    lengths = np.sqrt(np.einsum("ij,ij->i", slopes, slopes))
    reach = lengths.max()
    _, law, slope = value(base)
    gradient = slope @ slopes
    norm = math.sqrt(gradient @ gradient)
    if reach <= 0 or norm <= 0:
        return law
    start, second = gradient / norm, None
    if RATE * reach > FLAT:
        starts = slopes / lengths[:, None]
        best, runner_up, first = value(base + slopes @ start)[0], -np.inf, None
        means = base + starts @ slopes.T
        weights = np.exp(RATE * (means - means.max(axis=1, keepdims=True)))
        values = ((weights * means).sum(axis=1) / weights.sum(axis=1)).tolist()
        for b, (found, top) in enumerate(zip(values, (base + lengths).tolist())):
            if top <= best:
                continue
            if found > best:
                second, runner_up, first, best = first, best, b, found
            elif found > runner_up:
                second, runner_up = b, found
        second = starts[second] if second is not None and RATE * reach > SECOND_START else None
        start = start if first is None else starts[first]
    reached, law = ascend(base, slopes, reach, start)
    if second is not None:
        other, other_law = ascend(base, slopes, reach, second)
        if other > reached:
            law = other_law
    return law


class Noise:
    """Noise of all releases, summed over agents or one per agent: a tree with refinement, or one draw a batch."""

    def __init__(self, policy, seed, each):
        self.stream, self.agents = Streams.of(seed, 0).noise.stream, policy.agents
        grid = policy.running.grid
        self.levels, self.unit = policy.running.sigma * grid.spread, math.ldexp(1.0, -grid.sum_bits)
        self.first, self.second = grid.upper
        self.width, self.each = policy.dimension + 1, each
        self.tree = isinstance(policy, PrivFairxForm)
        levels = policy.room.bit_length()
        self.stack, self.nodes = np.zeros((2, levels, grid.width))
        self.variances = [0.0] * levels
        self.relative = [1.0]
        while len(self.relative) < levels:
            self.relative.append(1 / (1 + 1 / (2 * self.relative[-1])))

    def release(self, number):
        """The noise of release ``number`` (from 1) as matrices, and its variance relative to one draw."""
        if not self.tree:
            drawn = self.draw(1)[:, 0]
            return self.matrix(drawn if self.each else drawn.sum(axis=0)), 1.0
        level = (number & -number).bit_length() - 1
        drawn = self.draw(level + 1).sum(axis=0)
        estimate, variance = drawn[0], 1.0
        for j in range(level):
            halves = self.variances[j] + variance
            estimate = (drawn[j + 1] * halves + self.nodes[j] + estimate) / (1 + halves)
            variance = halves / (1 + halves)
        self.nodes[level], self.variances[level] = estimate, variance
        rest = number ^ (1 << level)
        self.stack[level] = estimate if rest == 0 else self.stack[(rest & -rest).bit_length() - 1] + estimate
        return self.matrix(self.stack[level]), sum(v for k, v in enumerate(self.relative) if number >> k & 1)

    def draw(self, blocks):
        """Integers on the grid for every agent, one after the other, in the data's own units."""
        drawn = self.stream.standard_normal((self.agents, blocks, len(self.levels)))
        return np.rint(drawn * self.levels) * self.unit

    def matrix(self, flat):
        full = np.empty((*flat.shape[:-1], self.width, self.width))
        full[..., self.first, self.second] = full[..., self.second, self.first] = flat
        return full


class Peer:
    """One policy in NumPy: `fairx-linucb`, `fed-fairx`, sound `priv-fairx`, `batched-priv-fairx` frozen or personal."""

    def __init__(self, policy, seed):
        self.policy, self.d, self.m = policy, policy.dimension, policy.agents
        self.r2, self.confidence = policy.reward_std**2, 2 * math.log(1 / policy.failure)
        self.base = policy.regularisation / self.r2
        self.private = isinstance(policy, PrivFairxForm | BatchedPrivFairx)
        self.personal = policy.keeps_local
        width = self.d + 1
        self.leaf, self.local, self.total = np.zeros((self.m, width, width)), np.zeros((self.m, width, width)), 0.0
        self.theirs, self.variance, self.counted = np.zeros((self.m, width, width)), 0.0, np.zeros(2)
        self.prior = [np.eye(self.d) * self.base] * self.m
        self.target = [np.zeros(self.d)] * self.m
        # offset, then what is added to the log determinant under the root
        self.radius = [(math.sqrt(self.base), self.confidence - self.d * math.log(self.base))] * self.m
        self.sets = [self.believe(i) for i in range(self.m)]
        self.made, self.last = 0, 0
        self.scale = np.ones(width)  # of a row [x, y]
        if self.private:
            self.noise = Noise(policy, seed, self.personal)
            self.units = 2.0**policy.running.grid.bits
            self.scale[-1] = policy.reward_weight
            self.each = policy.running.expected_std(1) ** 2
            self.gain = policy.noise_gain()

    def believe(self, i):
        """Centre and root of the confidence set of one agent."""
        precision, target = self.prior[i], self.target[i]
        if self.policy.uses_local:
            precision = precision + self.local[i, : self.d, : self.d] / self.r2
            target = target + self.local[i, : self.d, self.d] / self.r2
        factor = np.linalg.cholesky(precision)
        inverse = np.linalg.inv(factor)
        centre = inverse.T @ (inverse @ target)
        offset, inside = self.radius[i]
        radius = offset + math.sqrt(max(inside + 2 * np.log(factor.diagonal()).sum(), 0.0))
        if self.personal:
            alone = self.local[i, : self.d, : self.d] / self.r2 + self.base * np.eye(self.d)
            factor = np.linalg.cholesky(alone)
            inverse = np.linalg.inv(factor)
            logs = 2 * np.log(factor.diagonal()).sum() - self.d * math.log(self.base)
            own = math.sqrt(self.base) + math.sqrt(self.confidence + logs)
            if radius > 4 * own:
                radius = own
            else:
                rest = self.prior[i] - self.base * np.eye(self.d)
                known = np.linalg.eigvalsh(inverse @ rest @ inverse.T)[0]
                radius = min(own, radius / math.sqrt(1 + max(known, 0.0)))
        return centre, radius * inverse.T

    def learn(self, i, x, y):
        row = np.append(x, y)
        raw = row
        if self.private:
            row[-1] = min(max(y, -1.0), 1.0)
            row = np.trunc(row * self.scale * self.units) / self.units
        self.leaf[i] += np.outer(row, row)
        if self.policy.uses_local:
            raw[-1] = y
            self.local[i] += np.outer(raw, raw)
            self.sets[i] = self.believe(i)

    def synchronise(self, now):
        self.made += 1
        rows, self.last = now - self.last, now
        if not self.private:
            self.total = self.total + self.leaf.sum(axis=0)
            self.prior = [self.total[: self.d, : self.d] / self.r2 + np.eye(self.d) * self.base] * self.m
            self.target = [self.total[: self.d, self.d] / self.r2] * self.m
        else:
            noise, relative = self.noise.release(self.made)
            if self.noise.tree:
                self.total = self.total + self.leaf.sum(axis=0)
                self.weigh(range(self.m), self.total + noise, self.each * relative * self.m, 1.0)
            else:
                self.batch(rows, noise)
        self.leaf[:] = 0
        if not self.personal:
            self.local[:] = 0
        if self.policy.uses_local:
            self.sets = [self.believe(i) for i in range(self.m)]
        else:
            self.sets = [self.believe(0)] * self.m

    def batch(self, rows, noise):
        weight = float(self.policy.batch_weights(np.array([rows]))[0])
        self.counted += (weight * rows, weight**2 * rows)
        self.variance += self.each * weight**2 * self.m
        share = self.counted[1] / self.counted[0]
        if not self.personal:
            self.total = self.total + weight * (self.leaf.sum(axis=0) + noise)
            self.weigh(range(self.m), self.total, self.variance, share)
            return
        self.theirs += weight * (self.leaf + noise)
        total = self.theirs.sum(axis=0)
        for i in range(self.m):
            self.weigh([i], total - self.theirs[i], self.variance * (self.m - 1) / self.m, share)

    def weigh(self, who, total, variance, share):
        values, vectors = np.linalg.eigh(total[: self.d, : self.d])
        values = np.maximum(values, 0)
        weights = values / (variance * self.gain + self.r2 * share * values)
        known = values * weights
        precision = (vectors * (known + self.base)) @ vectors.T
        target = vectors @ (vectors.T @ total[: self.d, self.d] / self.scale[-1] * weights)
        decided = (known / (known + self.base)).sum()
        inside = np.interp(decided, *self.policy.quantiles) - np.log(known + self.base).sum()
        offset = self.base / math.sqrt(self.base + known.min())
        for i in who:
            self.prior[i], self.target[i] = precision, target
            self.radius[i] = offset, inside + (self.confidence if self.policy.uses_local else 0.0)


def play(policy, rounds, seed):
    """Fairness regret of every agent after ``rounds`` rounds in the standard world."""
    streams = Streams.of(seed, 0)
    rng, choice = streams.world, streams.explore
    theta = np.array(ExposureWorld(agents=policy.agents, dimension=policy.dimension).prepare(rng).theta)
    peer, times, regret = Peer(policy, seed), set(policy.times), np.zeros(policy.agents)
    root_d, std = math.sqrt(policy.dimension), policy.reward_std
    for now in range(1, rounds + 1):
        for i in range(policy.agents):
            contexts = rng.random((ACTIONS, policy.dimension)) / root_d
            centre, root = peer.sets[i]
            law = optimistic(contexts @ centre, contexts @ root)
            arm = min(int(law.cumsum().searchsorted(choice.random(), side="right")), ACTIONS - 1)
            means = contexts @ theta
            fair = np.exp(RATE * (means - means.max()))
            fair /= fair.sum()
            regret[i] += np.abs(fair - law).sum()
            peer.learn(i, contexts[arm], means[arm] + std * rng.standard_normal())
        if now in times:
            peer.synchronise(now)
    return regret
