"""`fairveil audit all`: everything that promises privacy in one table. `fairveil audit --sign`: a proof is signed once
its audits, mutants and tests stand on the code of today.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from fairveil.cli import common
from fairveil.errors import AuditViolation, SpecError
from fairveil.proof.engine.everything import DEEP, QUICK, USUAL, AuditEffort, Thing, Verdict, examine, things
from fairveil.proof.engine.signature import Signature, difference, read, sign
from fairveil.registry import register

EFFORTS: dict[str, AuditEffort] = {effort.name: effort for effort in (QUICK, USUAL, DEEP)}


@register("command", "audit-all")
def audit_all(
    effort: str, noise: str, seed: int, workers: int, as_json: bool, repeat: int = 1, pages: Path | None = None
) -> None:
    """Examine every thing, print one row each, and fail when a claim is broken, a mutant escapes or one is left out.

    With ``repeat`` every audit is done again with the next seeds and must stand each time; power and mutants are
    looked at in the first run. ``pages`` is a folder of pages with marked places for results, which are filled in.
    """
    from fairveil.running.progress import Bar

    with common.loading("everything that promises privacy"):
        listed, wrong = list(things()), list[str]()
    for turn in range(repeat):
        again = turn > 0
        tried = replace(EFFORTS[effort], factors=(), mutants=False, copies=False) if again else EFFORTS[effort]
        verdicts: list[Verdict] = []
        with Bar("audit all") as bar, spread_over(workers) as spread:
            bar.start(len(listed), 0)
            for verdict in spread(partial(examine, effort=tried, noise=noise, seed=seed + turn), listed):
                verdicts.append(verdict)
                bar.advance()
            bar.finish()
        check_number(listed, verdicts)
        if as_json:
            table = {"seed": seed + turn, "things": [asdict(v) for v in verdicts]}
            typer.echo(json.dumps(table, allow_nan=False))
        elif again:
            show_again(verdicts, Console(), seed + turn)
        else:
            show(verdicts, Console(), seed)
        if pages is not None and not again:
            write_pages(pages, verdicts, effort, noise)
        wrong += [verdict.title for verdict in verdicts if not verdict.fine]
    if wrong:
        raise AuditViolation(
            "some promises do not stand", given=", ".join(wrong), fix="see the table above; release nothing with them"
        )


def check_number(listed: list[Thing], verdicts: list[Verdict]) -> None:
    """Every pair of every thing was tried, or says why not."""
    expected = sum(len(thing.pairs) for thing in listed)
    found = sum(len(verdict.attempts) + len(verdict.left_out) for verdict in verdicts)
    if len(verdicts) != len(listed) or found != expected:
        given = f"{found} audits of {len(verdicts)} things"
        raise AuditViolation("not everything was audited", given=given, allowed=f"{expected} of {len(listed)}")


def show(verdicts: list[Verdict], console: Console, seed: int = 0) -> None:
    """One row a thing, then what is wrong, left out or without power, in words."""
    audits = sum(len(verdict.attempts) for verdict in verdicts)
    table = Table(title=f"{len(verdicts)} things that promise privacy, {audits} audits, seed {seed}")
    for column, justify in (("what", "left"), ("claim", "right"), ("at least", "right"), ("power", "right")):
        table.add_column(column, justify=justify, overflow="fold")  # type: ignore[arg-type]
    table.add_column("mutants", justify="right")
    table.add_column("", justify="left")
    for verdict in verdicts:
        table.add_row(*row(verdict), "[green]stands[/]" if verdict.fine else "[bold red]FAILS[/]")
    console.print(table)
    planted, escaped = sum(len(verdict.caught) for verdict in verdicts), sum(len(v.escaped) for v in verdicts)
    console.print(f"{planted - escaped} of {planted} planted mutants caught", highlight=False)
    for verdict in verdicts:
        for problem in (verdict.problem, *(f"mutant {name} escaped" for name in verdict.escaped)):
            if problem:
                console.print(f"{verdict.title}: {problem}", highlight=False)
        for name, why in verdict.left_out.items():
            console.print(f"{name}: not tried, {why}", highlight=False)
    weak = [attempt for verdict in verdicts for attempt in verdict.powerless]
    if weak:
        console.print("Without power (weaker noise would not have been seen with so many trials):", highlight=False)
        words = ", ".join(f"{attempt.pair} ({attempt.trials})" for attempt in weak)
        console.print(words, highlight=False)


def show_again(verdicts: list[Verdict], console: Console, seed: int) -> None:
    """A line for a repeated run."""
    audits, broken = sum(len(v.attempts) for v in verdicts), [v.title for v in verdicts if not v.fine]
    said = f"[bold red]FAILS: {', '.join(broken)}[/]" if broken else "[green]all stand[/]"
    console.print(f"seed {seed}: {audits} audits, {said}", highlight=False)


def row(verdict: Verdict) -> tuple[str, str, str, str, str]:
    """What, claim, lower bound, power, mutants caught."""
    claim = f"{verdict.epsilon:.3g}" + (f", {verdict.delta:.0e}" if verdict.delta else "")
    caught = len(verdict.caught) - len(verdict.escaped)
    return (
        verdict.title,
        claim if verdict.epsilon else "",
        f"{verdict.lower:.3f}" if verdict.epsilon else "",
        "none" if verdict.power is None and verdict.epsilon else "" if verdict.power is None else f"{verdict.power:g}",
        f"{caught}/{len(verdict.caught)}" if verdict.caught else "",
    )


BEGIN, END = "<!-- audits:", "<!-- end of audits -->"
"""A place for results: the first line names things, `<!-- audits: policy:ucb sum:tree -->`."""


def write_pages(folder: Path, verdicts: list[Verdict], effort: str, noise: str) -> list[Path]:
    """Fill the marked places of all pages in a folder with the results of a run, and its date."""
    known = {verdict.title: verdict for verdict in verdicts}
    written = []
    for page in sorted(folder.rglob("*.md")):
        parts = page.read_text().split(BEGIN)
        if len(parts) == 1:
            continue
        for place, part in enumerate(parts[1:], 1):
            names, _, rest = part.partition("-->\n")
            after = rest.partition(END)[2]
            if all(name in known for name in names.split()):
                chosen = [known[name] for name in names.split()]
                rest = f"{results(chosen, effort, noise)}{END}{after}"
            parts[place] = f"{names}-->\n{rest}"
        page.write_text(BEGIN.join(parts))
        written.append(page)
    return written


def results(verdicts: list[Verdict], effort: str, noise: str) -> str:
    """A dated table in Markdown: audits of every thing, and what caught each of its mutants."""
    from fairveil import __version__

    day = datetime.now(UTC).date().isoformat()
    lines = [
        f"Run of {day}, fairveil {__version__}, `fairveil audit all` ({effort}, {noise} noise, confidence 1 - 1e-6).",
        "",
    ]
    if any(verdict.attempts for verdict in verdicts):
        lines += ["| audit | claim | at least | finer | power | trials |", "|---|---|---|---|---|---|"]
    for verdict in verdicts:
        for attempt in verdict.attempts:
            claim = f"{attempt.epsilon:.3g}" + (f", {attempt.delta:.1e}" if attempt.delta else "")
            power = "none" if attempt.power is None else f"{attempt.power:g}"
            finer = attempt.finer.replace("|", "/") or "-"
            cells = (f"`{attempt.pair}`", claim, f"{attempt.lower:.3f}", finer, power, str(attempt.trials))
            lines.append(f"| {' | '.join(cells)} |")
    if lines[-1]:
        lines.append("")
    lines += ["| mutant | caught by |", "|---|---|"]
    for verdict in verdicts:
        for name, by in verdict.caught.items():
            lines.append(f"| `{verdict.title}` {name} | {by or '**nothing**'} |")
    return "\n".join(lines) + "\n"


@contextmanager
def spread_over(workers: int) -> Iterator[Any]:
    """``map`` in this process, or over several."""
    if workers == 1:
        yield map
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield pool.map


FOLDER = Path("docs/guarantees")
SIGNING = AuditEffort("signing", 1.0, (), mutants=True)
"""What must stand before a signature: every audit and every mutant; power is not measured."""
SHORTEST = 20


@register("command", "audit-sign")
def audit_sign(page: str, why: str | None, folder: Path | None, seed: int, workers: int) -> None:
    """Sign one page by name, or with ``all`` those whose functions are not what was signed."""
    console = Console(soft_wrap=True)
    if why is None or len(why.strip()) < SHORTEST or "\n" in why:
        fix = '--why "blocks are still fixed before a reward is read"'
        raise SpecError("a signature says in one sentence why the proof still holds", path="--why", given=why, fix=fix)
    pages = signed_pages(folder or FOLDER)
    if page != "all" and page not in pages:
        raise SpecError(
            "no page of proofs has this name", path="--sign", given=page, allowed=", ".join((*pages, "all"))
        )
    chosen = [one for name, one in pages.items() if name == page or (page == "all" and one.changed)]
    if not chosen:
        console.print("every page is signed as the code stands", highlight=False)
    refused = []
    for one in chosen:
        show_changes(one, console)
        wrong = problems(one, seed, workers)
        if wrong:
            refused.append(one.page.stem)
            console.print(f"[bold red]{one.page.stem}: not signed[/]", highlight=False)
            console.print("\n".join(wrong), markup=False, highlight=False)
        else:
            sign(one, why.strip())
            console.print(f"[green]{one.page.stem}: signed[/]", highlight=False)
    if refused:
        fix = "read what failed above; a proof that does not hold is mended, not signed"
        raise AuditViolation("these pages were not signed", given=", ".join(refused), fix=fix)


def signed_pages(folder: Path) -> dict[str, Signature]:
    """Pages of a folder that have a place for a signature, by name."""
    found = {page.stem: read(page) for page in sorted(folder.glob("*.md"))}
    pages = {name: one for name, one in found.items() if one is not None}
    if not pages:
        fix = "run it in a checkout, or name the folder with --pages"
        raise SpecError("no page of proofs is here", path="--pages", given=str(folder), fix=fix)
    return pages


def show_changes(signature: Signature, console: Console) -> None:
    """Every function that is not what was signed, and how it changed."""
    last = f"last signed {signature.date}: {signature.why}" if signature.date else "never signed"
    console.print(f"{signature.page.stem}: {last}", markup=False, highlight=False)
    for name in signature.changed:
        words = difference(name, signature.functions[name])
        console.print(f"  {name}\n{words}", markup=False, highlight=False)


def problems(signature: Signature, seed: int, workers: int) -> list[str]:
    """What does not stand of a page: an audit, a law, a mutant that nobody catches, a test; empty when all do."""
    from fairveil.running.progress import Bar

    with common.loading("what is audited"):
        listed, wrong = audited(signature.page, things()), list[str]()
    with Bar(f"{signature.page.stem}: audits, then tests") as bar, spread_over(workers) as spread:
        bar.start(len(listed), 0)
        for verdict in spread(partial(examine, effort=SIGNING, seed=seed), listed):
            bar.advance()
            wrong += [f"{verdict.title}: {verdict.problem}"] if verdict.problem else []
            wrong += [f"{verdict.title}: at least {verdict.lower:.4g}"] if verdict.violated else []
            wrong += [f"{verdict.title}: mutant {name} escaped" for name in verdict.escaped]
    if signature.tests:
        quiet = ["-n", "0", "-q", "-x", "-m", "not long", "-p", "no:cacheprovider", "--no-header", "--tb=short"]
        command = [sys.executable, "-m", "pytest", *quiet, *signature.tests]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wrong += done.stdout.splitlines()[-5:] if done.returncode else []
    return wrong


def audited(page: Path, among: Iterable[Thing]) -> list[Thing]:
    """The things whose audits stand on a page."""
    named = [name for part in page.read_text().split(BEGIN)[1:] for name in part.partition("-->")[0].split()]
    return [thing for thing in among if thing.title in named]
