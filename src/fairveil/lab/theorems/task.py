"""The `theorem` task: one statement of the theory on random instances that meet its premises."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

from pydantic import Field

from fairveil.errors import SpecError, did_you_mean
from fairveil.fields import Count
from fairveil.lab.theorems.checks import Check, Sweep, sweep
from fairveil.lab.theorems.statements import Sentence, statements
from fairveil.randomness import Generator, generator
from fairveil.registry import register
from fairveil.task import Outcome, Part, Task, TaskSpec, run_blocks

COUNTED = ("tried", "applied", "held", "failed")
BLOCK = 50
KEPT = 3
"""Counterexamples that are shown."""
PATIENCE = 1000
"""Drawing stops at this many instances per instance wanted."""


def cases(statement: Sentence, rng: Generator, count: int, planted: bool = False) -> Iterator[tuple[Any, Check]]:
    """Draw until enough instances meet the premises, taking variants in turn; give up at a thousand times as many."""
    tried = applied = 0
    for one in itertools.cycle(statement.tries):
        for instance, found in one(rng):
            seen = found.planted(statement.drop) if planted and found.planted and statement.drop is not None else found
            tried += 1
            applied += seen.applies
            yield instance, seen
            if applied >= count or tried >= PATIENCE * count:
                return


def swept(statement: str, count: int, rng: Generator, planted: bool = False) -> Sweep:
    """A statement, or its ``planted`` false variant, on random instances until ``count`` of them met its premises."""
    return sweep(statement, cases(statements()[statement], rng, count, planted))


class TheoremSpec(TaskSpec):
    """Keys of a theorem spec."""

    statement: str = Field(description="which theorem or proposition, for example theorem 15")
    count: Count = Field(1000, description="instances that must meet the premises")
    planted: bool = Field(False, description="test the statement's planted false variant instead, which must fail")


@register("task", "theorem")
class TheoremTask(Task):
    """Draw instances until enough meet a statement's premises, and count how often its conclusion is seen.

    Metrics: ``tried``, ``applied`` (premises met), ``held``, ``failed``, and the first ``counterexamples`` with their
    inputs. Drawing stops at a thousand times ``count`` instances.
    """

    Spec = TheoremSpec

    def fill(self, model: Any) -> dict[str, Any]:
        known = statements()
        if model.statement not in known:
            raise SpecError(
                "there is no such statement",
                path="statement",
                given=model.statement,
                allowed=", ".join(known),
                fix=did_you_mean(model.statement, known),
            )
        return super().fill(model)

    def blocks(self, spec: dict[str, Any]) -> list[dict[str, Any]]:
        return run_blocks(spec["count"], BLOCK)

    def work(self, spec: dict[str, Any], block: dict[str, Any]) -> Part:
        rng = generator(spec["seed"], spec["statement"], block["first"])
        seen = swept(spec["statement"], block["last"] - block["first"], rng, spec["planted"]).to_dict()
        return {key: seen[key] for key in COUNTED} | {
            "counterexamples": json.dumps(seen["counterexamples"], default=float)
        }

    def finish(self, spec: dict[str, Any], parts: list[Part]) -> Outcome:
        counted = {key: sum(int(part[key]) for part in parts) for key in COUNTED}
        found = [example for part in parts for example in json.loads(str(part["counterexamples"]))]
        return Outcome({**counted, "counterexamples": found[:KEPT]})
