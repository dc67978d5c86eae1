"""The outcome of checking one theorem on one instance, and of a sweep over many random ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Check:
    """Premises by name, whether the conclusion was seen, and the numbers behind it.

    ``conclusion`` is None when the premises do not hold: the theorem then says nothing. Premises are looked at in their
    order and no further than the first that does not hold. ``planted`` is the same instance under a false statement.
    """

    theorem: str
    premises: dict[str, bool]
    conclusion: bool | None
    numbers: dict[str, Any] = field(default_factory=dict)
    planted: Callable[[str], Check] | None = field(default=None, repr=False, compare=False)

    @property
    def applies(self) -> bool:
        return all(self.premises.values())

    @property
    def counterexample(self) -> bool:
        return self.applies and self.conclusion is False

    def to_dict(self) -> dict[str, Any]:
        return {
            "theorem": self.theorem,
            "premises": self.premises,
            "applies": self.applies,
            "conclusion": self.conclusion,
            "numbers": self.numbers,
        }


def refused(premise: str) -> Check:
    """An instance that a premise turned away before anything was built."""
    return Check("", {premise: False}, None)


def check(
    theorem: str,
    premises: dict[str, Any],
    conclusion: Callable[[], Any],
    opposite: Callable[[], Any] | None = None,
    **numbers: Any,
) -> Check:
    """Build a check; premises may be functions, and the conclusion is only looked at when every premise holds.

    ``opposite`` is a false conclusion (the sign flipped, the claim without its bound) for the planted variant.
    """

    def planted(drop: str) -> Check:
        if drop:
            kept = {name: held for name, held in premises.items() if name != drop}
            if len(kept) == len(premises):
                raise ValueError(f"{theorem} has no premise {drop!r}; it has {', '.join(premises)}")
            return replace(check(f"{theorem}, without a premise", kept, conclusion, **numbers), planted=None)
        assert opposite is not None
        return replace(check(f"{theorem}, opposite", premises, opposite, **numbers), planted=None)

    plain: dict[str, bool] = {}
    for name, held in premises.items():
        plain[name] = bool(held() if callable(held) else held)
        if not plain[name]:
            return Check(theorem, plain, None, numbers, planted)
    return Check(theorem, plain, bool(conclusion()), numbers, planted)


@dataclass(frozen=True)
class Sweep:
    """How often a theorem applied and held over many instances; ``counterexamples`` keeps the first few with inputs."""

    theorem: str
    tried: int
    applied: int
    held: int
    counterexamples: tuple[tuple[Any, Check], ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "theorem": self.theorem,
            "tried": self.tried,
            "applied": self.applied,
            "held": self.held,
            "failed": self.applied - self.held,
            "counterexamples": [{"instance": instance, **seen.to_dict()} for instance, seen in self.counterexamples],
        }


def sweep(theorem: str, cases: Iterable[tuple[Any, Check]], keep: int = 3) -> Sweep:
    """Count verdicts over (instance, check) pairs."""
    tried = applied = held = 0
    kept: list[tuple[Any, Check]] = []
    for instance, seen in cases:
        tried += 1
        applied += seen.applies
        held += seen.conclusion is True
        if seen.counterexample and len(kept) < keep:
            kept.append((instance, seen))
    return Sweep(theorem, tried, applied, held, tuple(kept))
