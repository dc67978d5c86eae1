"""A plugin of pytest: every test once at each seed of FAIRVEIL_SEEDS ("0,1,2"), whatever seed it writes itself.

At seed 0 a test is what it is. At another one all generators that are made from a number go on from another place:
``np.random.default_rng``, `fairveil.randomness.generator` and with it all seeded noise. Secure noise is fresh anyway.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

SEEDS = [int(word) for word in os.environ.get("FAIRVEIL_SEEDS", "0").split(",")]
SEQUENCE, DEFAULT = np.random.SeedSequence, np.random.default_rng


@contextmanager
def moved_to(seed: int) -> Iterator[None]:
    """Inside, every number that a generator is made from is another one."""

    def sequence(entropy: Any = None, **named: Any) -> Any:
        return SEQUENCE(entropy if entropy is None else [*np.atleast_1d(entropy).tolist(), seed], **named)

    def default(given: Any = None) -> Any:
        whole = isinstance(given, int | np.integer | list | tuple)
        return DEFAULT(sequence(given) if whole else given)

    with pytest.MonkeyPatch.context() as patch:
        if seed:
            patch.setattr(np.random, "SeedSequence", sequence)
            patch.setattr(np.random, "default_rng", default)
        yield


@pytest.fixture(autouse=True, params=SEEDS, ids=lambda seed: f"seed{seed}")
def _at_a_seed(request: pytest.FixtureRequest) -> Iterator[None]:
    with moved_to(request.param):
        yield
