"""All audits at once: every mechanism and sum, and the planted broken twins beside them.

``python -m fairveil.privacy.audit`` runs them with seeded noise at 95 % confidence.

With ``--secure`` the noise comes from the operating system and cannot be repeated, so the bounds are taken at
confidence 1 - 1e-6: a sound mechanism fails less than once in a million audits. Exit code 6 when a claim is broken or
a twin escapes.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from fairveil import registry
from fairveil.errors import AuditViolation, SpecError
from fairveil.privacy.audit.attack import Finding
from fairveil.privacy.audit.pair import KIND, find_pair, sample_target
from fairveil.privacy.audit.runs import audit
from fairveil.privacy.audit.twins import TWINS

BUDGETS = (0.1, 1.0, 5.0)
SURE = 1 - 1e-6
LIGHTER = 10
ENOUGH = 1.0
"""Sums are audited at the budgets from here on: smaller ones leave nothing to see in a tenth of the trials."""


@dataclass(frozen=True)
class AuditJob:
    """One audit: a registered target, or a twin with its budget."""

    title: str
    target: tuple[tuple[str, Any], ...] | None
    epsilon: float
    broken: bool
    share: int = 1
    """The trials are divided by this: one run of a sum or a policy makes many draws."""


def jobs(kinds: list[str], budgets: tuple[float, ...] = BUDGETS) -> Iterator[AuditJob]:
    """Every registered pair of these kinds with its sample parameters (mechanisms at each budget); then every twin."""
    for entry in registry.entries(KIND):
        table = sample_target(entry.name) if entry.name.split(":")[0] in kinds else None
        if table is None:
            continue
        single = table["kind"] == "mechanism"
        for epsilon in _budgets(table["kind"], budgets):
            given = table | ({"epsilon": epsilon} if epsilon > 0 else {})
            yield AuditJob(entry.name, tuple(given.items()), epsilon, broken=False, share=1 if single else LIGHTER)
    for name in TWINS:
        for epsilon in budgets:
            yield AuditJob(f"twin:{name}", None, epsilon, broken=True)


def _budgets(kind: str, budgets: tuple[float, ...]) -> tuple[float, ...]:
    """0 stands for the budget of the sample."""
    if kind == "sum":
        return tuple(epsilon for epsilon in budgets if epsilon >= ENOUGH)
    return budgets if kind == "mechanism" else (0.0,)


def left_out(kinds: list[str]) -> list[str]:
    """Registered pairs of these kinds that have no sample parameters and are therefore not audited."""
    names = [entry.name for entry in registry.entries(KIND) if entry.name.split(":")[0] in kinds]
    return [name for name in names if sample_target(name) is None]


def work(job: AuditJob, trials: int, confidence: float, noise: str, seed: int) -> Finding:
    """One audit; what every worker process calls."""
    if job.target is not None:
        pair = find_pair(dict(job.target))[1]
        return audit(pair, trials=max(40, trials // job.share), confidence=confidence, noise=noise, seed=seed)
    pair = TWINS[job.title.removeprefix("twin:")](job.epsilon)
    return audit(pair, trials=trials, confidence=confidence, noise=noise, seed=seed)


@contextmanager
def _mapper(workers: int) -> Iterator[Callable[..., Iterator[Finding]]]:
    """``map`` in this process, or over several."""
    if workers == 1:
        yield map
        return
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(workers, mp_context=context) as pool:
        yield pool.map


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fairveil.privacy.audit", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--secure", action="store_true", help="draw noise from OS entropy")
    parser.add_argument(
        "--trials",
        type=int,
        default=100_000,
        help="runs per world (default 100000; a tenth for other kinds than mechanism)",
    )
    parser.add_argument("--kind", action="append", help="kinds to audit (default: mechanism and sum)")
    parser.add_argument("--confidence", type=float, help="of the bounds (default 1 - 1e-6 with --secure, else 0.95)")
    parser.add_argument("--seed", type=int, default=0, help="of seeded noise")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")
    chosen = parser.parse_args(arguments)
    confidence = chosen.confidence if chosen.confidence is not None else SURE if chosen.secure else 0.95
    if chosen.trials < 40 or chosen.workers < 1 or not 0 < confidence < 1:
        raise SpecError("the audit cannot be run like this", allowed="trials >= 40, workers >= 1, 0 < confidence < 1")
    kinds = chosen.kind or ["mechanism", "sum"]
    work_list = list(jobs(kinds))
    noise = "secure" if chosen.secure else "seeded"
    print(f"{len(work_list)} audits, {chosen.trials} trials per world, {noise} noise, confidence {confidence:.7g}")
    for name in left_out(kinds):
        print(f"{name:34} NOT AUDITED: no sample parameters, write a spec for it")
    wrong: list[str] = []
    one = partial(work, trials=chosen.trials, confidence=confidence, noise=noise, seed=chosen.seed)
    with _mapper(chosen.workers) as spread:
        for job, finding in zip(work_list, spread(one, work_list)):
            fine = finding.violated == job.broken
            wrong += [] if fine else [f"{job.title} at epsilon {finding.epsilon:g}"]
            verdict = ("caught" if finding.violated else "ESCAPED") if job.broken else finding.verdict
            claim = f"claimed {finding.epsilon:7.4g} at delta {finding.delta:.0e}"
            finer, event = finding.finer, finding.event
            more = "" if finer is None else f"{finer.name} {finer.claimed:.4g} at least {finer.lower:.4f}"
            if finer is not None and finding.epsilon_lower <= finding.epsilon:
                event = finer.event
            print(
                f"{job.title:34} {claim}  at least {finding.epsilon_lower:7.4f}  {more:27}  {verdict:10}  {event}",
                flush=True,
            )
    print("all sound claims stand, every planted twin was caught" if not wrong else f"FAILED: {', '.join(wrong)}")
    return AuditViolation.exit_code if wrong else 0
