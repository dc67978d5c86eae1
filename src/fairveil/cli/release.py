"""`fairveil release`: publish a private series, line by line."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperCommand

from fairveil.cli.common import doing, loading, plain
from fairveil.cli.fields import field_options
from fairveil.errors import InputError, SpecError

FIELDS = (
    "epsilon", "delta", "horizon", "seasons", "nonnegative", "round", "interval", "lag", "unit", "window",
    "participation", "neighbours", "starts", "sensitivity", "range", "law", "memory",
)  # fmt: skip
"""Fields of a releaser that are options."""


class ReleaseCommand(TyperCommand):
    """Options of the signature, then fields of `private-kalman`, which has all: read when the options are asked for.

    The command line starts without numerical libraries, and releasers load them.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        return [*super().get_params(ctx), *self._fields]

    @cached_property
    def _fields(self) -> list[Any]:
        from fairveil.streams import PrivateKalman

        return field_options(PrivateKalman, FIELDS)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Say on a terminal what is waited for; the Tab key waits without a word."""
        with nullcontext() if ctx.resilient_parsing else loading("the releasers"):
            self.get_params(ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        ctx.obj = {name: ctx.params.pop(name) for name in FIELDS}
        return super().invoke(ctx)


# The command line reads options off this signature: one argument each. They travel on together, by name.
def command(
    ctx: typer.Context,
    source: Annotated[str, typer.Option("--in", help="A CSV with a header, or - for standard input.")] = "-",
    column: Annotated[
        list[str] | None, typer.Option(help="A column to release; several share a budget. --person: a name.")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="Ledger file: charge, store, and go on after a stop.")] = None,
    out: Annotated[Path | None, typer.Option(help="Output file; standard output without it.")] = None,
    time: Annotated[str | None, typer.Option(help="The time column.")] = None,
    step: Annotated[str | None, typer.Option(help="Length of a step, like 15m, 1h, 1d: puts rows on a clock.")] = None,
    start: Annotated[str | None, typer.Option(help="Public time of step 0 (default: the first row's).")] = None,
    releaser: Annotated[str, typer.Option(help="Which releaser (fairveil list releaser).")] = "private-kalman",
    plain: Annotated[bool, typer.Option("--plain", help="Show the plain release too.")] = False,
    endless: Annotated[bool, typer.Option("--endless", help="No horizon.")] = False,
    schedule: Annotated[str | None, typer.Option(help="even, geometric or power (with --endless).")] = None,
    columns_per_person: Annotated[int | None, typer.Option(help="Columns one person counts in a step.")] = None,
    person: Annotated[str | None, typer.Option(help="Rows are people's: the column with their id.")] = None,
    per_step: Annotated[int, typer.Option(help="How often one person counts in a step (--person).")] = 1,
    late: Annotated[str, typer.Option(help="Rows of a step that is over: drop, nothing else (--person).")] = "drop",
    until: Annotated[str | None, typer.Option(help="Public time: release the steps before it (--person).")] = None,
    watermark: Annotated[bool, typer.Option("--watermark", help="Rows without a person close steps before.")] = False,
    batch: Annotated[int, typer.Option(min=1, max=256, help="Steps a commit, at most: so many a kill can lose.")] = 256,
    quote: Annotated[bool, typer.Option("--quote", help="Noise, expected error and guarantee; reads no data.")] = False,
    plot: Annotated[Path | None, typer.Option(help="A picture of what was released, at the end.")] = None,
    simulate: Annotated[bool, typer.Option("--simulate", help="Seeded noise: protects nobody; marks lines.")] = False,
    seed: Annotated[int | None, typer.Option(help="Seed of --simulate (default 0).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines instead of CSV.")] = False,
) -> None:
    """Release a column of a CSV privately, each line before the next is read; go on after a stop with the same command.

    Example: fairveil release --in c.csv --column n --epsilon 1 --delta 1e-7 --horizon 99 --ledger n.db --out n.csv
    """
    options = dict(locals())
    people = _people(person, per_step, ctx.obj["participation"], time, start)
    fields, options["guard"] = _guarded(ctx.obj, people)
    with doing("planning the noise"):
        columns = _columns(options, fields, people)
        quoted = _quoted(columns) if quote else None
    if quoted is not None:
        _show_quote(quoted, columns, as_json)
        return
    if plot is not None and out is None:
        raise SpecError("a picture is drawn from the output file", path="plot", given=str(plot), fix="give --out FILE")
    if plot is not None:
        from fairveil.lab.plots import check_picture_file

        check_picture_file(plot)
    if seed is not None and not simulate:
        raise SpecError("a seed protects nobody", path="seed", given=seed, allowed="with --simulate only")
    _serve(columns, people, options)


def _columns(options: dict[str, Any], fields: dict[str, Any], people: Any) -> Any:
    """What is released: the releaser that the options describe, once a column."""
    from fairveil import registry
    from fairveil.configuration import field_names
    from fairveil.streams.columns import Columns

    schedule, step, person = options["schedule"], options["step"], options["person"]
    if people is not None and fields.get("sensitivity") not in (None, people.keys()["sensitivity"]):
        raise SpecError(
            "the sensitivity of people's counts is computed, and enforced", path="sensitivity",
            given=fields["sensitivity"], allowed=f"{people.keys()['sensitivity']:g}", fix="leave it out: --per-step",
        )  # fmt: skip
    if isinstance(fields.get("seasons"), str) and fields["seasons"] != "auto":
        allowed = "steps: --seasons 24,168, or auto"
        raise SpecError("this cannot be read", path="seasons", given=fields["seasons"], allowed=allowed)
    table = {"name": options["releaser"], **fields} | ({} if people is None else people.keys())
    table["horizon"] = None if options["endless"] else fields["horizon"]
    table["schedule"] = None if schedule in (None, "even") else {"kind": schedule}
    table = {key: value for key, value in table.items() if value is not None}
    known = field_names(registry.get("releaser", table["name"], "releaser"))
    for key in [key for key in table if key not in known and key != "name"]:
        raise SpecError(f"{table['name']} has no such option", path=key, allowed=", ".join(sorted(known)))
    if step is not None and options["time"] is None:
        raise SpecError("a step has a length on the clock of a time column", path="step", given=step, fix="give --time")
    names = options["column"] or (["count"] if person is not None else [])
    if not names:
        raise SpecError("no column is named", path="column", fix="give --column NAME")
    if people is not None and len(names) > 1:
        raise SpecError("people's rows give one count", path="column", given=names, allowed="one name")
    return Columns.build(table, names, columns_per_person=options["columns_per_person"])


def _guarded(fields: dict[str, Any], people: Any) -> tuple[dict[str, Any], tuple[float, float] | None]:
    """The fields of the releaser, and the range that only guards against wrong values.

    A range alone bounds what one person moves by its width. With a declared sensitivity below the width that number
    is the bound, and values are clipped before the stream: clipping moves no two values further apart.
    """
    given, declared = fields.get("range"), fields.get("sensitivity")
    if given is None:
        return fields, None
    if not (isinstance(given, list | tuple) and len(given) == 2):
        raise SpecError("this cannot be read", path="range", given=given, allowed="low,high: --range 0,500")
    if people is not None:
        raise SpecError(
            "a range would clip the count of all people of a step", path="range", given=list(given),
            allowed="no range with --person", fix="leave it out: --per-step bounds what one person counts",
        )  # fmt: skip
    low, high = given
    if declared is None or not low < high or declared == high - low:
        return fields, None
    if declared > high - low:
        return {**fields, "sensitivity": None}, None
    return {**fields, "range": None}, (low, high)


def _serve(columns: Any, people: Any, options: dict[str, Any]) -> None:
    """Release line by line until the input ends."""
    from fairveil.streams.serving.feed import Feed, Lines, Reading
    from fairveil.streams.serving.output import Layout
    from fairveil.streams.serving.release_run import ReleaseRun

    if options["late"] != "drop":
        why = "a late row is dropped: a refusal would show everybody that this row came"
        raise SpecError(why, path="late", given=options["late"], allowed="drop")
    if people is not None and columns.horizon is None and options["until"] is None and not options["watermark"]:
        raise SpecError(
            "an endless count of people ends at a public time, not with the last row", path="until",
            fix="give --until, or --watermark and rows without a person",
        )  # fmt: skip
    public = {key: options[key] for key in ("time", "start", "person")}
    public["step"] = options["step"] or ("1h" if people is not None else None)
    if options["watermark"]:
        public["watermark"] = True
    reading = Reading(columns.names, horizon=columns.horizon, until=options["until"], **public)
    out, simulated = options["out"], options["simulate"]
    shown = {key: options[key] for key in ("plain", "as_json")}
    whole = all(one.round for one in columns.releasers)
    layout = Layout(options["time"] or "step", columns.names, simulated=simulated, whole=whole, **shown)
    descriptor = _open(options["source"])
    try:
        name = "" if options["source"] == "-" else Path(options["source"]).name
        feed = Feed(Lines(descriptor, name), reading, people)
        if people is not None:
            _refuse_summing(options, feed.header)
        if options["guard"] is not None:
            public["guard"] = list(options["guard"])
        seed = (options["seed"] or 0) if simulated else None
        run = ReleaseRun(
            columns, feed, layout, out, options["ledger"], seed, public, guard=options["guard"], batch=options["batch"]
        )
        run.announce = lambda: _announce(columns, people, options, run.known)
        try:
            with _interrupted_by(run), _telling(run, out):
                run.run()
        finally:
            _summary(run, columns, options)
    finally:
        if descriptor > 2:
            os.close(descriptor)
    if options["plot"] is not None and out is not None:
        from fairveil.lab.streams import draw_stream

        with doing(f"drawing {options['plot']}"):
            draw_stream(out, options["time"] or "step", columns.names, options["plot"], as_json=layout.as_json)
        plain(stderr=True).print(f"plot: {options['plot']}")


def _refuse_summing(options: dict[str, Any], header: list[str]) -> None:
    """Rows of people are counted: a column that is there would be left out without a word.

    A stream that was begun so goes on; the name is that of its output.
    """
    begun = options["ledger"] is not None and options["ledger"].exists()
    named = [name for name in options["column"] or () if name in header]
    if named and not begun:
        raise SpecError(
            "people's rows are counted, and no column is summed", path="column", given=named[0],
            allowed="a name for the count that is no column of the input",
            fix="leave --column out; to release sums, sum each step first and declare --sensitivity, without --person",
        )  # fmt: skip


@contextmanager
def _interrupted_by(run: Any) -> Iterator[None]:
    """Ctrl-C finishes what is charged; a second one is not needed and changes nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: run.interrupt())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _telling(run: Any, out: Path | None) -> Iterator[None]:
    """How many lines are out, once a second, where lines do not go to the same terminal; and what is compiled."""
    from fairveil.compiling import told_of_compiling
    from fairveil.running.progress import COMPILING, murmuring

    console = Console(stderr=True)
    if not console.is_terminal:
        with murmuring(lambda: f"releasing: {run.lines:,} lines", console):
            yield
        return
    over, compiling = threading.Event(), threading.Event()

    def hear(begins: bool) -> None:
        (compiling.set if begins else compiling.clear)()
        if begins and out is None:
            console.print(COMPILING, style="dim", highlight=False)

    def tell() -> None:
        with console.status("releasing") as status:
            while not over.wait(0.5):
                status.update(COMPILING if compiling.is_set() else f"releasing: {run.lines:,} lines")

    teller = threading.Thread(target=tell if out is not None else over.wait, daemon=True)
    teller.start()
    try:
        with told_of_compiling(hear):
            yield
    finally:
        over.set()
        teller.join()


def _summary(run: Any, columns: Any, options: dict[str, Any]) -> None:
    """What there is now, and where; how many values were clipped is people's data and stays on this terminal."""
    console = plain(stderr=True)
    promise, out, ledger = columns.guarantee(), options["out"], options["ledger"]
    if not run.opened:
        stays = f"; {out} stays as it was" if out is not None and out.exists() else ""
        console.print(f"nothing was released{stays}")
        return
    where = f"in {out}" if out is not None else "printed"
    delta = f", delta {promise.delta:.3g}" if promise.delta else ""
    spent = f"the stream may cost epsilon {promise.epsilon:.4g}{delta} in all" if promise.epsilon is not None else ""
    kept = f"; ledger {ledger}" if ledger is not None else "; no ledger: it cannot go on after a stop"
    said = f"{run.lines:,} lines {where}, {run.lost:,} lost; {spent}{kept}"
    console.print(said)
    if run.clipped:
        console.print(
            f"RAW, for you alone: {run.clipped:,} values were outside the declared range and clipped to it; this "
            "number is made of the data as they are and must not be published",
        )


def _open(source: str) -> int:
    if source == "-":
        return sys.stdin.fileno()
    try:
        return os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as problem:
        raise InputError(
            f"the input cannot be read: {problem.strerror}",
            path="in",
            given=source,
            allowed="a CSV file with a header line, or - for standard input",
            fix="check the path; it starts in the working directory",
        ) from None


def _announce(columns: Any, people: Any, options: dict[str, Any], known: bool) -> None:
    """The guarantee goes to standard error and beside the output, with the place of the ledger."""
    from fairveil.streams.releasers.common_fields import DECLARED
    from fairveil.streams.serving.people import READABLE, WATERMARKS
    from fairveil.streams.serving.release_run import UNKNOWN

    promise, simulated = columns.guarantee(), options["simulate"]
    out, ledger, guard = options["out"], options["ledger"], options["guard"]
    if people is not None:
        notes = [people.words if note == DECLARED else note for note in promise.notes]
        promise = replace(promise, notes=(*notes, READABLE, *((WATERMARKS,) if options["watermark"] else ())))
    if not known:
        promise = replace(promise, established=False, notes=(*promise.notes, UNKNOWN))
    words = f"{promise}" if not simulated else f"SIMULATED, protects nobody: {promise}"
    console = plain(stderr=True)
    console.print(words)
    for line in headlines(columns):
        console.print(line)
    if out is not None:
        bound = "declared, or the width of the range"
        if guard is not None:
            bound = f"declared; values are clipped to [{guard[0]:g}, {guard[1]:g}] before, which only guards"
        if people is not None:
            bound = "enforced: rows beyond it and rows whose step is over are dropped; a row counts in its own step"
        facts = {**promise.to_dict(), "sensitivity": bound, "simulated": simulated, "words": headlines(columns)}
        facts["ledger"] = None if ledger is None else os.path.relpath(ledger, out.parent)
        text = json.dumps(facts, indent=2) + "\n"
        Path(f"{out}.guarantee.json").write_text(text)


def headlines(columns: Any) -> list[str]:
    """What a reader may expect of each column, in words."""
    return [f"{name}: {one.quote().words()}" for name, one in zip(columns.names, columns.releasers, strict=True)]


def _people(person: str | None, per_step: int, participation: int | None, time: str | None, start: str | None) -> Any:
    from fairveil.streams.serving.people import PersonCounts

    if person is None:
        return None
    for name, value in (("time", time), ("start", start)):
        if value is None:
            raise SpecError(
                "people's rows are counted on a public clock", path=name, fix=f"give --{name}", allowed="a public fact"
            )
    return PersonCounts(per_step=per_step, participation=participation)


def _quoted(columns: Any) -> dict[str, Any]:
    """What each column is quoted, by its name."""
    return {name: one.quote().to_dict() for name, one in zip(columns.names, columns.releasers, strict=True)}


def _show_quote(quotes: dict[str, Any], columns: Any, as_json: bool) -> None:
    promise = columns.guarantee()
    if as_json:
        typer.echo(json.dumps({"guarantee": promise.to_dict(), "columns": quotes}))
        return
    console = plain()
    console.print(str(promise))
    for note in promise.notes:
        console.print(f"  {note}")
    for line in headlines(columns):
        console.print(line)
    for name, quote in quotes.items():
        console.print(
            f"{name}: noise std {quote['noise_std']:.4g}, plain interval of {quote['interval']:.0%} "
            f"{quote['plain_interval_width']:.4g} wide",
        )
        for std, correlation, noise, best in quote["expected"]:
            console.print(
                f"  data with std {std:.4g} and correlation {correlation:g}: plain error {noise:.4g}, "
                f"best filter {best:.4g}",
            )
