"""`fairveil federate`: plans of parties that learn together without pooling rows."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from fairveil.cli.common import AsJson, plain, read_spec, table_of_facts
from fairveil.errors import InputError

if TYPE_CHECKING:
    from fairveil.federated import Coordinator, PartyHost, Plan
    from fairveil.federated.flower.join import Joined

app = typer.Typer(
    no_args_is_help=True,
    help="Parties that learn together without pooling rows.\n\nExample: fairveil federate check plan.toml",
)

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="The plan, a TOML file that all parties have.")]
KEY_FILE = "signing.key"
NODE_FILE = "node.key"
LINE_SECONDS = 2.0
LOCAL = "127.0.0.1"


def read_plan(file: Path) -> Plan:
    """The plan of a file, checked as a whole."""
    from fairveil.federated import Plan

    plan = Plan.from_table(read_spec(file))
    plan.fingerprint()  # builds what is learned, and refuses what cannot be
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
        "fingerprint": plan.fingerprint(),
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
    console = plain()
    console.print(f"fingerprint {facts.pop('fingerprint')}")  # whole: it is compared
    Console().print(table_of_facts(facts))
    for note in promise.notes:
        console.print(f"note: {note}")


@app.command("keys")
def make_keys(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of this party alone.")],
    host: Annotated[
        str, typer.Option(help="Also make an authority and a certificate for this host, to try a federation out.")
    ] = "",
) -> None:
    """Make this party's signing key and node key and print their public parts, which go into the plan.

    Keys that are there are kept. Example: fairveil federate keys north
    """
    from fairveil.federated import SigningKey
    from fairveil.federated.flower.certificates import AUTHORITY, make_certificates, make_node_key, node_public

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not (folder / KEY_FILE).exists():
        SigningKey.new().write(folder / KEY_FILE)
    if not (folder / NODE_FILE).exists():
        make_node_key(folder / NODE_FILE)
    if host and not (folder / AUTHORITY).exists():
        make_certificates(folder, host)
    typer.echo(f'signing_key = "{SigningKey.read(folder / KEY_FILE).public}"')
    typer.echo(f'node_key = "{node_public(folder / NODE_FILE)}"')


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
        with console.status(_Hosts(coordinator, hosts)):
            drive(coordinator, Inline({host.index: host.answer for host in hosts}))
        result = {
            "fingerprint": plan.fingerprint(),
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
    plain().print(f"{counts}; files in {folder}")


class _Hosts:
    """How far all parties of this process are, each time that it is drawn: a long stretch of rounds moves, too."""

    def __init__(self, coordinator: Coordinator, hosts: list[PartyHost]) -> None:
        self.coordinator, self.hosts = coordinator, hosts

    def __rich__(self) -> str:
        found = [host.progress() for host in self.hosts]
        done, of = (sum(int(one[key]) for one in found) for key in ("round", "of"))
        return f"{_progress(self.coordinator)}, round {done} of {of} of all parties together"


def _progress(now: Coordinator) -> str:
    found = now.status()
    awaited = ", ".join(found["awaited"]) or "nobody"
    return f"synchronisation {found['sync']} of {found['of']}, awaited: {awaited}" + (
        f", last refusal: {found['refused']}" if found["refused"] else ""
    )


@app.command()
def coordinate(
    file: PlanFile,
    folder: Annotated[Path, typer.Option(help="Where the coordinator keeps its log; no secret is in it.")],
    host: Annotated[str, typer.Option(help="Address to listen on; others than loopback need a certificate.")] = LOCAL,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: a free one.")] = 9093,
    certificate: Annotated[Path | None, typer.Option(help="PEM certificate of this host.")] = None,
    key: Annotated[Path | None, typer.Option(help="PEM key of the certificate.")] = None,
    ca: Annotated[
        Path | None, typer.Option(help="PEM certificate of the authority that parties trust; checked at the start.")
    ] = None,
) -> None:
    """Run the coordinator of a plan on Flower until everybody has the whole result. Started again, it goes on.

    The SuperLink listens on loopback; the port given here passes the parties' requests to it and nothing else.
    Example: fairveil federate coordinate plan.toml --folder coordinator --host 10.0.0.5 --certificate c.pem --key k.pem
    """
    from fairveil.federated.flower.coordinate import FlowerFederation

    where: dict[str, Any] = {"host": host, "port": port, "certificate": certificate, "key": key, "authority": ca}
    made = FlowerFederation(read_plan(file), folder, **where)
    show = _Line()
    made.run(lambda now: show(f"port {now.front.port}, {_progress(now.coordinator)}"))
    typer.echo(f"complete: {made.coordinator.sync} synchronisations, log in {folder}")


@app.command()
def join(
    file: PlanFile,
    party: Annotated[str, typer.Option(help="The name of this party in the plan.")],
    folder: Annotated[Path, typer.Option(help="Where this party keeps its ledger and state; nobody else's.")],
    server: Annotated[str, typer.Option(metavar="HOST:PORT", help="The coordinator.")],
    ca: Annotated[Path, typer.Option(help="PEM certificate of the authority that signed the coordinator's.")],
    data: Annotated[
        str,
        typer.Option(
            metavar="SOURCE", help="A CSV or parquet file, replay:FILE, python:module.attribute, environment."
        ),
    ] = "environment",
    identity: Annotated[Path | None, typer.Option(help="The folder of `keys`; --folder if left out.")] = None,
    anchor: Annotated[
        Path | None,
        typer.Option(help="A file outside the folder and its backups; a ledger older than it is refused."),
    ] = None,
) -> None:
    """Take part in a plan on Flower with this party's own data. Nothing that the coordinator sends is executed.

    Stopped and started again it goes on; what was sent is repeated, never drawn again.
    Example: fairveil federate join plan.toml --party a --data a.csv --folder a --server host:9093 --ca ca.pem
    """
    from fairveil.federated import PartyHost, SigningKey
    from fairveil.federated.flower.join import Joined

    keys, show = folder if identity is None else identity, _Line()
    plan, key = read_plan(file), SigningKey.read(keys / KEY_FILE)
    host = PartyHost(plan, party, data, folder, key, anchor=anchor)
    try:
        joined = Joined(host, server, authority=ca, node_key=keys / NODE_FILE)
        joined.run(lambda now: show(_party_line(now)))
        typer.echo(json.dumps(host.worker.result()))
    finally:
        host.close()


@app.command()
def retire(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of the party that leaves, or the coordinator's.")
    ],
    party: Annotated[str, typer.Option(help="At the coordinator: the party that is gone.")] = "",
) -> None:
    """Leave a run for good, or tell the coordinator that a party has. What was sent stays; the rest of its rows is out.

    At a party: `join` says so and nothing else from then on. At the coordinator: nobody waits for it any longer, and
    its node key is taken back. Works while `join` or `coordinate` runs. Example: fairveil federate retire out/north
    """
    from fairveil.federated.coordinator import note_retired
    from fairveil.federated.host import leave

    own = _facts_of(folder)["party"]
    if own is None:
        note_retired(folder, party)
    elif party not in ("", own):
        raise InputError("this folder belongs to another party", path=str(folder), given=party, allowed=own)
    else:
        leave(folder)
    typer.echo(f"{party or own} leaves for good")


def _party_line(now: Joined) -> str:
    host, found = now.host, now.host.progress()
    spent = "nothing" if host.ledger is None else host.ledger.limit.words(host.ledger.spent)
    place = f"synchronisation {found['sync']} of {host.plan.made.syncs}, round {found['round']} of {found['of']}"
    refused = now.door.refused or host.last_refusal
    away = "" if now.reached else f", no coordinator at {now.name}:{now.port} yet"
    return f"{place}, spent: {spent}{away}" + (f", last refusal: {refused}" if refused else "")


class _Line:
    """Says on standard error what has changed, at most every few seconds."""

    def __init__(self) -> None:
        self.said, self.at = "", -LINE_SECONDS

    def __call__(self, words: str) -> None:
        if words != self.said and time.monotonic() - self.at >= LINE_SECONDS:
            self.said, self.at = words, time.monotonic()
            typer.echo(words, err=True)


def _facts_of(folder: Path) -> dict[str, Any]:
    """What a folder of a federation is bound to."""
    if not (folder / "federation.json").exists():
        raise InputError(
            "this is no folder of a federation", path=str(folder), fix="name the folder of a party or the coordinator"
        )
    found: dict[str, Any] = json.loads((folder / "federation.json").read_text())
    return found


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

    known = _facts_of(folder)
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
        plain().print(f"{name}: {value}")
