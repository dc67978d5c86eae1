"""`fairveil audit`: attack a privacy claim."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fairveil import registry
from fairveil.cli import common
from fairveil.cli.common import EngineName, PluginFiles, Workers, load_plugins, read_spec, working
from fairveil.errors import AuditViolation, SpecError, choices, did_you_mean


def command(
    target: Annotated[
        str,
        typer.Argument(
            help="A spec file (TOML or JSON), a name with an audit pair, or all.", autocompletion=common.names
        ),
    ] = "",
    trials: Annotated[int | None, typer.Option(help="Runs per world.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Budget of the named thing (names only).")] = None,
    confidence: Annotated[float | None, typer.Option(help="Confidence of the lower bound.")] = None,
    secure: Annotated[bool, typer.Option("--secure", help="Draw noise from OS entropy.")] = False,
    seed: Annotated[int | None, typer.Option(help="Replace the seed.")] = None,
    engine: EngineName = "serial",
    workers: Workers = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="With all: bounds and power; mutants only in copies.")] = False,
    deep: Annotated[bool, typer.Option("--deep", help="With all: ten times the trials, OS entropy.")] = False,
    repeat: Annotated[
        int, typer.Option(min=1, help="With all: every audit so often, each time with the next seed.")
    ] = 1,
    pages: Annotated[
        Path | None, typer.Option(help="With all: write results into the pages of this folder; with --sign: its pages.")
    ] = None,
    sign: Annotated[
        str | None, typer.Option(help="Sign a page of proofs, or all whose code changed, when its audits stand.")
    ] = None,
    why: Annotated[str | None, typer.Option(help="With --sign: one sentence why the proof still holds.")] = None,
    plugin: PluginFiles = None,
) -> None:
    """Tell two neighbouring worlds apart and bound epsilon from below; exit code 6 when the claim is broken.

    With ``all`` everything that promises privacy is examined: claim, lower bound, power, and mutants of its code. With
    ``--sign`` the audits, mutants and tests of a page of proofs are run; when all stand it says what changed and signs.

    Example: fairveil audit laplace --trials 100000
    """
    with common.loading("what attacks"):
        registry.get("task", "audit")  # says so where a deployment was made without fairveil.proof
        load_plugins(plugin)
    if sign is not None:
        registry.get("command", "audit-sign")(sign, why, pages, seed or 0, workers or os.cpu_count() or 1)
        return
    if target == "all":
        effort = "quick" if quick else "deep" if deep else "usual"
        source = "secure" if secure or deep else "seeded"
        audit_all = registry.get("command", "audit-all")
        audit_all(effort, source, seed or 0, workers or os.cpu_count() or 1, as_json, repeat, pages)
        return
    with common.loading(target):
        spec = _spec(target, epsilon)
    changes = {"trials": trials, "confidence": confidence, "seed": seed, "noise": "secure" if secure else None}
    spec |= {key: value for key, value in changes.items() if value is not None}
    result = _run(spec, target, engine, workers)
    if as_json:
        typer.echo(json.dumps(result, allow_nan=False))
    else:
        show(result, Console())
    if result["metrics"]["verdict"] == "violated":
        raise _violation(result["metrics"])


def _run(spec: dict[str, Any], target: str, engine: str, workers: int | None) -> dict[str, Any]:
    from fairveil.running.progress import Bar
    from fairveil.running.runner import run

    with working(engine, workers) as workforce, Bar(f"audit {target}") as bar:
        return run(spec, engine=workforce, progress=bar)


def _violation(metrics: dict[str, Any]) -> AuditViolation:
    """What was measured beside what is claimed, in the currency that shows it best."""
    claim, finer = metrics["claimed"], metrics["finer"]
    given, allowed = f"at least {metrics['epsilon_lower']:.4g}", f"{claim['epsilon']:.4g} (delta {claim['delta']:.3g})"
    if finer is not None and finer["lower"] > finer["claimed"]:
        given, allowed = f"{finer['name']} at least {finer['lower']:.4g}", f"{finer['claimed']:.4g}"
    return AuditViolation(
        "the measured privacy loss exceeds the claim",
        given=given,
        allowed=f"at most {allowed}",
        fix="do not release with it; the statistic above shows how the worlds differ",
    )


def _spec(target: str, epsilon: float | None) -> dict[str, Any]:
    """A spec file as it is, or a spec for a registered name with its sample parameters."""
    if not target:
        fix = "fairveil audit laplace, fairveil audit all"
        raise SpecError("say what is audited", path="target", allowed="a spec file, a name, or all", fix=fix)
    if target.endswith((".toml", ".json")):
        table = read_spec(Path(target))
        if table.get("task") != "audit":
            raise SpecError("this spec is not an audit", path="task", given=table.get("task"), allowed="audit")
        return table
    pairs = registry.names("audit-pair")
    found = [pair for pair in pairs if target in (pair, pair.split(":")[1])]
    if len(found) != 1:
        short = [pair.split(":")[1] for pair in pairs]
        bare = not found and target in {entry.name for entry in registry.entries()}
        fix = "register a pair of worlds for it, see docs/guides/audit.md" if bare else ""
        raise SpecError(
            "several things have this name" if found else "nothing with an audit pair has this name",
            path="target",
            given=target,
            allowed=choices(found or pairs, "fairveil list audit-pair"),
            fix="" if found else fix or did_you_mean(target, [*pairs, *short]),
        )
    sample = registry.get("task", "audit").sample(found[0])
    if sample is None:
        fix = 'write a spec file: task = "audit" and a table [target] with kind, name and parameters'
        raise SpecError("this name has no sample parameters", path="target", given=target, fix=fix)
    return {"task": "audit", "target": sample | ({"epsilon": epsilon} if epsilon is not None else {})}


def show(result: dict[str, Any], console: Console) -> None:
    """A finding as a person reads it."""
    metrics, claim = result["metrics"], result["metrics"]["claimed"]
    colour = "bold red" if metrics["verdict"] == "violated" else "bold green"
    console.print(
        f"[{colour}]{metrics['verdict']}[/]: epsilon is at least {metrics['epsilon_lower']:.4f}", highlight=False
    )
    console.print(f"  claimed: epsilon {claim['epsilon']:.6g}, delta {claim['delta']:.3g}", highlight=False)
    console.print(f"  worlds: {metrics['pair']}", markup=False, highlight=False)
    console.print(f"  event: {metrics['statistic']}", markup=False, highlight=False)
    rates = [f"{hits} of {trials}" for hits, trials in zip(metrics["hits"], metrics["trials"])]
    console.print(f"  hits: {rates[0]} against {rates[1]}; confidence {metrics['confidence']}", highlight=False)
    if metrics["epsilon_lower"] == 0:
        console.print(
            "  nothing told the worlds apart: this audit says nothing yet; give more --trials", highlight=False
        )
    if (finer := metrics["finer"]) is not None:
        measured = f"{finer['name']} is at least {finer['lower']:.4f}, claimed {finer['claimed']:.6g}"
        console.print(f"  {measured}; event: {finer['event']}", markup=False, highlight=False)
    made = "seeded noise (simulated)" if result["meta"]["simulated"] else "secure noise"
    console.print(f"  {made}, {result['meta']['wall_seconds']:.1f} s")
