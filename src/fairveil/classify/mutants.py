"""Privacy mutants of the learners: their served functions draw from a broken source, or from too little of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from fairveil.classify.fair.auditor import release_audit
from fairveil.classify.fair.report import release_report
from fairveil.classify.fair.zones import release_zones
from fairveil.classify.game.exponential import Sound
from fairveil.classify.game.private_game import Game
from fairveil.classify.perturbation import Perturbation
from fairveil.privacy.audit.mutants import (
    Mutant,
    Reused,
    data_bound,
    function,
    method,
    no_clip,
    noises,
    rule,
    together,
    with_noise,
)
from fairveil.privacy.noise import Noise, ZeroNoise
from fairveil.randomness import generator
from fairveil.registry import register

SWAPS: dict[str, tuple[str, Callable[[Noise], Noise]]] = {
    "no-noise": ("no noise at all", noises.quiet),
    "half-noise": ("half of the noise", noises.halved),
    "reused-noise": ("noise drawn once and used for ever", Reused),
}
Plants = Callable[[Callable[[Noise], Noise]], AbstractContextManager[None]]


def _counts(swap: Callable[[Noise], Noise]) -> AbstractContextManager[None]:
    change = with_noise(swap)
    served = (release_zones, release_audit, release_report)
    return together(*(function(original, change(original)) for original in served), _weights(swap))


def _weights(swap: Callable[[Noise], Noise]) -> AbstractContextManager[None]:
    return method(Perturbation, "release", with_noise(swap))


def _pick(swap: Callable[[Noise], Noise]) -> AbstractContextManager[None]:
    return together(method(Sound, "sizes", with_noise(swap)), method(Sound, "pick", with_noise(swap)))


def _game(swap: Callable[[Noise], Noise]) -> AbstractContextManager[None]:
    return method(Game, "play", with_noise(swap))


SERVED: dict[str, tuple[Plants, tuple[str, ...]]] = {
    "private-fair": (_counts, ("no-noise", "half-noise", "reused-noise")),
    "private-logistic": (_weights, ("no-noise", "half-noise", "reused-noise")),
    "exponential-fair": (_pick, ("no-noise", "half-noise", "reused-noise")),
    "private-game": (_game, ("no-noise", "half-noise", "reused-noise")),
}
"""How each learner's noise is broken."""


def _registered(learner: str, name: str) -> None:
    plant, _ = SERVED[learner]
    words, swap = SWAPS[name]

    def mutant(thing: Any) -> Mutant:
        return Mutant(name, words, lambda broken: plant(swap))

    mutant.__qualname__ = f"mutant[{learner}/{name}]"
    mutant.__doc__ = f"{words}, in {learner}".capitalize() + "."
    register("mutant", f"learner:{learner}/{name}")(mutant)


for _learner, (_, _names) in SERVED.items():
    for _name in _names:
        _registered(_learner, _name)


def exact_count(learner: Any) -> AbstractContextManager[None]:
    """A fitted model carries the number of positives."""

    def change(original: Callable[..., Any]) -> Callable[..., Any]:
        def broken(self: Any, X: Any, y: Any, *more: Any, **named: Any) -> Any:
            model = original(self, X, y, *more, **named)
            model.positives_ = int(np.sum(np.asarray(y) == model.classes_[1]))
            return model

        return broken

    return method(type(learner.estimator(ZeroNoise(), generator(0))), "fit", change)


@rule
def learner_mutants(kind: str, thing: Any) -> list[Mutant]:
    """What applies to any learner, and to those that clip rows to a public bound (games take categories only)."""
    if kind != "learner" or not thing.guarantee().established:
        return []
    found = [Mutant("exact-count", "the exact number of positives beside the model", exact_count, by_law=True)]
    if getattr(thing, "over_score", hasattr(thing, "bound_of_features")):
        found.append(Mutant("no-clip", "rows enter as long as they come", no_clip, by_law=True))
        found.append(Mutant("data-bound", "a bound that is the longest row there is", data_bound, by_law=True))
    return found


@register("mutant", "learner:private-fair/one-round")
def one_round_of_noise(thing: Any) -> Mutant:
    """Every audit has the noise that one round alone would need."""
    original = release_audit  # the name itself is replaced while the mutant is planted

    def weak(counter: Any, accepted: Any, sigma: float, noise: Noise) -> Any:
        return original(counter, accepted, sigma / 20**0.5, noise)

    return Mutant("one-round", "audit noise of one round in every round", lambda broken: function(release_audit, weak))


@register("mutant", "learner:private-fair/exact-sizes")
def exact_sizes(thing: Any) -> Mutant:
    """Group sizes are read without noise."""
    change = with_noise(noises.quiet)
    return Mutant(
        "exact-sizes", "group sizes without noise", lambda broken: function(release_zones, change(release_zones))
    )
