"""The command line: `fairveil run | schema | list | explain | reproduce | compare | release | report | quote | plan |
results | data | audit | ledger | federate | serve | token | store | loop`."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from fairveil import __version__, plugins
from fairveil.cli import (
    attack,
    audit,
    compare,
    data,
    demo,
    explain,
    federate,
    ledger,
    loop,
    plan,
    quote,
    release,
    report,
    reproduce,
    results,
    run,
    schema,
    serve,
    stores,
    token,
)
from fairveil.cli.common import plain
from fairveil.cli.interrupted import after_interruption, heard
from fairveil.errors import FairveilError, StoreError

app = typer.Typer(
    name="fairveil",
    help="Decisions that learn, keep people's data private, and treat groups and individuals fairly.",
    epilog="Example: fairveil run examples/first.toml",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
EXIT_CODES = (
    "Exit codes: 0 done, 1 unexpected, 2 wrong spec or input, 3 missing data or package, 4 privacy refused, "
    "5 ledger, 6 audit violated, 7 results cannot be stored, 8 workers failed, 130 interrupted."
)
INTERRUPTED = 130


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fairveil {__version__}")
        raise typer.Exit


@app.callback(help=(app.info.help or "") + "\n\n" + EXIT_CODES)
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of every command."""


app.command("run")(run.command)
app.command("schema")(schema.command)
app.command("list")(explain.listing)
app.command("explain")(explain.command)
app.command("audit")(audit.command)
app.command("attack")(attack.command)
app.command("demo")(demo.command)
app.command("reproduce")(reproduce.command)
app.command("compare")(compare.command)
app.command("release", cls=release.ReleaseCommand)(release.command)
app.command("report")(report.command)
app.command("quote")(quote.command)
app.command("plan")(plan.command)
app.add_typer(results.app, name="results")
app.add_typer(data.app, name="data")
app.add_typer(ledger.app, name="ledger")
app.add_typer(federate.app, name="federate")
app.command("serve")(serve.command)
app.add_typer(token.app, name="token")
app.add_typer(stores.app, name="store")
app.add_typer(loop.app, name="loop")


def main(arguments: list[str] | None = None) -> None:
    """Entry point: our errors become one line on stderr (or JSON on stdout) and their exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        with heard(), plugins.blaming_plugins():
            app(given)
    except FairveilError as problem:
        _stop(problem, "--json" in given)
    except OSError as problem:  # a file that cannot be read or written where no command expected it
        where = str(problem.filename or "standard output")
        reason = problem.strerror or type(problem).__name__
        fix = "check the path, the permissions and the free space"
        _stop(StoreError(f"the file system refused: {reason}", given=where, fix=fix), "--json" in given)
    except (KeyboardInterrupt, SystemExit) as ended:
        if isinstance(ended, SystemExit) and ended.code != INTERRUPTED:
            raise
        plain(stderr=True).print(f"interrupted; {after_interruption(given)}")
        sys.exit(INTERRUPTED)


def _stop(problem: FairveilError, as_json: bool) -> NoReturn:
    if as_json:
        with suppress(OSError):  # standard output may be what is full
            print(json.dumps(problem.to_dict()))
    Console(stderr=True).print(f"[bold red]error[/] {problem.code}: ", end="")
    plain(stderr=True).print(str(problem))
    sys.exit(problem.exit_code)
