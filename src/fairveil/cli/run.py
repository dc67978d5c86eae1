"""`fairveil run`: one spec in, one result out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from fairveil.cli.common import (
    Address,
    EngineName,
    PluginFiles,
    Workers,
    doing,
    folder_to_write,
    load_plugins,
    read_spec,
    working,
)
from fairveil.errors import PrivacyError, SpecError


def command(
    spec: Annotated[Path, typer.Argument(help="A spec in TOML or JSON.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
    seed: Annotated[int | None, typer.Option(help="Replace the spec's seed.")] = None,
    engine: EngineName = "serial",
    workers: Workers = None,
    address: Address = None,
    store: Annotated[
        Path | None, typer.Option(help="Folder of results: reuse what is there, resume what was cut off.")
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(help="Make the releases through this ledger: recorded data, runs = 1 and secure noise only."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the series into this .html, .svg, .png or .pdf file.")] = None,
    plugin: PluginFiles = None,
) -> None:
    """Run a spec and show its result.

    Example: fairveil run examples/first.toml --engine processes --plot out/first.html
    """
    from fairveil.running.progress import Bar
    from fairveil.running.runner import run
    from fairveil.running.store import ResultStore

    load_plugins(plugin)
    if plot is not None:
        from fairveil.lab.plots import check_picture_file, draw_result

        check_picture_file(plot)
        folder_to_write(plot.parent)
    table = read_spec(spec)
    if seed is not None:
        table["seed"] = seed
    if ledger is not None:
        _check_alone(engine, store)
    kept = ResultStore(store) if store else None
    with working(engine, workers, address) as workforce, _releasing(table, ledger), Bar(spec.stem) as bar:
        result = run(table, engine=workforce, store=kept, progress=bar)
    if plot is not None:
        with doing(f"drawing {plot}"):
            draw_result(result, plot)
    if as_json:
        typer.echo(json.dumps(result, allow_nan=False))
    else:
        show(result, Console())
        if plot is not None:
            Console().print(f"plot: {plot}")
    if kept is not None:
        _say_kept(kept.folder(result["spec"]), kept.root, Console(stderr=as_json))


def _say_kept(folder: Path, store: Path, console: Console) -> None:
    """Where a result lies, and what reads it."""
    export = f"fairveil results export {folder.name} --store {store}"
    console.print(f"result: {folder} ({export})", markup=False, highlight=False, soft_wrap=True)


def _check_alone(engine: str, store: Path | None) -> None:
    """Releases are made here and once: no other processes, and no result that stands for a second run."""
    if engine != "serial":
        raise SpecError("a ledger is used by this process", path="engine", given=engine, allowed="serial")
    if store is not None:
        raise SpecError("a run with a ledger is made once", path="store", given=str(store), fix="leave --store out")


@contextmanager
def _releasing(table: dict[str, Any], file: Path | None) -> Iterator[None]:
    """Open the ledger, or make one that holds exactly the promise of this policy or evaluation."""
    if file is None:
        yield
        return
    from fairveil import Ledger
    from fairveil.ledger.account import releases_into
    from fairveil.ledger.checks import AlreadyReleased
    from fairveil.privacy.limits import Limit

    promising = _checked(table)
    unit = promising.guarantee().unit
    made = Ledger.open(file) if file.exists() else Ledger.create(file, limit=Limit.for_policy(promising), unit=unit)
    try:
        with made as ledger, releases_into(ledger):
            yield
    except AlreadyReleased:
        raise PrivacyError(
            "this ledger already holds this run",
            path="ledger",
            given=str(file),
            allowed="a new file",
            fix=f"fairveil report {file} --policy SPEC says what it released; a new file pays again for the same "
            "people, and both promises add up",
        ) from None


def _checked(table: dict[str, Any]) -> Any:
    """What a spec pays for, refused before a ledger is made where a ledger cannot stand for it."""
    if table.get("task") == "evaluate":
        from fairveil.evaluate.task import EvaluateTask, check_run, private_value

        spec = EvaluateTask().complete(dict(table))
        check_run(spec)
        return private_value(spec)
    if table.get("task") != "bandit":
        problem, allowed = "only decisions and evaluations are run with a ledger", "bandit or evaluate"
        raise SpecError(problem, path="task", given=table.get("task"), allowed=allowed)
    from fairveil.bandits import ledgered
    from fairveil.bandits.task import case_of

    case = case_of(dict(table))
    ledgered.check_run(case.policy, case.spec, case.environment.recorded)
    return case.policy


def show(result: dict[str, Any], console: Console) -> None:
    """A result as a person reads it: guarantee first, then the numbers at the last checkpoint."""
    from fairveil.lab.artefact import is_course

    promise = result["guarantee"]
    if promise is None:
        console.print("guarantee: none (this run protects nobody's data)")
    else:
        mark = "" if promise["established"] else "[bold red]NOT ESTABLISHED[/] "
        numbers = ", ".join(f"{key} {promise[key]:.6g}" for key in ("epsilon", "delta", "mu", "rho") if promise[key])
        console.print(f"guarantee: {mark}{promise['definition']} {promise['model']} privacy, {numbers}")
        console.print(f"  unit: {promise['unit']}; neighbours: {promise['neighbours_in_words']}", markup=False)
        for note in promise["notes"]:
            console.print(f"  note: {note}", markup=False)
    for note in set(result["meta"].get("notes", ())) - set(promise["notes"] if promise else ()):
        console.print(f"  note: {note}", markup=False)
    metrics = result["metrics"]
    title = f"{result['spec']['task']}, seed {result['spec']['seed']}, runs {result['spec']['runs']}"
    if metrics.get("checkpoints"):
        title += f", at the last checkpoint ({metrics['checkpoints'][-1]:g})"
    spreads = result["spec"]["runs"] > 1 and any(name.endswith("_std") for name in metrics)
    heads = ("value", "std over runs") if spreads else ("value",)
    table = Table(Column("metric", overflow="fold"), *heads, title=title)
    for name, value in metrics.items():
        if name.endswith("_std") or name in ("checkpoints", "estimates", "lab") or _nothing(value):
            continue
        along = is_course(result, name)
        cells = _cell(value, along), _cell(metrics.get(f"{name}_std", ""), along)
        table.add_row(name, *cells[: len(heads)])
    console.print(table)
    if "estimates" in metrics:
        console.print(estimates_table(metrics["estimates"]))
    if metrics.get("unsure_groups"):
        names = ", ".join(metrics["unsure_groups"])
        console.print(
            f"warning: ranks of {names} are still unsure (rank_uncertainty above 0.05), and their selection rates may "
            "be off by as much: more rounds, a larger epsilon or a larger rank_share help",
            markup=False,
            style="yellow",
        )
    meta = result["meta"]
    real = "secure noise" if result["spec"].get("noise") == "secure" else "no noise"
    made = "simulated (seeded noise)" if meta["simulated"] else real
    console.print(
        f"{made}; {meta['cpu_seconds']:.2f} CPU s, {meta['wall_seconds']:.2f} s, peak {meta['peak_mb']:.0f} MB"
    )


def estimates_table(found: dict[str, Any]) -> Table:
    """What the first run has published, with its intervals."""
    title = f"published estimates, {found['confidence']:.0%} intervals (free: made of releases)"
    bounds = {"low": "from", "high": "to"} if any(item["low"] is not None for item in found["items"]) else {}
    table = Table("what", Column("name", overflow="fold"), "estimate", *bounds.values(), title=title)
    for item in found["items"][:MOST_ESTIMATES]:
        numbers = ("" if item[key] is None else f"{item[key]:.4g}" for key in ("value", *bounds))
        table.add_row(SCALED.get(item["what"], item["what"]), item["name"], *numbers)
    if len(found["items"]) > MOST_ESTIMATES:
        table.caption = f"and {len(found['items']) - MOST_ESTIMATES} more: --json"
    return table


SCALED = {"mean reward": "mean reward, 0 to 1"}
"""What policies of arms learn: outcomes of any range, scaled; 1 is the best."""
MOST_ESTIMATES = 30
SHOWN = 8
"""A list that is not a course over time is shown up to this length."""


def _nothing(value: Any) -> bool:
    """Not measured here, at no checkpoint and for nobody."""
    if isinstance(value, list | dict):
        return all(map(_nothing, value.values() if isinstance(value, dict) else value))
    return value is None


def _cell(value: Any, along: bool = True) -> str:
    """One metric: the last value of a course over time, a short list (by arm, by group) in full."""
    if isinstance(value, list) and along:
        return _cell(value[-1]) if value else ""
    if isinstance(value, list):
        more = f" ... ({len(value)} values)" if len(value) > SHOWN else ""
        return ", ".join(_cell(item) for item in value[:SHOWN]) + more
    if isinstance(value, dict):
        return "\n".join(f"{key}: {_cell(item, along)}" for key, item in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str("" if value is None else value)
