"""Every statement of the three models: how instances are drawn, which check sees them, and its planted false variant.

Instances are drawn freely; premises turn most of them away, and how many is part of the result. What a statement says
of equal things (identical features, the same transitions) is drawn equal.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fairveil.dynamics import draws
from fairveil.dynamics.draws import random_features, spread
from fairveil.dynamics.participation import Composition, Effort
from fairveil.dynamics.participation.model import Participation
from fairveil.dynamics.participation.model import model as participation_model
from fairveil.dynamics.qualification.model import model as qualification_model
from fairveil.dynamics.strategic import Scene
from fairveil.lab.theorems import lemmas, strategic, strategic_fair
from fairveil.lab.theorems import participation as stay
from fairveil.lab.theorems import qualification as qualify
from fairveil.lab.theorems.checks import Check, refused
from fairveil.lab.theorems.premises import Two, of_scene, ratio_rises
from fairveil.randomness import Generator

Seen = Iterable[tuple[Any, Check]]
Try = Callable[[Generator], Seen]
RATES = ("eqopt", "dp")
LINKED = ("simple", "eqopt", "dp")
KINDS = ("none", *RATES)
MONOTONE_RATIO = "monotone likelihood ratio"
DRIVERS = ("accuracy", "disparity", "false-positive", "false-negative", "accepted", "rejected")


@dataclass(frozen=True)
class Sentence:
    """Ways to draw an instance, which take turns, and the premise that the planted variant leaves out.

    With none to leave out ("") the planted variant has the opposite conclusion; a statement that is false in print
    (``drop`` None) has no planted variant.
    """

    tries: list[Try]
    drop: str | None = ""


def _rising(groups: dict[str, Any]) -> bool:
    return all(ratio_rises(group["features"]["0"], group["features"]["1"]) for group in groups.values())


def on_scene(make: Callable[..., draws.Drawn], see: Callable[..., Check]) -> Try:
    def one(rng: Generator) -> Seen:
        groups, utility = make(rng)
        drawn = {"groups": groups, **utility}
        return [(drawn, see(Scene(groups, **utility)) if _rising(groups) else refused(MONOTONE_RATIO))]

    return one


def on_model(make: Callable[..., draws.Drawn], see: Callable[..., Check]) -> Try:
    def one(rng: Generator) -> Seen:
        groups, utility = make(rng)
        drawn = {"groups": groups, **utility}
        if not _rising(groups):
            return [(drawn, refused(MONOTONE_RATIO))]
        return [(drawn, see(rng, partial(qualification_model, groups, utility)))]

    return one


def facts(system: Participation, k: int = 0) -> dict[str, Any]:
    """An instance of a batch as plain data."""
    people = system.people
    return {
        "qualified": people.qualified[k].tolist(),
        "arrivals": system.arrivals[k].tolist(),
        "features": [[people.feature(k, s, y).to_list() for y in (0, 1)] for s in (0, 1)],
    }


def _leading(see: Callable[[Scene, str, int], Check]) -> Callable[[Scene, str], Check]:
    """A check about the group with the higher rate under the naive policy, which is looked for where gains rise."""

    def one(scene: Scene, criterion: str) -> Check:
        sides = of_scene(scene).sides
        if not all(side.rising_gain for side in sides):
            return refused("marginal gain rises (assumption 12)")
        first, second = (side.level(criterion, side.naive) for side in sides)
        return see(scene, criterion, 0 if first < second else 1)

    return one


def _higher(two: Two) -> int:
    """The group with the higher qualification rate."""
    return 0 if two.sides[0].rate > two.sides[1].rate else 1


def _blurred(two: Two) -> int:
    """The group whose labels are less distinguishable."""
    first, second = (float(side.benefit(side.peak)) for side in two.sides)
    return 0 if first < second else 1


def strategic_statements() -> dict[str, Sentence]:
    free, same = draws.costly_groups, partial(draws.costly_groups, same_features=True)

    def each(make: Callable[..., draws.Drawn], see: Callable[[Scene, str], Check]) -> list[Try]:
        return [on_scene(make, lambda scene, c=c: see(scene, c)) for c in RATES]

    return {
        "theorem 22": Sentence([on_scene(free, lambda s: strategic.theorem_22(s, 0))]),
        "theorem 23": Sentence(
            [
                *each(free, lambda s, c: strategic.theorem_23(s, c, _higher(of_scene(s)))),
                *each(same, lambda s, c: strategic.theorem_23(s, c, _higher(of_scene(s)))),
            ],
            strategic.OPPOSITE,
        ),
        "theorem 24": Sentence(each(free, _leading(strategic.theorem_24)), strategic.UNQUALIFIED),
        "theorem 25": Sentence(
            each(draws.near_groups, _leading(strategic_fair.theorem_25)),
            strategic_fair.FITS,
        ),
        "theorem 26.1": Sentence(each(free, strategic_fair.theorem_26)),
        "theorem 26.1 extreme": Sentence(
            each(free, lambda s, c: strategic_fair.theorem_26_extreme(s, c, _higher(of_scene(s))))
        ),
        "theorem 26.2": Sentence(each(draws.peaked_groups, strategic_fair.theorem_26_several)),
        "theorem 27": Sentence(
            each(draws.even_groups, lambda s, c: strategic_fair.theorem_27(s, c, _blurred(of_scene(s)))),
            strategic_fair.MIRROR,
        ),
        "proposition 6": Sentence(each(same, lambda s, c: strategic.proposition_6(s, c, _higher(of_scene(s))))),
        "proposition 6.1": Sentence([on_scene(same, lambda s: strategic.proposition_6_equal(s, _higher(of_scene(s))))]),
        "proposition 6.2": Sentence(
            each(
                partial(draws.near_groups, same_features=True),
                lambda s, c: strategic.proposition_6_turned(s, c, _higher(of_scene(s))),
            ),
            strategic.STRONG,
        ),
        "proposition 7": Sentence(
            each(partial(draws.even_groups, normals=True), lambda s, c: strategic_fair.proposition_7(s, c, 0)),
            strategic_fair.NARROW,
        ),
        "proposition 8": Sentence(
            [on_scene(make, strategic_fair.proposition_8) for make in (same, draws.even_groups)], strategic.IDENTICAL
        ),
    }


def qualification_statements() -> dict[str, Sentence]:
    free, alike = draws.random_groups, partial(draws.random_groups, same_features=True)

    def each(make: Callable[..., draws.Drawn], see: Callable[..., Check], kinds: tuple[str, ...] = KINDS) -> list[Try]:
        return [on_model(make, lambda rng, build, k=k: see(build(k))) for k in kinds]

    def close(rng: Generator) -> draws.Drawn:
        return draws.random_groups(rng, gap=float(rng.uniform(0.02, 1.0)) if rng.random() < 0.5 else 1.0)

    def equality(make: Callable[..., draws.Drawn], printed: bool) -> list[Try]:
        return [
            on_model(
                make,
                lambda rng, build, k=k: qualify.theorem_19(build(), k, float(rng.uniform(0.2, 0.8)), printed=printed),
            )
            for k in RATES
        ]

    return {
        "theorem 17": Sentence(each(free, qualify.theorem_17)),
        "theorem 18": Sentence(each(close, qualify.theorem_18)),
        "corollary 2": Sentence(each(free, qualify.corollary_2)),
        "section 5.7 contraction": Sentence(each(free, qualify.contraction), qualify.CONTRACTION),
        "section 5.7 weaker": Sentence(each(close, qualify.weaker), qualify.CONTRACTION),
        "theorem 19": Sentence(
            [*equality(free, False), *equality(alike, False), *equality(draws.moved_groups, False)], qualify.MISSING
        ),
        "theorem 19 printed": Sentence(equality(draws.moved_groups, True), None),
        "theorem 20": Sentence(
            [on_model(alike, lambda rng, build, k=k: qualify.theorem_20(build(), k)) for k in RATES]
        ),
        "theorem 21": Sentence(
            [on_model(draws.split_groups, lambda rng, build: qualify.theorem_21(build()))], qualify.ENOUGH
        ),
        "proposition 3": Sentence(each(free, qualify.proposition_3)),
        "proposition 3 utility": Sentence(each(alike, qualify.proposition_3_utility, ("eqopt",))),
        "proposition 4": Sentence(
            [on_model(free, lambda rng, build: qualify.proposition_4(build(), float(rng.uniform(0.05, 0.95))))],
            qualify.CASE,
        ),
        "proposition 4 apart": Sentence(each(free, qualify.proposition_4_apart, ("none",)), qualify.APART),
        "proposition 5": Sentence(
            [
                on_model(free, lambda rng, build, k=k, y=y, d=d: qualify.proposition_5(build(k), 0, y, d))
                for k in KINDS
                for y, d in itertools.product((0, 1), (0, 1))
            ]
        ),
    }


def _retention(rng: Generator) -> dict[str, Any]:
    """Retention from any driver; it falls with what people dislike."""
    driver = str(rng.choice(DRIVERS))
    if driver == "disparity":
        return {"driver": driver}
    return {"driver": driver, "response": ["power", float(rng.uniform(0.5, 3.0))]}


def participation_statements() -> dict[str, Sentence]:
    def one_shot(see: Callable[..., Check], fairness: str) -> Try:
        def one(rng: Generator) -> Seen:
            first, second = rng.uniform(0.05, 0.95, 2).tolist()
            system = draws.random_model(rng, fairness)
            return [(facts(system), see(system, first, second))]

        return one

    def driven(fairness: str) -> Try:
        def one(rng: Generator) -> Seen:
            system = draws.random_model(rng, fairness, _retention(rng))
            return [(facts(system), stay.theorem_12(system))]

        return one

    def two_shares(fairness: str) -> Try:
        """No shape of features is assumed here but what the solver needs."""

        def one(rng: Generator) -> Seen:
            first, second = rng.uniform(0.05, 0.95, 2).tolist()
            groups = {
                name: {"qualified": float(rng.uniform(0.1, 0.9)), "arrivals": 1.0, "features": random_features(rng)}
                for name in "ab"
            }
            if not _rising(groups):
                return [(groups, refused(MONOTONE_RATIO))]
            system = participation_model(groups, fairness, _retention(rng))
            return [(groups, stay.theorem_13(system, first, second))]

        return one

    def settling(fairness: str) -> Try:
        def many(rng: Generator) -> Seen:
            system = draws.random_models(rng, 20, fairness)
            return ((facts(system, k), seen) for k, seen in enumerate(stay.theorem_15_batch(system)))

        return many

    def reacting(make: Callable[..., Any], fairness: str, drift: Any) -> Try:
        """The premises are rare, so a batch is drawn and only instances that may meet them are followed; all count."""

        def many(rng: Generator) -> Seen:
            system = make(rng, 500, fairness, drift)
            for k, slow in enumerate(stay.slow_at_first(system)):
                one = system.select(np.array([k]))
                yield (facts(one), stay.theorem_16(one)) if slow else (None, refused("slow at first"))

        return many

    reactions = {
        "labels": (draws.random_models, Composition(0.02), Composition(0.005)),
        "features": (draws.overlapping_models, Effort(0.5), Effort(0.05)),
    }
    return {
        "theorem 14": Sentence([one_shot(stay.theorem_14, f) for f in LINKED]),
        "theorem 12": Sentence([driven(f) for f in LINKED], stay.MONOTONE),
        "theorem 13": Sentence([two_shares(f) for f in LINKED], stay.FALLING),
        "theorem 15": Sentence([settling(f) for f in LINKED]),
        **{
            f"theorem 16 {f} {what}": Sentence([reacting(make, f, drift) for drift in drifts])
            for f in LINKED
            for what, (make, *drifts) in reactions.items()
        },
        **{f"{name} {f}": Sentence([_lemma(name, f)]) for name in _LEMMAS for f in LINKED},
    }


_LEMMAS = ("lemma 17", "lemma 18", "lemma 19", "lemma 20")


def _lemma(name: str, fairness: str) -> Try:
    """Pairs of one-shot problems: the second has lower label rates, or fewer qualified people in the overlap."""

    def one(rng: Generator) -> Seen:
        system = draws.overlapping_models(rng, 1, fairness)
        part = 1.0 - spread(rng, 1e-4, 0.5) if name in ("lemma 18", "lemma 20") else float(rng.uniform(0.3, 1.0))
        parts = np.array([part, part ** float(rng.uniform(0.3, 3.0))])
        share = float(rng.uniform(0.05, 0.95)) if name in ("lemma 18", "lemma 20") else None
        if not lemmas.decided_inside(system):
            return [(None, refused(lemmas.INSIDE))]
        labels = name in ("lemma 17", "lemma 18")
        changed = lemmas.lowered(system, system.people.qualified * parts) if labels else lemmas.tempered(system, parts)
        if share is None:
            return [(facts(system), lemmas.thresholds_rise(name, system, changed))]
        return [(facts(system), lemmas.losses_part(name, system, changed, share))]

    return one


def statements() -> dict[str, Sentence]:
    """Every statement, by chapter."""
    return {**strategic_statements(), **qualification_statements(), **participation_statements()}
