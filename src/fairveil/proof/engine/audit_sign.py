"""`fairveil audit --sign`: a proof is signed once its audits, mutants and tests stand on the code of today."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from rich.console import Console

from fairveil.cli import common
from fairveil.errors import AuditViolation, SpecError
from fairveil.proof.engine.audit_all import BEGIN, spread_over
from fairveil.proof.engine.everything import AuditEffort, Thing, examine, things
from fairveil.proof.engine.signature import Signature, difference, read, sign
from fairveil.registry import register

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
