"""What `fairveil.run` can run: a task prepares a spec, cuts its work into blocks, works on one block, joins the parts.

Blocks depend on the spec alone, never on the number of workers, and parts are joined in block order. That is why the
same spec gives the same result on every engine, and why an interrupted sweep resumes at the first missing block.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fairveil import registry
from fairveil.errors import SpecError, spec_error
from fairveil.fields import Count, Natural
from fairveil.privacy.guarantee import Guarantee
from fairveil.randomness import MAX_SEED

Part = dict[str, Any]
"""What one block yields: names to numpy arrays or plain numbers. It is pickled, saved and sent to other machines."""


MAX_BLOCKS = 10**6
"""More blocks than this are a slip of the keyboard: listing them alone would fill the memory."""


class TaskSpec(BaseModel):
    """Keys every spec may have. A task's own model derives from this and adds its keys."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    task: str = Field(description="which task runs the spec")
    seed: Natural = Field(0, description="seed of everything that is simulated")
    runs: Count = Field(1, description="independent repetitions")
    noise: Literal["seeded", "secure"] = Field(
        "seeded", description="seeded (repeatable, simulated) or secure (from the operating system)"
    )


@dataclass(frozen=True)
class Outcome:
    """What a task hands back: plain Python values only (floats, lists, dicts with string keys)."""

    metrics: dict[str, Any]
    series: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    guarantee: Guarantee | None = None
    simulated: bool = True
    evaluation: bool = False
    """Whether metrics are counted on people without noise: a lab number beside a guarantee, not covered by it."""
    notes: tuple[str, ...] = ()
    """What a reader must know beside the guarantee, or without one."""


class Prepared(NamedTuple):
    """A complete spec, and the case that `blocks`, `work` and `finish` are handed.

    The case is the spec itself unless a task builds something from it that all three need.
    """

    spec: dict[str, Any]
    case: Any


class Task(ABC):
    """Base of all tasks. Subclasses set ``Spec`` and implement `blocks`, `work` and `finish`.

    `prepare` is called once a process and run; a task that builds objects from its spec does so in `build`.
    """

    name: str = ""
    Spec: type[TaskSpec] = TaskSpec
    course: ClassVar[str] = ""
    """The series, one a group, that a comparison draws of a metric that has none of its own."""
    long_run: ClassVar[frozenset[str]] = frozenset()
    """Metrics that say where things go in the long run, whatever the number of steps; others: where a run ended."""

    def prepare(self, spec: dict[str, Any]) -> Prepared:
        """Check a spec, fill every default and build what it describes."""
        try:
            model = self.Spec.model_validate(spec)
        except ValidationError as problem:
            raise spec_error(problem, "", frozenset(self.Spec.model_fields), explained=self.name) from None
        if model.seed > MAX_SEED:
            raise SpecError("the seed is too large", path="seed", given=model.seed, allowed=f"at most {MAX_SEED}")
        return self.build(model)

    def complete(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Check a spec and fill every default; the result is plain data and complete(complete(s)) == complete(s)."""
        return self.prepare(spec).spec

    def build(self, model: Any) -> Prepared:
        """The complete spec of a checked model and its case."""
        spec = self.fill(model)
        return Prepared(spec, spec)

    def fill(self, model: Any) -> dict[str, Any]:
        """Complete nested tables (policies, environments). The default is the model's own defaults."""
        return model.model_dump(mode="json")

    def blocks(self, case: Any) -> list[dict[str, Any]]:
        """Independent pieces of work, a function of the complete spec only."""
        return [{}]

    @abstractmethod
    def work(self, case: Any, block: dict[str, Any]) -> Part:
        """Do one block. Randomness comes from ``generator(spec["seed"], ...)`` with the block's own path."""

    @abstractmethod
    def finish(self, case: Any, parts: list[Part]) -> Outcome:
        """Join the parts, in block order."""


def task_of(spec: Mapping[str, Any]) -> Task:
    """The task that a spec names."""
    if not isinstance(spec, Mapping):
        raise SpecError("a spec is a table", given=type(spec).__name__, allowed='{"task": ..., ...}')
    if "task" not in spec:
        raise SpecError(
            "the spec names no task", path="task", allowed=", ".join(registry.names("task")), fix='task = "bandit", say'
        )
    return registry.get("task", spec["task"], "task")()


def run_blocks(runs: int, size: int) -> list[dict[str, int]]:
    """Cut runs 0..runs-1 into blocks of at most ``size`` runs.

    >>> run_blocks(5, 2)
    [{'first': 0, 'last': 2}, {'first': 2, 'last': 4}, {'first': 4, 'last': 5}]
    """
    if runs > MAX_BLOCKS * size:
        raise SpecError("there are too many runs", path="runs", given=runs, allowed=f"at most {MAX_BLOCKS * size}")
    return [{"first": first, "last": min(first + size, runs)} for first in range(0, runs, size)]


hearing: list[Callable[[str], None]] = []
"""Who shows what `doing` says; nobody in a worker."""


def doing(words: str) -> None:
    """Say how far a long block is."""
    for hear in hearing:
        hear(words)


def threads() -> int:
    """How many threads compiled work may use here: all cores, at most four in an engine's worker (FAIRVEIL_THREADS)."""
    wanted = os.environ.get("FAIRVEIL_THREADS", str(os.cpu_count() or 1))
    if not wanted.isdecimal() or int(wanted) < 1:
        raise SpecError(
            "the number of threads is wrong", path="FAIRVEIL_THREADS", given=wanted, allowed="a whole number from 1 on"
        )
    return int(wanted)
