"""The outcome of checking one theorem on one instance, and of a sweep over many random ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Check:
    """Premises by name, whether the conclusion was seen, and the numbers behind it.

    ``conclusion`` is None when the premises do not hold: the theorem then says nothing.
    """

    theorem: str
    premises: dict[str, bool]
    conclusion: bool | None
    numbers: dict[str, Any] = field(default_factory=dict)

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


def check(theorem: str, premises: dict[str, Any], conclusion: Callable[[], Any], **numbers: Any) -> Check:
    """Build a check; the conclusion is only evaluated when every premise holds."""
    plain = {name: bool(held) for name, held in premises.items()}
    verdict = bool(conclusion()) if all(plain.values()) else None
    return Check(theorem, plain, verdict, numbers)


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
