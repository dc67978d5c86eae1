"""Privacy mistakes that any releaser of a stream could make, planted in its served methods."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from fairveil.privacy.audit.mutants import Mutant, method, rule
from fairveil.privacy.noise import Noise, ZeroNoise
from fairveil.state import State, copy_state
from fairveil.streams.absorption import Publishing
from fairveil.streams.protocol import Releaser, Track

Method = Callable[..., Any]


def no_clip(releaser: Releaser) -> AbstractContextManager[None]:
    """Values outside the declared range enter as they come."""

    def change(original: Method) -> Method:
        def broken(self: Any, state: State, values: Any, noise: Noise) -> Track:
            declared = self.range
            object.__setattr__(self, "range", None)
            try:
                track: Track = original(self, state, values, noise)
            finally:
                object.__setattr__(self, "range", declared)
            return track

        return broken

    return method(type(releaser), "advance", change)


def raw_filter(releaser: Releaser) -> AbstractContextManager[None]:
    """What is shown after the plain release is made of the values themselves."""

    def change(original: Method) -> Method:
        def broken(self: Releaser, state: State, values: Any, noise: Noise) -> Track:
            exact: Track = original(self, copy_state(state), values, ZeroNoise())
            track: Track = original(self, state, values, noise)
            return track._replace(value=exact.value, low=exact.low, high=exact.high)

        return broken

    return method(type(releaser), "advance", change)


def bare_distance(releaser: Publishing) -> AbstractContextManager[None]:
    """Whether to publish is decided on the raw distance to the last publication."""
    return method(type(releaser), "moved", lambda original: lambda self, distance, noise: distance)


def no_window(releaser: Publishing) -> AbstractContextManager[None]:
    """Every publication may spend a quarter of the budget, whatever was spent before."""
    return method(type(releaser), "offered", lambda original: lambda self, state: self._half / 2)


@rule
def stream_mutants(kind: str, thing: Any) -> list[Mutant]:
    """What applies to every releaser."""
    if kind != "releaser":
        return []
    found = [Mutant("no-clip", "values outside their range", no_clip, by_law=True)]
    if thing.real_time:
        found.append(Mutant("raw-filter", "a filter that reads the values", raw_filter))
    if isinstance(thing, Publishing):
        found.append(Mutant("bare-distance", "a publication that is decided without noise", bare_distance))
        found.append(Mutant("no-window", "publications that forget what was spent before", no_window, by_law=True))
    return found
