"""The ``audit`` task: audits by spec, on every engine."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, Strict

from fairveil.configuration import describe
from fairveil.fields import Epsilon, OpenUnit
from fairveil.privacy.audit.attack import Finding, attack
from fairveil.privacy.audit.pair import find_pair
from fairveil.privacy.audit.runs import chunks, run_chunk
from fairveil.privacy.noise import make_noise
from fairveil.registry import register
from fairveil.task import Count, Outcome, Part, Task, TaskSpec


class ClaimedBudget(BaseModel):
    """What is audited: epsilon, and delta (0 for a pure claim)."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    epsilon: Epsilon
    delta: Annotated[float, Strict(), Field(ge=0.0, lt=1.0, allow_inf_nan=False)] = 0.0


class AuditSpec(TaskSpec):
    target: dict[str, Any] = Field(
        description="what is audited: kind, name, parameters, and a pair where there are several"
    )
    claimed: ClaimedBudget | None = Field(None, description="the claim under attack; the thing's own when left out")
    trials: Count = Field(100_000, description="runs in each of the two worlds")
    confidence: OpenUnit = Field(0.95, description="of the lower bound")


@register("task", "audit")
class Audit(Task):
    """Measure a lower bound on epsilon by telling two neighbouring worlds apart.

    ``target`` names a thing with an audit pair (``fairveil list audit-pair``), ``claimed`` is the claim under attack
    (the thing's own by default), ``trials`` counts runs per world (``runs`` is not used). Metrics: ``epsilon_lower`` at
    ``confidence``, ``verdict`` (``violated`` when the bound exceeds the claim), ``pair`` and ``statistic`` in words,
    and the hit counts behind them. A thing with Gaussian noise is also held to its mu or rho (``finer``), unless
    another claim is stated.
    """

    Spec = AuditSpec

    def fill(self, model: AuditSpec) -> dict[str, Any]:
        full = model.model_dump(mode="json")
        thing, pair = find_pair(model.target)
        extra = {key: model.target[key] for key in ("kind", "pair") if key in model.target}
        full["target"] = {**extra, **describe(thing)}
        if model.claimed is None:
            full["claimed"] = {"epsilon": pair.epsilon, "delta": pair.delta}
        return full

    def blocks(self, spec: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"world": world, "chunk": chunk, "trials": size} for world, chunk, size in chunks(spec["trials"])]

    def work(self, spec: dict[str, Any], block: dict[str, Any]) -> Part:
        _, pair = find_pair(spec["target"])
        return {"output": run_chunk(pair.run, spec["noise"], spec["seed"], **block)}

    def finish(self, spec: dict[str, Any], parts: list[Part]) -> Outcome:
        thing, pair = find_pair(spec["target"])
        half = len(parts) // 2
        worlds = [np.concatenate([part["output"] for part in side]) for side in (parts[:half], parts[half:])]
        claim = spec["claimed"]
        finding = attack(
            worlds[0],
            worlds[1],
            epsilon=claim["epsilon"],
            delta=claim["delta"],
            confidence=spec["confidence"],
            worlds=pair.worlds,
            statistic=pair.statistic,
            finer=pair.finer if claim == {"epsilon": pair.epsilon, "delta": pair.delta} else None,
        )
        promise = thing.guarantee() if hasattr(thing, "guarantee") else None
        return Outcome(metrics(finding), guarantee=promise, simulated=make_noise(spec["noise"], spec["seed"]).simulated)


def metrics(finding: Finding) -> dict[str, Any]:
    """A finding as plain data."""
    return {
        "epsilon_lower": finding.epsilon_lower,
        "verdict": finding.verdict,
        "pair": finding.worlds,
        "statistic": finding.event,
        "likelier_world": finding.likelier,
        "hits": [finding.hits, finding.other_hits],
        "trials": [finding.trials, finding.other_trials],
        "claimed": {"epsilon": finding.epsilon, "delta": finding.delta},
        "confidence": finding.confidence,
        "finer": None if finding.finer is None else asdict(finding.finer),
    }
