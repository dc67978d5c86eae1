"""The `theorem` task: one statement of the theory on random instances that meet its premises."""

from __future__ import annotations

import json
from typing import Any

from pydantic import Field

from fairveil.errors import SpecError, did_you_mean
from fairveil.fields import Count
from fairveil.lab.theorems.statements import statements
from fairveil.lab.theorems.sweeps import swept
from fairveil.randomness import generator
from fairveil.registry import register
from fairveil.task import Outcome, Part, Task, TaskSpec, run_blocks

COUNTED = ("tried", "applied", "held", "failed")
BLOCK = 50
KEPT = 3
"""Counterexamples that are shown."""


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
