"""`fairveil report`: a page to hand over."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console

from fairveil import registry
from fairveil.cli.common import PluginFiles, doing, load_plugins, read_spec
from fairveil.errors import SpecError, did_you_mean
from fairveil.running.store import write_atomically, writing

if TYPE_CHECKING:
    from fairveil.bandits.protocol import Policy
    from fairveil.lab.handover import Document


def command(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[LEDGER|STORE|RESULT]",
            help="A ledger file or database, a store of the service, or a result in JSON.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The page (.html) or Markdown file (.md) to write.")] = Path("report.html"),
    policy: Annotated[
        Path | None,
        typer.Option(help="The spec of the policy, or the table of the loop, whose releases a ledger holds."),
    ] = None,
    loop: Annotated[str | None, typer.Option(help="A loop of the service: with --url, a store or its ledger.")] = None,
    url: Annotated[
        str | None, typer.Option(help="Where the service runs: read what it publishes; FAIRVEIL_TOKEN has the token.")
    ] = None,
    anytime: Annotated[
        bool, typer.Option("--anytime", help="Intervals and verdict of the stopping rule: valid at every look.")
    ] = False,
    registry_file: Annotated[
        Path | None,
        typer.Option("--registry", help="Also write an entry of the Deployments Registry (.yaml)."),
    ] = None,
    anchor: Annotated[Path | None, typer.Option(help="The ledger's anchor file, in its second place.")] = None,
    ledger: Annotated[str | None, typer.Option(help="Which ledger, when the source is a database.")] = None,
    key_file: Annotated[
        Path | None, typer.Option("--key-file", help="File with the secret that the ledger was made with.")
    ] = None,
    plugin: PluginFiles = None,
) -> None:
    """Write a report for people who do not know the software: decisions, estimates, budget, promise, how to check.

    Example: fairveil report trial.db --policy trial.toml --out report.html

    Example: fairveil report --url http://127.0.0.1:8080 --loop trial-7 --registry trial-7.yaml
    """
    asked = ReportOptions(policy, loop, anytime, anchor, ledger, key_file)
    with doing(f"writing {out}"):
        from fairveil.lab.handover.write import check_report_file, write_document

        load_plugins(plugin)
        check_report_file(out)
        document = _over_http(url, source, asked) if url is not None else _of_source(source, asked)
        entry = None if registry_file is None else _entry(document, registry_file)
        write_document(document, out)
    Console().print(f"report: {out}", highlight=False)
    if entry is not None and registry_file is not None:
        with writing(registry_file):
            write_atomically(registry_file, entry.encode())
        Console().print(f"registry entry: {registry_file}", highlight=False)


class ReportOptions(NamedTuple):
    """What goes with a ledger or a loop."""

    policy: Path | None
    loop: str | None
    anytime: bool
    anchor: Path | None
    ledger: str | None
    key_file: Path | None

    @property
    def key(self) -> bytes | None:
        return None if self.key_file is None else self.key_file.read_bytes().strip()

    def refuse(self, where: str, *kept: str) -> None:
        """Refuse options that do not go with a source."""
        for name, given in self._asdict().items():
            if given and name not in kept:
                raise SpecError(f"this does not go with {where}", path=name, given=str(given), fix="leave it out")


def _entry(document: Document, file: Path) -> str:
    from fairveil.lab.handover.registry_entry import deployment_of, registry_entry, to_yaml

    if file.suffix not in (".yaml", ".yml"):
        raise SpecError("an entry of the registry is a YAML file", path="registry", given=file.name, allowed=".yaml")
    return to_yaml(registry_entry(deployment_of(document)))


def _over_http(url: str, source: str | None, asked: ReportOptions) -> Document:
    from fairveil.cli.loop import loop_by_name
    from fairveil.client import Client
    from fairveil.client.problems import Unreachable
    from fairveil.lab.handover.loops import report_on_loop

    if source is not None:
        raise SpecError("give a file or an address", path="url", given=source, allowed="one of them")
    asked.refuse("what a service publishes; report on its store for that", "loop")
    if asked.loop is None:
        raise SpecError("which loop?", path="loop", fix=f"--loop NAME; fairveil loop list --url {url} shows them")
    try:
        with Client(url, patience=5) as client, loop_by_name(client, asked.loop) as loop:
            return report_on_loop(
                loop.state(), loop.budget(), source=f"what {url} publishes", url=url.rstrip("/"),
                token="FAIRVEIL_TOKEN" in os.environ,
            )  # fmt: skip
    except Unreachable as problem:
        fix = f"{problem.fix}; a store is reported on without one: fairveil report store.db --loop {asked.loop}"
        raise Unreachable(problem.problem, path=problem.path, given=problem.given, fix=fix) from None


def _of_source(source: str | None, asked: ReportOptions) -> Document:
    if source is None:
        raise SpecError(
            "what should the report be on?", path="source", allowed="a ledger, a store, a result, or --url with --loop"
        )
    result = _result_in(source)
    if result is not None:
        from fairveil.lab.handover.results import report_on_result

        asked.refuse("a result")
        return report_on_result(result)
    store, name = _store_of(source, asked)
    if store is not None:
        return _on_store(store, name, asked)
    return _on_ledger(source, asked)


def _on_ledger(source: str, asked: ReportOptions) -> Document:
    from fairveil.lab.handover.ledgers import report_on_ledger

    told = PolicyTold() if asked.policy is None else _policy_in(asked.policy)
    return report_on_ledger(
        source, told.policy, anchor=asked.anchor, ledger=asked.ledger, key=asked.key, names=told.names,
        loop=asked.loop or told.loop, anytime=asked.anytime, replay=told.replay,
    )  # fmt: skip


def _on_store(url: str, ledger: str | None, asked: ReportOptions) -> Document:
    from fairveil.cli.stores import opened
    from fairveil.lab.handover.loops import report_on_store

    with opened(url) as store:
        held = [loop.name for loop in store.loops() if ledger in (None, loop.facts.spec.budget.ledger or loop.name)]
        name = asked.loop or (held[0] if len(held) == 1 else None)
        if name is None or name not in held:
            raise SpecError(
                "which loop?",
                path="loop",
                given=name,
                allowed=", ".join(held[:20]) or "none is here",
                fix=(did_you_mean(name, held) if name is not None else "") or "--loop NAME",
            )
        return report_on_store(store, name, anchor=asked.anchor, anytime=asked.anytime, key=asked.key)


def _store_of(source: str, asked: ReportOptions) -> tuple[str | None, str | None]:
    """The store that is meant, and the ledger in it: a store itself, or the one that stands above a ledger's file."""
    if asked.policy is not None:
        return None, None
    if source.startswith("sqlite:///"):
        return source, None
    if source.startswith(("postgresql://", "postgres://")):
        return (source, None) if asked.loop is not None else (None, None)
    path = Path(source)
    if path.is_dir() and (path / "store.db").exists():
        return f"sqlite:///{path / 'store.db'}", None
    if _holds_loops(path):
        return f"sqlite:///{path}", None
    above = [file for file in path.parent.parent.glob("*.db") if path.parent.name == "ledgers" and _holds_loops(file)]
    return (f"sqlite:///{above[0]}", path.stem) if len(above) == 1 and path.exists() else (None, None)


def _holds_loops(path: Path) -> bool:
    """Whether a file is a store of the service."""
    from fairveil.storage.sqlite import tables_in

    return "loops" in tables_in(path)


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
        _refuse_table(path)
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise SpecError(
            "the result cannot be read", path=source, allowed="what fairveil run --json prints", fix="run it again"
        ) from None
    return found if isinstance(found, dict) else None


def _refuse_table(path: Path) -> None:
    """A CSV or parquet file is people's rows: nothing may be reported from it as it is."""
    from fairveil.ledger.sqlite import MAKING_A_LEDGER, kind_of_table

    kind = kind_of_table(path)
    if kind is None:
        return
    raise SpecError(
        f"this is {kind} file, not a ledger and not a result",
        path=str(path),
        allowed="a ledger, a store, or what fairveil run --json prints",
        fix=f"{MAKING_A_LEDGER}; report on that",
    )


class PolicyTold(NamedTuple):
    """What a spec or a loop's table says of the policy behind a ledger: what its options are called, the loop's name,
    and whether it decided over recorded rows."""

    policy: Policy | None = None
    names: dict[str, str] = {}  # noqa: RUF012  (never written to)
    loop: str | None = None
    replay: bool = False


def _policy_in(file: Path) -> PolicyTold:
    """The policy of a table, completed against its environment where it has one."""
    spec = read_spec(file)
    if {"name", "policy"} <= set(spec):
        from fairveil.loop.accept import policy_of
        from fairveil.loop.config import read_spec as loop_spec

        loop = loop_spec(spec)
        called = {f"arm {place}": name for place, name in enumerate(loop.actions or ())}
        called |= {f"group {place}": name for place, name in enumerate(loop.groups or ())}
        return PolicyTold(policy_of(loop, new=True), called, loop.name)
    if "environment" not in spec:
        return PolicyTold(registry.build("policy", spec.get("policy", spec), "policy"))
    from fairveil.bandits.task import case_of

    case = case_of(spec)
    names = {f"group {place}": name for place, name in enumerate(case.environment.group_names)}
    names |= {f"arm {place}": name for place, name in enumerate(case.environment.arm_names or ())}
    return PolicyTold(case.policy, names, replay=bool(case.environment.recorded))
