"""Running a pair of worlds, in this process, on all cores, or by spec (task ``audit``)."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import pickle
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, Strict

from fairveil.arrays import Floats
from fairveil.configuration import describe
from fairveil.errors import InputError, SpecError
from fairveil.fields import Epsilon, OpenUnit
from fairveil.privacy.noise import make_noise
from fairveil.proof.engine.attack import Finding, attack
from fairveil.proof.pairs import AuditPair, Run, find_pair, sample_target
from fairveil.randomness import generator
from fairveil.registry import register
from fairveil.task import Count, Outcome, Part, Task, TaskSpec

CHUNK = 25_000


def chunks(trials: int) -> list[tuple[int, int, int]]:
    """``(world, chunk, trials)`` of every piece of work."""
    sizes = [min(CHUNK, trials - start) for start in range(0, trials, CHUNK)]
    return [(world, chunk, size) for world in (0, 1) for chunk, size in enumerate(sizes)]


def run_chunk(run: Run, noise: str, seed: int, world: int, chunk: int, trials: int) -> Floats:
    """One chunk of one world, with its own noise and its own generator."""
    source = make_noise(noise, seed, "audit", world, chunk)
    rows = np.asarray(run(world, trials, source, generator(seed, "audit", world, chunk)), np.float64)
    if rows.ndim < 1 or len(rows) != trials:
        raise InputError(
            "a pair must give one output a trial", given=rows.shape, allowed=f"({trials},) or ({trials}, k)"
        )
    return rows


def outputs(run: Run, trials: int, *, noise: str = "seeded", seed: int = 0, workers: int = 1) -> tuple[Floats, Floats]:
    """All outputs of world 0 and of world 1. With several workers ``run`` must be a function of a module."""
    if noise not in ("seeded", "secure"):
        raise SpecError("the noise is not known", path="noise", given=noise, allowed="seeded, secure")
    work = chunks(trials)
    if workers > 1:
        _check_portable(run)
        context = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(workers, mp_context=context) as pool:
            futures = [pool.submit(run_chunk, run, noise, seed, *piece) for piece in work]
            parts = [future.result() for future in futures]
    else:
        parts = [run_chunk(run, noise, seed, *piece) for piece in work]
    half = len(work) // 2
    return np.concatenate(parts[:half]), np.concatenate(parts[half:])


def audit(
    target: Run | AuditPair,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    trials: int = 100_000,
    confidence: float = 0.95,
    noise: str = "seeded",
    seed: int = 0,
    workers: int = 1,
) -> Finding:
    """Audit a callable ``run(world, trials, noise, rng)`` or an `AuditPair` against a claim (by default its own).

    A pair's own claim includes the one in mu or rho, if it has one; a stated epsilon or delta is audited alone.
    """
    if not isinstance(target, AuditPair):
        if epsilon is None:
            raise SpecError("an audit needs a claim", path="epsilon", fix="state epsilon (and delta)")
        target = AuditPair(target, "world 0 against world 1", "output", epsilon)
    stated = {} if epsilon is None else {"epsilon": float(epsilon)}
    stated |= {} if delta is None else {"delta": delta}
    worlds = outputs(target.run, trials, noise=noise, seed=seed, workers=workers)
    return _judged(target, worlds, {"epsilon": target.epsilon, "delta": target.delta} | stated, confidence, not stated)


def _judged(
    pair: AuditPair, worlds: Sequence[Floats], claim: dict[str, float], confidence: float, own: bool
) -> Finding:
    """The outputs of a pair against a claim; ``own``: it is the pair's, and with it the one in mu or rho."""
    finer = pair.finer if own else None
    return attack(*worlds, **claim, confidence=confidence, worlds=pair.worlds, statistic=pair.statistic, finer=finer)


def _check_portable(run: Callable[..., object]) -> None:
    try:
        pickle.dumps(run)
    except (pickle.PicklingError, AttributeError, TypeError):
        raise SpecError(
            "this run cannot be sent to other processes",
            path="workers",
            fix="define it at the top of a module, or use workers=1",
        ) from None


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
    sample = staticmethod(sample_target)

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
        own = claim == {"epsilon": pair.epsilon, "delta": pair.delta}
        finding = _judged(pair, worlds, claim, spec["confidence"], own)
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
