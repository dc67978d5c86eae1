"""`fairveil release`: publish a private series, line by line."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fairveil.errors import InputError, SpecError

RELEASER_OPTIONS = (
    "name", "epsilon", "delta", "horizon", "seasons", "nonnegative", "round", "interval", "lag", "unit", "window",
    "participation", "neighbours", "starts", "sensitivity", "range", "law", "memory", "schedule",
)  # fmt: skip
"""Keys of a releaser that options give, in the order in which one that does not fit is named."""


# The command line reads options off this signature: one argument each. They travel on together, by name.
def command(
    source: Annotated[str, typer.Option("--in", help="A CSV with a header, or - for standard input.")] = "-",
    column: Annotated[list[str] | None, typer.Option(help="A column to release; several share one budget.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Budget of the whole stream.")] = None,
    delta: Annotated[float | None, typer.Option(help="Delta of the whole stream (not for pure releasers).")] = None,
    horizon: Annotated[int | None, typer.Option(help="Number of releases; missing steps use none.")] = None,
    ledger: Annotated[Path | None, typer.Option(help="Ledger file: charge, store, and go on after a stop.")] = None,
    out: Annotated[Path | None, typer.Option(help="Output file; standard output without it.")] = None,
    time: Annotated[str | None, typer.Option(help="The time column.")] = None,
    step: Annotated[str | None, typer.Option(help="Length of a step, like 15m, 1h, 1d: puts rows on a clock.")] = None,
    start: Annotated[str | None, typer.Option(help="Public time of step 0 (default: the first row's).")] = None,
    releaser: Annotated[str, typer.Option(help="Which releaser (fairveil list releaser).")] = "private-kalman",
    seasons: Annotated[str | None, typer.Option(help="Periods in steps, like 24,168, or auto.")] = None,
    nonnegative: Annotated[bool, typer.Option("--nonnegative", help="Show nothing below 0.")] = False,
    whole: Annotated[bool, typer.Option("--round", help="Show whole numbers.")] = False,
    interval: Annotated[float, typer.Option(help="Nominal coverage of low and high.")] = 0.9,
    lag: Annotated[int, typer.Option(help="Show a value so many steps later, and better.")] = 0,
    plain: Annotated[bool, typer.Option("--plain", help="Show the plain release too.")] = False,
    unit: Annotated[str, typer.Option(help="sequence, window or event.")] = "sequence",
    window: Annotated[int | None, typer.Option(help="Steps of the window.")] = None,
    participation: Annotated[int | None, typer.Option(help="Steps one person takes part in, at most.")] = None,
    neighbours: Annotated[str, typer.Option(help="replace or add-remove.")] = "replace",
    starts: Annotated[int | None, typer.Option(help="Starts of the process paid for (add-remove).")] = None,
    sensitivity: Annotated[float | None, typer.Option(help="How far one person moves one value.")] = None,
    bounds: Annotated[str | None, typer.Option("--range", help="low,high: values are clipped to it.")] = None,
    law: Annotated[str | None, typer.Option(help="gaussian, discrete-gaussian, laplace or binomial.")] = None,
    memory: Annotated[float | None, typer.Option(help="Leaky sum for slow signals (unit event or window).")] = None,
    endless: Annotated[bool, typer.Option("--endless", help="No horizon.")] = False,
    schedule: Annotated[str | None, typer.Option(help="even, geometric or power (with --endless).")] = None,
    columns_per_person: Annotated[int | None, typer.Option(help="Columns one person counts in a step.")] = None,
    person: Annotated[str | None, typer.Option(help="Rows are people's: the column with their id.")] = None,
    per_step: Annotated[int, typer.Option(help="How often one person counts in a step (--person).")] = 1,
    late: Annotated[str, typer.Option(help="Rows of a step that is over: refuse or drop (--person).")] = "refuse",
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
    people = _people(person, per_step, participation, time, start)
    columns = _columns(options, people)
    if quote:
        _quote(columns, as_json)
        return
    if plot is not None and out is None:
        raise SpecError("a picture is drawn from the output file", path="plot", given=str(plot), fix="give --out FILE")
    if seed is not None and not simulate:
        raise SpecError("a seed protects nobody", path="seed", given=seed, allowed="with --simulate only")
    _serve(columns, people, options)


def _columns(options: dict[str, Any], people: Any) -> Any:
    """What is released: the releaser that the options describe, once a column."""
    from fairveil.streams.columns import Columns

    schedule, step, person = options["schedule"], options["step"], options["person"]
    changed = {
        "name": options["releaser"], "horizon": None if options["endless"] else options["horizon"],
        "seasons": _seasons(options["seasons"]), "nonnegative": options["nonnegative"] or None,
        "round": options["whole"] or None, "lag": options["lag"] or None, "range": _range(options["bounds"]),
        "schedule": None if schedule in (None, "even") else {"kind": schedule},
    }  # fmt: skip
    table = _table(
        {key: changed[key] if key in changed else options[key] for key in RELEASER_OPTIONS}
        | ({} if people is None else people.keys())
    )
    if step is not None and options["time"] is None:
        raise SpecError("a step has a length on the clock of a time column", path="step", given=step, fix="give --time")
    names = options["column"] or (["count"] if person is not None else [])
    if not names:
        raise SpecError("no column is named", path="column", fix="give --column NAME")
    if people is not None and len(names) > 1:
        raise SpecError("people's rows give one count", path="column", given=names, allowed="one name")
    return Columns.build(table, names, columns_per_person=options["columns_per_person"])


def _serve(columns: Any, people: Any, options: dict[str, Any]) -> None:
    """Release line by line until the input ends."""
    from fairveil.streams.feed import Feed, Lines, Reading
    from fairveil.streams.publish import Layout
    from fairveil.streams.serve import Service

    if options["late"] not in ("refuse", "drop"):
        raise SpecError("late rows are refused or dropped", path="late", given=options["late"], allowed="refuse, drop")
    reading = Reading(
        columns=columns.names,
        time=options["time"],
        step=options["step"] or ("1h" if people is not None else None),
        start=options["start"],
        person=options["person"],
        late=options["late"],
        horizon=columns.horizon,
    )
    out, simulated = options["out"], options["simulate"]
    layout = Layout(
        options["time"] or "step",
        columns.names,
        plain=options["plain"],
        as_json=options["as_json"],
        simulated=simulated,
    )
    descriptor = _open(options["source"])
    try:
        feed = Feed(Lines(descriptor), reading, people)
        facts = {"time": reading.time, "step": reading.step, "start": reading.start, "person": reading.person}
        seed = (options["seed"] or 0) if simulated else None
        service = Service(columns, feed, layout, out, options["ledger"], seed, facts)
        service.announce = lambda: _announce(columns, people, out, simulated)
        service.run()
    finally:
        if descriptor > 2:
            os.close(descriptor)
    if options["plot"] is not None and out is not None:
        _plot(out, layout, columns.names, options["plot"])


def _open(source: str) -> int:
    if source == "-":
        return sys.stdin.fileno()
    try:
        return os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as problem:
        raise InputError(f"the input cannot be read: {problem.strerror}", path="in", given=source) from None


def _announce(columns: Any, people: Any, out: Path | None, simulated: bool) -> None:
    """The guarantee goes to standard error and beside the output."""
    promise = columns.guarantee()
    words = f"{promise}" if not simulated else f"SIMULATED, protects nobody: {promise}"
    Console(stderr=True).print(words, highlight=False, soft_wrap=True, markup=False)
    if out is not None:
        bound = "enforced: rows beyond it are dropped" if people is not None else "declared, or the width of the range"
        facts = {**promise.to_dict(), "sensitivity": bound, "simulated": simulated}
        text = json.dumps(facts, indent=2) + "\n"
        Path(f"{out}.guarantee.json").write_text(text)


def _table(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given and that the releaser has."""
    from fairveil import registry
    from fairveil.configuration import field_names

    known = field_names(registry.get("releaser", options["name"], "releaser"))
    given = {key: value for key, value in options.items() if value is not None}
    defaults = {"unit": "sequence", "neighbours": "replace", "interval": 0.9}
    for key in list(given):
        if key != "name" and key not in known:
            if defaults.get(key) != given[key]:
                raise SpecError(f"{options['name']} has no such option", path=key, allowed=", ".join(sorted(known)))
            del given[key]
    return given


def _seasons(text: str | None) -> Any:
    if text is None or text == "auto":
        return text
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise SpecError("seasons are periods in steps", path="seasons", given=text, allowed="like 24,168, or auto")
    return [int(part) for part in parts]


def _range(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise SpecError("a range is two numbers", path="range", given=text, allowed="low,high") from None
    return [low, high]


def _people(person: str | None, per_step: int, participation: int | None, time: str | None, start: str | None) -> Any:
    from fairveil.streams.people import PersonCounts

    if person is None:
        return None
    for name, value in (("time", time), ("start", start)):
        if value is None:
            raise SpecError(
                "people's rows are counted on a public clock", path=name, fix=f"give --{name}", allowed="a public fact"
            )
    return PersonCounts(per_step=per_step, participation=participation)


def _quote(columns: Any, as_json: bool) -> None:
    quotes = {name: one.quote().to_dict() for name, one in zip(columns.names, columns.releasers, strict=True)}
    promise = columns.guarantee()
    if as_json:
        typer.echo(json.dumps({"guarantee": promise.to_dict(), "columns": quotes}))
        return
    console = Console()
    console.print(str(promise), highlight=False, soft_wrap=True, markup=False)
    for note in promise.notes:
        console.print(f"  {note}", highlight=False, soft_wrap=True, markup=False)
    for name, quote in quotes.items():
        console.print(
            f"{name}: noise std {quote['noise_std']:.4g}, plain interval of {quote['interval']:.0%} "
            f"{quote['plain_interval_width']:.4g} wide",
            highlight=False,
        )
        for std, correlation, noise, best in quote["expected"]:
            console.print(
                f"  data with std {std:.4g} and correlation {correlation:g}: plain error {noise:.4g}, "
                f"best filter {best:.4g}",
                highlight=False,
            )


def _plot(out: Path, layout: Any, names: tuple[str, ...], file: Path) -> None:
    """A picture of the released lines: reads the output, nothing else."""
    import csv

    from fairveil.lab.artefact import Chart, Line
    from fairveil.lab.plots import draw, write_picture

    with open(out, newline="") as lines:
        rows = [json.loads(line) for line in lines] if layout.as_json else list(csv.DictReader(lines))
    made = []
    for name in names:
        points = [(place, row) for place, row in enumerate(rows) if row[name] not in ("", None)]
        columns = [tuple(float(row[f"{name}{part}"]) for _, row in points) for part in ("", "_low", "_high")]
        made.append(Line(name, tuple(float(place) for place, _ in points), columns[0], columns[1], columns[2]))
    write_picture(draw(Chart("Private series", "step", "released value and interval", tuple(made)), 900, 360), file)
