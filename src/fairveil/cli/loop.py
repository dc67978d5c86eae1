"""`fairveil loop`: look at the loops of a running service, and change their mode."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fairveil.cli.common import AsJson
from fairveil.errors import SpecError, did_you_mean

app = typer.Typer(no_args_is_help=True, help="Loops of a running service.\n\nExample: fairveil loop list")
Url = Annotated[str, typer.Option("--url", envvar="FAIRVEIL_URL", help="Where the service is.")]
Token = Annotated[
    str | None, typer.Option("--token", envvar="FAIRVEIL_TOKEN", help="Who asks: fv_..., from fairveil token add.")
]
DEFAULT = "http://127.0.0.1:8080"
Name = Annotated[str, typer.Argument(help="Name of the loop.")]


def _client(url: str, token: str | None) -> Any:
    from fairveil.client import Client

    return Client(url, token, patience=5)


@contextmanager
def loop_by_name(client: Any, name: str) -> Iterator[Any]:
    """A loop of a service; an unknown name is refused with those that are near, where the caller may list loops."""
    from fairveil.client.problems import Problem

    try:
        yield client.loop(name)
    except Problem as problem:
        if problem.type != "unknown-loop":
            raise
        try:
            known = [loop["name"] for loop in client.loops()]
        except Problem:
            raise problem from None
        fix = did_you_mean(name, known) or "fairveil loop list shows all"
        allowed = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
        raise Problem(
            problem.status, {**problem.table, "given": repr(name), "allowed": allowed or "none is here", "fix": fix}
        ) from None


@app.command("list")
def listing(
    url: Url = DEFAULT,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Every loop: policy, mode, rounds, releases.

    Example: fairveil loop list --url http://127.0.0.1:8080
    """
    with _client(url, token) as client:
        loops = client.loops()
    if as_json:
        typer.echo(json.dumps(loops))
        return
    table = Table("loop", "policy", "mode", "rounds", "settled", "version")
    for loop in loops:
        numbers = [str(loop[name]) for name in ("rounds", "settled", "version")]
        table.add_row(loop["name"], loop["policy"]["name"], loop["mode"], *numbers)
    Console().print(table)


@app.command("show")
def show(
    name: Name,
    url: Url = DEFAULT,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """One loop with its budget: what it is, what was decided and learned, published numbers, what is left.

    Example: fairveil loop show trial-7
    """
    with _client(url, token) as client, loop_by_name(client, name) as loop:
        state, budget = loop.state(), loop.budget()
    if as_json:
        typer.echo(json.dumps({**state, "budget": budget}))
        return
    _show(state, budget, Console())


def _show(state: dict[str, Any], budget: dict[str, Any], console: Console) -> None:
    """A loop as a person reads it."""
    from fairveil.bandits.quotes import spread_in_words
    from fairveil.loop.waiting import stands_in_words

    learning = state["learning"]
    why = f" ({learning['reason']})" if learning["reason"] else ""
    facts = {
        "policy": state["policy"]["name"],
        "mode": f"{state['mode']}, learning {learning['state']}{why}",
        "rounds": f"{state['decided']:,} decided: {stands_in_words(state)}",
        "budget": budget["words"],
        "ledger": state["ledger"],
        "created": state["created"],
    }
    if "reward_std" in state["policy"]:
        facts["assumes"] = spread_in_words(state["policy"]["reward_std"])
    table = Table(title=escape(state["name"]), box=box.SIMPLE_HEAD, show_header=False, pad_edge=False)
    for label, words in facts.items():
        table.add_row(label, escape(str(words)))
    console.print(table)
    arms = state["published"].get("arms")
    if not arms:
        return
    known = Table("option", "mean", "95 % interval", "decided", box=box.SIMPLE_HEAD, pad_edge=False)
    for arm in arms:
        mean, low, high = arm["mean"], arm["low"], arm["high"]
        numbers = ("not yet", "") if mean is None else (f"{mean:.3g}", f"{low:.3g} to {high:.3g}")
        known.add_row(escape(str(arm.get("action_id") or arm["action"])), *numbers, f"{arm['decided']:,}")
    console.print(known)


@app.command("mode")
def mode(
    name: Name,
    mode: Annotated[str, typer.Argument(help="shadow, apprentice, online, frozen or paused.")],
    url: Url = DEFAULT,
    token: Token = None,
) -> None:
    """Change who decides and whether is learned.

    Example: fairveil loop mode trial-7 frozen
    """
    with _client(url, token) as client, loop_by_name(client, name) as loop:
        found = loop.set_mode(mode)
    typer.echo(f"{name} is {found['mode']}")


Kind = Annotated[str, typer.Argument(help="fairness, evaluation or summary.")]
First = Annotated[int | None, typer.Option("--first", help="First place; behind the last report without it.")]
Stop = Annotated[int | None, typer.Option("--stop", help="Place behind the last one; all that are settled without it.")]
Epsilon = Annotated[float | None, typer.Option("--epsilon", help="Budget of the whole release, Laplace noise.")]
Rho = Annotated[float | None, typer.Option("--rho", help="Budget in zCDP, Gaussian noise.")]


@app.command("report")
def report(
    name: Name, kind: Kind = "fairness", epsilon: Epsilon = None, rho: Rho = None, first: First = None,
    stop: Stop = None, url: Url = DEFAULT, token: Token = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV instead of JSON.")] = False,
) -> None:  # fmt: skip
    """Make a report of settled places, or give the stored one; it is charged to the loop's ledger once.

    Example: fairveil loop report screening fairness --epsilon 0.5 --first 0 --stop 5000
    """
    if as_csv and kind == "summary":
        raise SpecError("a summary has no table", path="--csv", allowed="fairness or evaluation", fix="leave it out")
    with _client(url, token) as client, loop_by_name(client, name) as loop:
        made = loop.release(kind, epsilon=epsilon, rho=rho, first=first, stop=stop)
    if as_csv:
        from fairveil.reports.export import as_csv as written

        typer.echo(written(made["value"]), nl=False)
    else:
        typer.echo(json.dumps(made))


@app.command("quote")
def quote(
    name: Name, kind: Kind = "fairness", epsilon: Epsilon = None, rho: Rho = None, first: First = None,
    stop: Stop = None, url: Url = DEFAULT, token: Token = None,
    half_width: Annotated[float | None, typer.Option("--half-width", help="Ask for the budget that it needs.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be published, on made-up rows.")] = False,
) -> None:  # fmt: skip
    """What a report would cost and how sure it would be; nothing is charged.

    Example: fairveil loop quote screening fairness --half-width 0.02
    """
    asked = _given(epsilon=epsilon, rho=rho, first=first, stop=stop, half_width=half_width, dry_run=dry_run or None)
    with _client(url, token) as client, loop_by_name(client, name) as loop:
        typer.echo(json.dumps(loop.quote_release(kind, **asked)))


def _given(**asked: Any) -> dict[str, Any]:
    return {key: value for key, value in asked.items() if value is not None}
