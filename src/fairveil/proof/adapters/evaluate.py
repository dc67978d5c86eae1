"""A private evaluation as an adapter; its own laws: one question, one log, people's rows and secure noise only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairveil.errors import PrivacyError, SpecError
from fairveil.evaluate import private, task
from fairveil.evaluate.private import PrivateValue
from fairveil.ledger import Account, Ledger, ReleaseLost
from fairveil.ledger.account import releases_into
from fairveil.privacy.limits import Limit
from fairveil.proof.adapters import SAID_LOST, Adapter, checks_of
from fairveil.proof.engine.adapter import Checks, adapter
from fairveil.proof.laws import must
from fairveil.proof.mutants import Method, Mutant, in_function, twin

VALUE = PrivateValue(epsilon=1.0, clip=2.0)
ROWS = 40


def spec_of(folder: Path, **change: Any) -> dict[str, Any]:
    log = {"file": str(folder / "log.csv"), "propensity": 0.5, "arms": ["a", "b"]}
    table = {"task": "evaluate", "log": log, "target": {"name": "arm", "arm": "a"}, "noise": "secure"}
    return {**table, "epsilon": VALUE.epsilon, "clip": VALUE.clip, **change}


def write_log(folder: Path, outcome: int, rows: int = ROWS) -> None:
    lines = [f"{'ab'[row % 2]},{outcome}" for row in range(rows)]
    (folder / "log.csv").write_text("\n".join(["arm,outcome", *lines]) + "\n")


class Evaluated:
    """A rule that is valued from the log of a folder."""

    def __init__(self, folder: Path, ledger: Ledger) -> None:
        self.folder, self.ledger = folder, ledger

    def release(self, **change: Any) -> Any:
        from fairveil.running.runner import run

        try:
            with releases_into(self.ledger):
                return run(spec_of(self.folder, **change))["metrics"].get("sums")
        except ReleaseLost:
            return SAID_LOST


@contextmanager
def evaluated(folder: Path, number: int) -> Iterator[Evaluated]:
    write_log(folder, number)
    with Ledger.create(folder / "ledger.db", limit=Limit.for_policy(VALUE)) as ledger:
        yield Evaluated(folder, ledger)


def a_longer_log(folder: Path) -> None:
    with evaluated(folder, 1) as other:
        write_log(folder, 1, ROWS + 1)
        other.release()


def another_question(folder: Path) -> None:
    with evaluated(folder, 1) as other:
        other.release(target={"name": "uniform"})


def studies_are_refused(folder: Path) -> None:
    """Under a ledger nothing runs that spends nothing, and no noise that can be computed again."""
    with evaluated(folder, 0) as holder:
        for change in ({"epsilon": None, "clip": None}, {"noise": "seeded"}):
            try:
                holder.release(**change)
            except (SpecError, PrivacyError) as problem:
                must(problem.path in ("epsilon", "noise"), "a study is refused for another reason")
                continue
            must(False, "a study passes for a release")
        must(holder.ledger.spent.units == 0, "a study is charged")


def account(ledger: Ledger) -> Account:
    return private.account_of(VALUE, ledger, {})


def _any_question(value: PrivateValue, ledger: Ledger, question: Any) -> Account:
    return Account(ledger, "evaluate", value.event(), releases=1)


@twin
def _any_rows(
    original: Method, ledger: Ledger, value: PrivateValue, question: Any, weights: Any, outcomes: Any, noise: Any
) -> Any:
    return original(ledger, value, question, weights[:ROWS], outcomes[:ROWS], noise)


@adapter("evaluate")
def evaluate_checks() -> Checks:
    """A private evaluation: `fairveil.evaluate.private`, behind `fairveil run --ledger`."""
    served = private.release_under
    return checks_of(Adapter(
        evaluated,
        (PrivateValue, "release"),
        account,
        lambda name, value: set(value) == {"sums", "rows"},
        (a_longer_log, another_question),
        (studies_are_refused,),
        (
            Mutant("any-question", "an account for any question", in_function(private.account_of, _any_question)),
            Mutant("any-log", "a stored value for a log that has changed", in_function(served, _any_rows(served))),
            Mutant("study-for-release", "what spends nothing runs under a ledger",
                   in_function(task.check_run, lambda spec: None)),
        ),
    ))  # fmt: skip
