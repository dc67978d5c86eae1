"""What a loop is, said once at its creation and never changed: policy, reward, persons, budget, retention."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fairveil.configuration import configuration, describe
from fairveil.errors import SpecError, at, spec_error
from fairveil.loop.clock import LONGEST, seconds_of
from fairveil.loop.guards import Allocation, Share
from fairveil.loop.kept import RAW
from fairveil.loop.reporting import Reports
from fairveil.reports.rows import Declared

Mode = Literal["shadow", "apprentice", "online", "frozen", "paused"]
MODES: tuple[str, ...] = get_args(Mode)
Missing = Literal["default", "public", "private"]
MAX_CANDIDATES, MAX_FEATURES, MAX_MAGNITUDE, MAX_ACTIONS = 200, 512, 1e6, 1000
Number = Annotated[float, Field(allow_inf_nan=False, ge=-1e12, le=1e12)]
NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")


@configuration
class Reward:
    """Range and window of a reward, and what is made of one that does not come.

    ``missing``: ``default`` counts it as ``default`` (the lowest reward unless given), so that whether and when a
    reward came is protected; ``public`` leaves it out, and arrivals are public; ``private`` leaves it out too, for
    policies that noise counts. Values outside the range are clipped, or refused when ``strict``.
    """

    low: Number = 0.0
    high: Number = 1.0
    wait: str = "1d"
    missing: Missing | None = None
    default: Number | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        seconds_of(self.wait, "reward.wait")
        if not self.low < self.high:
            allowed = "low below high"
            raise SpecError("the range of the reward is empty", path="reward.high", given=self.high, allowed=allowed)
        if self.default is not None and not (self.low <= self.default <= self.high and self.missing == "default"):
            raise SpecError(
                "the default reward does not fit",
                path="reward.default",
                given=self.default,
                allowed='a number in the range, with missing = "default"',
            )

    @property
    def seconds(self) -> int:
        return seconds_of(self.wait, "reward.wait")


@configuration
class Person:
    """How often one person may be learned from, and whether somebody who comes back keeps the arm.

    ``candidates``: the places of one request at which a person may stand; a person's promise counts each of them.
    """

    max_events: Annotated[int, Field(ge=1, le=10**6)] | None = None
    sticky: bool = False
    candidates: Annotated[int, Field(ge=1, le=MAX_CANDIDATES)] = 1


@configuration
class Feature:
    """A public range of one feature; ``centre`` and ``spread`` where they are known publicly."""

    name: str
    low: Number
    high: Number
    centre: Number | None = None
    spread: Annotated[float, Field(gt=0, allow_inf_nan=False, le=1e12)] | None = None

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise SpecError("the range of a feature is empty", path="high", given=self.high, allowed="above low")


@configuration
class Budget:
    """The ledger that pays. Without a name the loop has one of its own whose limit covers exactly what it costs.

    ``epsilon`` (and ``delta``) make a new shared ledger with that limit; without them the ledger must exist.
    """

    ledger: str | None = None
    epsilon: Annotated[float, Field(ge=1e-6, le=1e6, allow_inf_nan=False)] | None = None
    delta: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] | None = None

    def __post_init__(self) -> None:
        if self.ledger is not None:
            check_name(self.ledger, "budget.ledger")
        elif self.epsilon is not None:
            raise SpecError("a limit is for a ledger that is named", path="budget.ledger", fix="name the ledger")
        if self.delta is not None and self.epsilon is None:
            raise SpecError("delta comes with epsilon", path="budget.epsilon", fix="give both")


@configuration
class Retention:
    """How long raw content and events are kept at most; content goes when its block is released in any case.

    Rounds whose content goes before that count as missing. ``raw``: 90 days, or twice the window where that is longer,
    unless it is given; give more where blocks take longer to fill. A loop of release 0.1 has no limit.
    """

    raw: str | None = None
    events: str = "400d"

    def __post_init__(self) -> None:
        if self.raw is not None:
            seconds_of(self.raw, "retention.raw")
        seconds_of(self.events, "retention.events")


class LoopSpec(BaseModel):
    """The complete description of a loop. Unknown keys are refused.

    ``groups`` that are given as attributes with their values are crossed: their cells become the groups, in
    ``crossings`` stands what they were made of, and reports add the margins.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True)

    name: str
    policy: dict[str, Any]
    actions: Annotated[list[str], Field(max_length=MAX_ACTIONS)] | None = None
    groups: Annotated[list[str], Field(min_length=1, max_length=1000)] | None = None
    crossings: dict[str, list[str]] | None = None
    features: Annotated[list[Feature], Field(min_length=1, max_length=MAX_FEATURES)] | None = None
    reward: Reward = Reward()
    person: Person = Person()
    max_candidates: Annotated[int, Field(ge=1, le=MAX_CANDIDATES)] = 20
    budget: Budget = Budget()
    explore: Share = 0.0
    allocation: Allocation | None = None
    retention: Retention = Retention()
    reports: Reports | None = None
    targets: list[dict[str, Any]] | None = None
    start_from: str | None = None
    mode: Mode = "online"
    simulated: bool = False

    @property
    def of_release_0_1(self) -> bool:
        """Made by release 0.1, which settled no retention."""
        return self.retention.raw is None


PARTS: dict[str, type] = {"reward": Reward, "person": Person, "budget": Budget, "retention": Retention}
OPTIONAL: dict[str, type] = {"reports": Reports, "allocation": Allocation}
"""Parts that a loop may do without."""


def read_spec(table: dict[str, Any]) -> LoopSpec:
    """A checked description; SpecError names the key that is wrong."""
    made = dict(table)
    for key, kind in (PARTS | OPTIONAL).items():
        if key in made and not isinstance(made[key], kind) and not (key in OPTIONAL and made[key] is None):
            made[key] = _part(kind, made[key], key)
    if isinstance(made.get("features"), list | tuple):
        made["features"] = [
            item if isinstance(item, Feature) else _part(Feature, item, f"features.{index}")
            for index, item in enumerate(made["features"])
        ]
    given = made.get("crossings") if made.get("crossings") is not None else made.get("groups")
    if isinstance(given, dict):
        made["crossings"], made["groups"] = given, _cells(given)
    for key in ("actions", "groups"):
        if isinstance(made.get(key), tuple):
            made[key] = list(made[key])
    try:
        spec = LoopSpec.model_validate(made)
    except ValidationError as problem:
        raise spec_error(problem, "", frozenset(LoopSpec.model_fields)) from None
    check_name(spec.name, "name")
    if seconds_of(spec.retention.events, "retention.events") < spec.reward.seconds:
        allowed = f"at least {spec.reward.wait}"
        raise SpecError("events must stay until their window closes", path="retention.events", allowed=allowed)
    for key, names in (("actions", spec.actions), ("groups", spec.groups)):
        check_labels(names, key)
    if spec.features is not None:
        check_labels([feature.name for feature in spec.features], "features")
    return spec


def new_spec(table: dict[str, Any]) -> LoopSpec:
    """The same for a loop that is to be made: retention is settled here, so that it never changes afterwards."""
    spec = read_spec(table)
    if spec.retention.raw is not None:
        return spec
    longer = 2 * spec.reward.seconds > seconds_of(RAW, "retention.raw")
    retention = Retention(
        raw=f"{min(2 * spec.reward.seconds, LONGEST)}s" if longer else RAW, events=spec.retention.events
    )
    return spec.model_copy(update={"retention": retention})


def spec_table(spec: LoopSpec, policy: dict[str, Any]) -> dict[str, Any]:
    """Everything that was declared, defaults filled; `read_spec` reads it back."""
    table = {name: getattr(spec, name) for name in LoopSpec.model_fields}
    for key in (*PARTS, *OPTIONAL):
        table[key] = None if table[key] is None else describe(table[key])
    table["features"] = None if spec.features is None else [describe(feature) for feature in spec.features]
    table["policy"] = policy
    return table


def _cells(given: dict[str, Any]) -> list[str]:
    """The names of all crossings, by which requests say who somebody is."""
    whole = all(isinstance(held, list) and all(isinstance(one, str) for one in held) for held in given.values())
    if not given or not whole:
        allowed = 'names, or attributes with their values: {"sex": ["f", "m"], "age": ["young", "old"]}'
        raise SpecError("these groups cannot be crossed", path="groups", allowed=allowed)
    return list(Declared.of(given).names)


def _part(kind: type, table: Any, path: str) -> Any:
    if table is None:
        return kind()
    if not isinstance(table, dict):
        raise SpecError("this is a table", path=path, given=type(table).__name__, allowed="keys and values")
    try:
        return kind(**table)
    except SpecError as problem:
        raise problem if problem.path.startswith(path) else at(problem, path) from None


def check_name(name: str, path: str) -> None:
    """Names of loops and ledgers are parts of URLs and of file names."""
    if NAME.fullmatch(name) is None or ".." in name:
        allowed = "1 to 64 of a-z, 0-9, '.', '_' and '-', beginning and ending with a letter or digit"
        raise SpecError("this name cannot be used", path=path, given=name, allowed=allowed)


def check_labels(names: list[str] | None, path: str) -> None:
    wrong = names is not None and (
        len(set(names)) < len(names) or not all(0 < len(name) <= 200 and name.isprintable() for name in names)
    )
    if wrong:
        raise SpecError("these names cannot be used", path=path, allowed="different printable names")
