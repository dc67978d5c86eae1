"""`fairveil audit all`: everything that promises privacy in one table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from fairveil.errors import AuditViolation
from fairveil.privacy.audit.everything import Effort, Verdict, examine, planted, things


def audit_all(effort: Effort, noise: str, seed: int, workers: int, as_json: bool) -> None:
    """Examine every thing, print one row each, and fail when a claim is broken, a mutant escapes or one is left out."""
    from fairveil.running.progress import Bar

    listed = list(things())
    verdicts: list[Verdict] = []
    with Bar("audit all") as bar, _mapper(workers) as spread:
        bar.start(len(listed), 0)
        for verdict in spread(partial(examine, effort=effort, noise=noise, seed=seed), listed):
            verdicts.append(verdict)
            bar.advance()
        bar.finish()
        twins = dict(planted(effort, noise, seed))
    if len(verdicts) != len(listed):
        raise AuditViolation("not everything was audited", given=len(verdicts), allowed=str(len(listed)))
    if as_json:
        typer.echo(json.dumps({"things": [asdict(v) for v in verdicts], "twins": twins}, allow_nan=False))
    else:
        show(verdicts, twins, Console())
    wrong = [verdict.title for verdict in verdicts if not verdict.fine] + [name for name, ok in twins.items() if not ok]
    if wrong:
        raise AuditViolation(
            "some promises do not stand", given=", ".join(wrong), fix="see the table above; release nothing with them"
        )


def show(verdicts: list[Verdict], twins: dict[str, bool], console: Console) -> None:
    """One row a thing, then what is wrong in words."""
    table = Table(title=f"{len(verdicts)} things that promise privacy")
    for column, justify in (("what", "left"), ("claim", "right"), ("at least", "right"), ("power", "right")):
        table.add_column(column, justify=justify, overflow="fold")  # type: ignore[arg-type]
    table.add_column("mutants", justify="right")
    table.add_column("", justify="left")
    for verdict in verdicts:
        claim = f"{verdict.epsilon:.3g}" + (f", {verdict.delta:.0e}" if verdict.delta else "")
        caught = len(verdict.caught) - len(verdict.escaped)
        table.add_row(
            verdict.title,
            claim if verdict.epsilon else "",
            f"{verdict.lower:.3f}" if verdict.epsilon else "",
            _power(verdict),
            f"{caught}/{len(verdict.caught)}" if verdict.caught else "",
            "[green]stands[/]" if verdict.fine else "[bold red]FAILS[/]",
        )
    console.print(table)
    held = sum(twins.values())
    console.print(f"{held} of {len(twins)} planted twins caught", highlight=False)
    for verdict in verdicts:
        for problem in (verdict.problem, *(f"mutant {name} escaped" for name in verdict.escaped)):
            if problem:
                console.print(f"{verdict.title}: {problem}", highlight=False)


def _power(verdict: Verdict) -> str:
    if verdict.problem and not verdict.epsilon:
        return ""
    return "none" if verdict.power is None else f"{verdict.power:g}"


@contextmanager
def _mapper(workers: int) -> Iterator[Any]:
    """``map`` in this process, or over several."""
    if workers == 1:
        yield map
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield pool.map
