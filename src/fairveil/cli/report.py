"""`fairveil report`: a page to hand over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from fairveil import plugins, registry
from fairveil.cli.specs import read_spec
from fairveil.errors import SpecError

if TYPE_CHECKING:
    from fairveil.bandits.protocol import Policy
    from fairveil.lab.handover import Document


def command(
    source: Annotated[
        str, typer.Argument(metavar="LEDGER|RESULT", help="A ledger file or database, or a result in JSON.")
    ],
    out: Annotated[Path, typer.Option(help="The page (.html) or Markdown file (.md) to write.")] = Path("report.html"),
    policy: Annotated[
        Path | None,
        typer.Option(help="The spec of the policy whose releases a ledger holds: adds decisions, estimates."),
    ] = None,
    anchor: Annotated[Path | None, typer.Option(help="The ledger's anchor file, in its second place.")] = None,
    ledger: Annotated[str | None, typer.Option(help="Which ledger, when the source is a database.")] = None,
    key_file: Annotated[
        Path | None, typer.Option("--key-file", help="File with the secret that the ledger was made with.")
    ] = None,
    plugin: Annotated[list[Path] | None, typer.Option(help="A Python file that registers names of its own.")] = None,
) -> None:
    """Write a report for people who do not know the software: decisions, estimates, budget, promise, how to check.

    Example: fairveil report trial.db --policy trial.toml --out report.html
    """
    from fairveil.lab.handover.write import check_report_file, write_document

    for file in plugin or []:
        plugins.load_file(file)
    check_report_file(out)
    result = _result_in(source)
    if result is not None:
        from fairveil.lab.handover.results import report_on_result

        for name, given in (("policy", policy), ("anchor", anchor), ("ledger", ledger), ("key_file", key_file)):
            if given is not None:
                raise SpecError("this goes with a ledger, and the source is a result", path=name, given=str(given))
        document = report_on_result(result)
    else:
        document = _on_ledger(source, policy, anchor, ledger, key_file)
    write_document(document, out)
    Console().print(f"report: {out}", highlight=False)


def _on_ledger(
    source: str, policy: Path | None, anchor: Path | None, ledger: str | None, key_file: Path | None
) -> Document:
    from fairveil.lab.handover.ledgers import report_on_ledger

    found, names = (None, {}) if policy is None else _policy_in(policy)
    key = None if key_file is None else key_file.read_bytes().strip()
    return report_on_ledger(source, found, anchor=anchor, ledger=ledger, key=key, names=names)


def _result_in(source: str) -> dict[str, Any] | None:
    """A result where the source is one (a JSON file, or a folder of the store), None for a ledger."""
    path = Path(source)
    if path.is_dir() and (path / "result.json").exists():
        from fairveil.running.store import read_result

        return read_result(path)
    if not path.is_file():
        return None
    with path.open("rb") as file:
        start = file.read(16).lstrip()
    if not start.startswith(b"{"):
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise SpecError(
            "the result cannot be read", path=source, allowed="what fairveil run --json prints", fix="run it again"
        ) from None
    return found if isinstance(found, dict) else None


def _policy_in(file: Path) -> tuple[Policy, dict[str, str]]:
    """The policy of a spec, completed against its environment where it has one, and what its options are called."""
    spec = read_spec(file)
    if "environment" not in spec:
        table = spec.get("policy", spec)
        return registry.build("policy", table, "policy"), {}
    from fairveil.bandits.task import BanditTask, case_of

    case = case_of(BanditTask().complete(spec))
    groups = tuple(getattr(case.environment, "group_names", ()) or ())
    arms = tuple(getattr(case.environment, "arm_names", ()) or ())
    names = {f"group {place}": name for place, name in enumerate(groups)}
    return case.policy, names | {f"arm {place}": name for place, name in enumerate(arms)}
