"""`fairveil federate`: plans of parties that learn together without pooling rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fairveil.cli.common import read_spec
from fairveil.errors import InputError

if TYPE_CHECKING:
    from fairveil.federated import Coordinator, Plan

app = typer.Typer(help="Parties that learn together without pooling rows.", no_args_is_help=True)

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="The plan, a TOML file that all parties have.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
KEY_FILE = "signing.key"


def read_plan(file: Path) -> Plan:
    """The plan of a file, checked as a whole."""
    from fairveil.federated import Plan

    plan = Plan.from_table(read_spec(file))
    plan.fingerprint  # noqa: B018  builds what is learned, and refuses what cannot be
    return plan


@app.command()
def check(file: PlanFile, as_json: AsJson = False) -> None:
    """Read a plan, and say what it costs and shows, and its fingerprint: the same for everybody. Reads no data.

    Example: fairveil federate check examples/federation/exposure.toml
    """
    from fairveil.privacy.limits import Limit

    plan = read_plan(file)
    kind, promise = plan.made, plan.made.guarantee()
    limit = Limit.covering(kind.event())
    facts: dict[str, Any] = {
        "fingerprint": plan.fingerprint,
        "parties": ", ".join(member.name for member in plan.party),
        "quorum": plan.least,
        "sums": f"secure, up to {plan.colluding} may collude" if plan.sums == "secure" else "own",
        "promise": f"epsilon {promise.epsilon:g}, delta {promise.delta or 0.0:g}, for {promise.unit}",
        "charge": limit.words(limit.charge(kind.event())),
        **kind.facts(),
    }
    missing = [member.name for member in plan.party if not member.signing_key]
    facts["keys"] = f"missing: {', '.join(missing)}" if missing else "all parties have a signing key"
    if as_json:
        typer.echo(json.dumps({**facts, "notes": list(promise.notes)}))
        return
    console = Console()
    table = Table(show_header=False, box=None)
    for name, value in facts.items():
        table.add_row(f"[bold]{name}[/]", escape(str(value)))
    console.print(table)
    for note in promise.notes:
        console.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)


@app.command("keys")
def make_keys(folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of this party alone.")]) -> None:
    """Make this party's signing key and print its public part, which goes into the plan. A key that is there is kept.

    Example: fairveil federate keys north
    """
    from fairveil.federated import SigningKey

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = folder / KEY_FILE
    if not file.exists():
        SigningKey.new().write(file)
    typer.echo(f'signing_key = "{SigningKey.read(file).public}"')


@app.command()
def local(
    file: PlanFile,
    folder: Annotated[Path, typer.Option(help="Where all keep their files.")] = Path("out/federation"),
    as_json: AsJson = False,
) -> None:
    """Try a plan out: all parties in this process, each with a folder, keys and a ledger of its own.

    Rounds or rows come from the plan's own simulated world or data set. Stopped and started again, it goes on.
    Example: fairveil federate local examples/federation/exposure.toml
    """
    from fairveil.federated import Coordinator, Inline, PartyHost, SigningKey, drive

    plan = read_plan(file)
    for member in plan.party:
        (folder / member.name).mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (folder / member.name / KEY_FILE).exists():
            SigningKey.new().write(folder / member.name / KEY_FILE)
    keys = [SigningKey.read(folder / member.name / KEY_FILE) for member in plan.party]
    plan = replace(plan, party=tuple(replace(one, signing_key=key.public) for one, key in zip(plan.party, keys)))
    hosts, console = list[PartyHost](), Console(stderr=True)
    coordinator = Coordinator(plan, folder / "coordinator")
    try:
        for member, key in zip(plan.party, keys):
            hosts.append(PartyHost(plan, member.name, "environment", folder / member.name, key))
        with console.status("waiting for all parties") as line:
            carrier = Inline({host.index: host.answer for host in hosts})
            drive(coordinator, carrier, watch=lambda now: line.update(_progress(now)))
        result = {
            "fingerprint": plan.fingerprint,
            "synchronisations": coordinator.sync,
            "statements": len(coordinator.journal.entries),
            "bytes": sum(len(entry.to_bytes()) for entry in coordinator.journal.entries),
            "parties": {plan.party[host.index].name: host.worker.result() for host in hosts},
        }
    finally:
        for host in hosts:
            host.close()
        coordinator.close()
    if as_json:
        typer.echo(json.dumps(result))
        return
    counts = ", ".join(f"{result[name]} {name}" for name in ("synchronisations", "statements", "bytes"))
    Console().print(f"{counts}; files in {folder}", highlight=False, soft_wrap=True)


def _progress(now: Coordinator) -> str:
    found = now.status()
    awaited = ", ".join(found["awaited"]) or "nobody"
    return f"synchronisation {found['sync']} of {found['of']}, awaited: {awaited}" + (
        f", last refusal: {found['refused']}" if found["refused"] else ""
    )


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a party or of the coordinator.")],
    as_json: AsJson = False,
) -> None:
    """How far a party or the coordinator is: synchronisations, statements, what is spent. Writes nothing.

    Example: fairveil federate status out/federation/north
    """
    from fairveil.federated.journal import read_statements
    from fairveil.ledger.verify import verify

    if not (folder / "federation.json").exists():
        raise InputError(
            "this is no folder of a federation", path=str(folder), fix="name the folder of a party or the coordinator"
        )
    known = json.loads((folder / "federation.json").read_text())
    facts: dict[str, Any] = {"plan": known["plan"], "party": known["party"] or "coordinator"}
    if (folder / "log").exists():
        entries = read_statements(folder / "log")
        ended = [entry.purpose for entry in entries if entry.purpose in ("close", "void")]
        facts |= {"statements": len(entries), "synchronisations": len(ended), "void": ended.count("void")}
    if (folder / "ledger.db").exists():
        report = verify(folder / "ledger.db")
        facts |= {"spent": report.spent, "releases": report.published, "lost": report.lost}
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for name, value in facts.items():
        Console().print(f"{name}: {value}", highlight=False, markup=False, soft_wrap=True)
