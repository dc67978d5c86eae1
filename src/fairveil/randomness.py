"""Seedable randomness for exploration and simulation.

`Generator` decides arms, draws contexts and simulates people: it can be seeded and repeated. Everything that
protects a person comes from `fairveil.privacy.noise.Noise` instead. The two never convert into each other.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

from fairveil.errors import SpecError

Generator = np.random.Generator

MAX_SEED = 2**63 - 1


def generator(seed: int, *path: int | str) -> Generator:
    """An independent generator for each path below a seed: same seed and path, same stream, on any worker.

    >>> bool(generator(7, "run", 3).integers(100) == generator(7, "run", 3).integers(100))
    True
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed <= MAX_SEED:
        raise SpecError("the seed is not usable", path="seed", given=seed, allowed=f"an integer in [0, {MAX_SEED}]")
    key = tuple(_word(part) for part in path)
    return np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(int(seed), spawn_key=key)))


def spawn(parent: Generator, count: int) -> list[Generator]:
    """Independent children of a generator; the parent's own stream does not move."""
    return list(parent.spawn(count))


@lru_cache(maxsize=4096, typed=True)
def _word(part: int | str) -> int:
    """One 32-bit word. A larger number would fall into two words, and so be the path of two smaller ones."""
    if isinstance(part, str):
        return int.from_bytes(hashlib.sha256(part.encode()).digest()[:4], "big")
    if isinstance(part, bool) or not isinstance(part, int | np.integer) or not 0 <= part < 2**32:
        raise SpecError("a path of a seed is made of names and numbers", given=part, allowed="an integer in [0, 2^32)")
    return int(part)
