"""Running a pair of worlds, in this process or on all cores. Chunks are the same however many workers there are."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import pickle
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fairveil.errors import InputError, SpecError
from fairveil.privacy.audit.attack import Finding, attack
from fairveil.privacy.audit.pair import AuditPair, Run
from fairveil.privacy.noise import make_noise
from fairveil.randomness import generator

CHUNK = 25_000


def chunks(trials: int) -> list[tuple[int, int, int]]:
    """``(world, chunk, trials)`` of every piece of work."""
    sizes = [min(CHUNK, trials - start) for start in range(0, trials, CHUNK)]
    return [(world, chunk, size) for world in (0, 1) for chunk, size in enumerate(sizes)]


def run_chunk(run: Run, noise: str, seed: int, world: int, chunk: int, trials: int) -> NDArray[np.float64]:
    """One chunk of one world, with its own noise and its own generator."""
    source = make_noise(noise, seed, "audit", world, chunk)
    rows = np.asarray(run(world, trials, source, generator(seed, "audit", world, chunk)), np.float64)
    if rows.ndim < 1 or len(rows) != trials:
        raise InputError(
            "a pair must give one output a trial", given=rows.shape, allowed=f"({trials},) or ({trials}, k)"
        )
    return rows


def outputs(
    run: Run, trials: int, *, noise: str = "seeded", seed: int = 0, workers: int = 1
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
    pair = target if isinstance(target, AuditPair) else None
    run = pair.run if pair is not None else target
    if epsilon is None and pair is None:
        raise SpecError("an audit needs a claim", path="epsilon", fix="state epsilon (and delta)")
    zero, one = outputs(run, trials, noise=noise, seed=seed, workers=workers)  # type: ignore[arg-type]
    return attack(
        zero,
        one,
        epsilon=pair.epsilon if epsilon is None and pair is not None else float(epsilon or 0.0),
        delta=(pair.delta if pair is not None else 0.0) if delta is None else delta,
        confidence=confidence,
        worlds=pair.worlds if pair is not None else "world 0 against world 1",
        statistic=pair.statistic if pair is not None else "output",
        finer=pair.finer if pair is not None and epsilon is None and delta is None else None,
    )


def _check_portable(run: Callable[..., object]) -> None:
    try:
        pickle.dumps(run)
    except (pickle.PicklingError, AttributeError, TypeError):
        raise SpecError(
            "this run cannot be sent to other processes",
            path="workers",
            fix="define it at the top of a module, or use workers=1",
        ) from None
