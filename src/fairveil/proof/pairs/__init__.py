"""Pair: two neighbouring worlds of one thing, as everything that can be audited describes them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairveil import registry
from fairveil.arrays import Floats
from fairveil.configuration import describe
from fairveil.errors import SpecError
from fairveil.privacy.conversions import gdp_epsilon, zcdp_epsilon
from fairveil.privacy.events import (
    ApproximateEvent,
    BoundedRangeEvent,
    Event,
    GaussianEvent,
    PureEvent,
    ZcdpEvent,
    only_leaf,
)
from fairveil.privacy.noise import Noise
from fairveil.proof.engine.bounds import CurveClaim, FinerClaim
from fairveil.randomness import Generator

Run = Callable[[int, int, Noise, Generator], ArrayLike]
"""``run(world, trials, noise, rng)``: independent outputs in world 0 or 1, shape (trials,) or (trials, k)."""
Trial = Callable[[int, Noise, Generator], Any]
"""``trial(world, noise, rng)``: one output, a number or several."""


def each(trial: Trial) -> Run:
    """A run whose trials are played one after the other."""

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        return np.array([trial(world, noise, rng) for _ in range(trials)], np.float64)

    return run


KIND = "audit-pair"


@dataclass(frozen=True)
class AuditPair:
    """What is run, how the worlds differ (in words), what an output is, and what the thing claims.

    ``finer``: a claim in mu or rho (or by a whole curve) beside it, which shows far more of Gaussian noise than one
    point (epsilon, delta).
    ``trials``: runs per world that show half of the noise missing, in a few seconds. ``covers``: whether the thing's
    own promise is for these neighbours; where it is not, the pair shows what a printed claim leaves out.
    """

    run: Run
    worlds: str
    statistic: str
    epsilon: float
    delta: float = 0.0
    finer: FinerClaim | CurveClaim | None = None
    trials: int = 20_000
    covers: bool = True


def claim_of(event: Event, delta: float = 1e-5) -> tuple[float, float]:
    """The (epsilon, delta) that one event promises; events in other currencies are converted at ``delta``."""
    leaf = only_leaf(event)
    if isinstance(leaf, PureEvent | BoundedRangeEvent):
        return leaf.epsilon, 0.0
    if isinstance(leaf, ApproximateEvent):
        return leaf.epsilon, leaf.delta
    if isinstance(leaf, ZcdpEvent):
        return zcdp_epsilon(leaf.rho, delta), delta
    if isinstance(leaf, GaussianEvent):
        return gdp_epsilon(leaf.mu, delta), delta
    raise SpecError("this event has no single claim to audit", given=event.kind, fix="state epsilon and delta")


def finer_claim(event: Event) -> FinerClaim | None:
    """What an event promises in the currency of Gaussian noise; None where (epsilon, delta) is all there is.

    >>> from fairveil.privacy.events import ParallelEvent
    >>> finer_claim(ParallelEvent(ZcdpEvent(0.5)))
    FinerClaim(name='rho', value=0.5, distance=0.0)
    """
    leaf = only_leaf(event)
    if isinstance(leaf, GaussianEvent):
        return FinerClaim("mu", leaf.mu, leaf.distance)
    return FinerClaim("rho", leaf.rho) if isinstance(leaf, ZcdpEvent) else None


def find_pair(target: Mapping[str, Any], path: str = "target") -> tuple[Any, AuditPair]:
    """The object a target table describes, and its pair. ``kind`` may be left out where the name is unique."""
    table = dict(target)
    if "name" not in table:
        raise SpecError("the target has no name", path=f"{path}.name", allowed=", ".join(registry.names(KIND)))
    kind, second = table.pop("kind", None), table.pop("pair", None)
    wanted = f"{table['name']}/{second}" if second is not None else str(table["name"])
    known = registry.names(KIND)
    matches = [name for name in known if name == f"{kind}:{wanted}" or (kind is None and name.split(":")[1] == wanted)]
    if len(matches) != 1:
        near = difflib.get_close_matches(f"{kind}:{wanted}", known, n=3, cutoff=0.5)
        raise SpecError(
            "no audit pair is registered for this target" if not matches else "several kinds have this name",
            path=path,
            given=f"{kind}:{wanted}" if kind is not None else wanted,
            allowed=", ".join(matches or known),
            fix=f"did you mean {' or '.join(near)}?" if near and not matches else "state the kind" if matches else "",
        )
    thing = registry.build(matches[0].split(":")[0], table, path)
    return thing, registry.get(KIND, matches[0])(thing)


def sample_target(pair_name: str) -> dict[str, Any] | None:
    """A target table for a registered pair, from the thing's own example; None when it gives none."""
    kind, _, rest = pair_name.partition(":")
    name, _, second = rest.partition("/")
    try:
        thing = registry.example(registry.get(kind, name))
    except SpecError:  # somebody's own thing, whose fields say no example
        return None
    return None if thing is None else {"kind": kind, **describe(thing)} | ({"pair": second} if second else {})
