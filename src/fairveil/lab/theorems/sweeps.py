"""Every theorem of the three models on random instances: what is drawn, and which check sees it.

A statement has several ways to draw an instance (criteria, cases, shapes), which take turns.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from fairveil.dynamics.participation import Composition, Effort
from fairveil.dynamics.participation import draws as staying
from fairveil.dynamics.qualification import draws as rates
from fairveil.dynamics.strategic import Scene, draws
from fairveil.lab.theorems import participation as stay
from fairveil.lab.theorems import qualification as qualify
from fairveil.lab.theorems import strategic, strategic_fair
from fairveil.lab.theorems.checks import Check, Sweep, sweep
from fairveil.randomness import Generator

Seen = Iterable[tuple[Any, Check]]
Try = Callable[[Generator], Seen]
RATES = ("eqopt", "dp")
LINKED = ("simple", "eqopt", "dp")


def ahead(scene: Scene, criterion: str) -> int:
    """The group with the higher rate under the naive policy."""
    return 0 if scene.policy(strategic=False).unfairness(criterion)[0] > 0 else 1


def higher(scene: Scene) -> int:
    return 0 if scene.alpha(0) > scene.alpha(1) else 1


def blurred(scene: Scene) -> int:
    """The group whose labels are less distinguishable."""
    gaps = [f1.spec[1] - f0.spec[1] for f0, f1 in map(scene.features, (0, 1))]
    return 0 if gaps[0] < gaps[1] else 1


def on_scene(make: Callable[..., Scene], see: Callable[..., Check]) -> Try:
    def one(rng: Generator) -> Seen:
        scene = make(rng)
        return [({"groups": scene.groups, "gain": scene.gain, "loss": scene.loss}, see(scene))]

    return one


def on_model(make: Callable[..., Any], see: Callable[..., Check]) -> Try:
    def one(rng: Generator) -> Seen:
        system = make(rng)
        return [(facts(system), see(system))]

    return one


def facts(system: Any, k: int = 0) -> dict[str, Any]:
    people = system.people
    known = {
        "qualified": people.qualified[k].tolist(),
        "share": people.share[k].tolist(),
        "features": [[people.feature(k, s, y).to_list() for y in (0, 1)] for s in (0, 1)],
        "gain": float(people.gain[k]),
    }
    return known | {
        key: getattr(system, key)[k].tolist() for key in ("transitions", "arrivals") if hasattr(system, key)
    }


def strategic_sweeps() -> dict[str, list[Try]]:
    plain, low = draws.random_scene, lambda r: draws.random_scene(r, False, "low")
    return {
        "theorem 22": [on_scene(plain, lambda s: strategic.theorem_22(s, 0))],
        "theorem 23": [
            on_scene(
                lambda r, same=same: draws.random_scene(r, same, "opposite"),
                lambda s, c=c: strategic.theorem_23(s, c, 0),
            )
            for c in RATES
            for same in (True, False)
        ],
        "theorem 24": [on_scene(low, lambda s, c=c: strategic.theorem_24(s, c, ahead(s, c))) for c in RATES],
        "theorem 25": [
            on_scene(
                lambda r, k=k: draws.cheap_scene(r, k), lambda s, c=c: strategic_fair.theorem_25(s, c, ahead(s, c))
            )
            for c in RATES
            for k in (1, 2, 3)
        ],
        "theorem 26.1": [on_scene(plain, lambda s, c=c: strategic_fair.theorem_26(s, c)) for c in RATES],
        "theorem 26.1 extreme": [
            on_scene(plain, lambda s, c=c: strategic_fair.theorem_26_extreme(s, c, higher(s))) for c in RATES
        ],
        "theorem 26.2": [
            on_scene(draws.peaked_scene, lambda s, c=c: strategic_fair.theorem_26_several(s, c)) for c in RATES
        ],
        "theorem 27": [
            on_scene(draws.edge_scene, lambda s, c=c: strategic_fair.theorem_27(s, c, blurred(s))) for c in RATES
        ],
        "proposition 6": [
            on_scene(
                lambda r: draws.random_scene(r, True, "low"), lambda s, c=c: strategic.proposition_6(s, c, higher(s))
            )
            for c in RATES
        ],
        "proposition 6.1": [
            on_scene(
                lambda r: draws.random_scene(r, True, "low"), lambda s: strategic.proposition_6_equal(s, higher(s))
            )
        ],
        "proposition 7": [
            on_scene(draws.edge_scene, lambda s, c=c: strategic_fair.proposition_7(s, c, 0)) for c in RATES
        ],
        "proposition 8": [
            on_scene(lambda r: draws.random_scene(r, True, "opposite"), strategic_fair.proposition_8),
        ],
    }


def qualification_sweeps() -> dict[str, list[Try]]:
    cases, kinds = ("1a", "1b"), ("none", *RATES)
    return {
        "theorem 17": [
            on_model(lambda r, c=c, f=f: rates.random_model(r, c, False, fairness=f), qualify.theorem_17)
            for c in ("1a", "1b", "1c", "1d")
            for f in kinds
        ],
        "theorem 18": [
            on_model(
                lambda r, c=c, f=f: rates.random_model(r, c, False, gap=float(r.uniform(0.02, 0.3)), fairness=f),
                qualify.theorem_18,
            )
            for c in cases
            for f in kinds
        ],
        "theorem 19": [
            on_model(
                lambda r, c=c, same=same: rates.random_model(r, c, same, gap=0.5),
                lambda m, f=f: qualify.theorem_19(m, f, 0.45),
            )
            for c in cases
            for f in RATES
            for same in (True, False)
        ],
        "theorem 19 printed": [
            on_model(
                lambda r, c=c: rates.moved_model(r, c), lambda m, f=f: qualify.theorem_19(m, f, 0.45, printed=True)
            )
            for c in cases
            for f in RATES
        ],
        "theorem 20": [
            on_model(lambda r, c=c: rates.random_model(r, c), lambda m, f=f: qualify.theorem_20(m, f))
            for c in cases
            for f in RATES
        ],
        "theorem 21": [
            on_model(lambda r: rates.random_model(r, "1b", same_transitions=True, ordered=True), qualify.theorem_21)
        ],
        "proposition 3": [
            on_model(lambda r, c=c, f=f: rates.random_model(r, c, False, fairness=f), qualify.proposition_3)
            for c in cases
            for f in kinds
        ],
        "proposition 4": [
            on_model(lambda r, c=c: rates.random_model(r, c, False), qualify.proposition_4) for c in cases
        ],
        "proposition 5": [
            on_model(
                lambda r, c=c, f=f: rates.random_model(r, c, False, fairness=f),
                lambda m, y=y, d=d: qualify.proposition_5(m, 0, y, d),
            )
            for c in cases
            for f in kinds
            for y, d in itertools.product((0, 1), (0, 1))
        ],
    }


def participation_sweeps() -> dict[str, list[Try]]:
    def shares(rng: Generator) -> tuple[float, float]:
        first, second = rng.uniform(0.05, 0.95, 2).tolist()
        return first, second

    def one_shot(fairness: str) -> Try:
        def one(rng: Generator) -> Seen:
            pair = shares(rng)
            return on_model(lambda r: staying.random_model(r, fairness), lambda m: stay.theorem_14(m, *pair))(rng)

        return one

    def settling(fairness: str) -> Try:
        def many(rng: Generator) -> Seen:
            system = staying.random_models(rng, 20, fairness)
            return ((facts(system, k), seen) for k, seen in enumerate(stay.theorem_15_batch(system)))

        return many

    def reacting(make: Callable[..., Any], fairness: str, drift: Any) -> Try:
        """The premises are rare, so a batch is drawn and only instances that may meet them are followed; all count."""

        def many(rng: Generator) -> Seen:
            system = make(rng, 500, fairness, drift)
            for k, slow in enumerate(stay.slow_at_first(system)):
                one = system.select(np.array([k]))
                yield (facts(one), stay.theorem_16(one)) if slow else (None, Check("", {"slow at first": False}, None))

        return many

    reactions = {
        "labels": (staying.random_models, Composition(0.02), Composition(0.005)),
        "features": (staying.overlapping_models, Effort(0.5), Effort(0.05)),
    }
    return {
        "theorem 14": [one_shot(f) for f in LINKED],
        "theorem 12": [
            on_model(lambda r, f=f, d=d: staying.random_model(r, f, d), stay.theorem_12)
            for f in LINKED
            for d in ("accuracy", "disparity")
        ],
        "theorem 15": [settling(f) for f in LINKED],
        **{
            f"theorem 16 {f} {what}": [reacting(make, f, drift) for drift in drifts]
            for f in LINKED
            for what, (make, *drifts) in reactions.items()
        },
    }


def cases(tries: list[Try], rng: Generator, count: int) -> Iterator[tuple[Any, Check]]:
    """Draw until enough instances meet the premises, taking variants in turn; give up at a thousand times as many."""
    tried = applied = 0
    for one in itertools.cycle(tries):
        for instance, seen in one(rng):
            tried += 1
            applied += seen.applies
            yield instance, seen
            if applied >= count or tried >= 1000 * count:
                return


def statements() -> dict[str, list[Try]]:
    """Every statement with its ways to draw an instance."""
    return {**strategic_sweeps(), **qualification_sweeps(), **participation_sweeps()}


def tested(statement: str, count: int, rng: Generator) -> Sweep:
    """A statement on random instances, until ``count`` of them met its premises."""
    return sweep(statement, cases(statements()[statement], rng, count))
