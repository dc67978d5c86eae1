"""What a caller asks for, checked before it waits for the writer. Errors name the place, never a person's value."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from fairveil.loop.config import MAX_CANDIDATES, MAX_FEATURES, MAX_MAGNITUDE
from fairveil.loop.problems import Invalid

MAX_BATCH = 1000


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("printable characters")
    return text


Id = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]
Finite = Annotated[float, Field(allow_inf_nan=False, ge=-MAX_MAGNITUDE, le=MAX_MAGNITUDE)]
Place = Annotated[int, Field(ge=0, le=10**6)]
_RULES = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class CandidateRequest(BaseModel):
    """One person or item that can be chosen."""

    model_config = _RULES

    id: Id | None = None
    group: Id | None = None
    features: Annotated[list[Finite], Field(max_length=MAX_FEATURES)]
    subject: Id | None = None


class DecisionRequest(BaseModel):
    """A request for a decision. ``event_id`` is made by the caller before the first attempt, so that retries repeat."""

    model_config = _RULES

    event_id: Id | None = None
    subject: Id | None = None
    group: Id | None = None
    candidates: Annotated[list[CandidateRequest], Field(min_length=1, max_length=MAX_CANDIDATES)] | None = None
    exclude: Annotated[list[Place], Field(max_length=1000)] | None = None
    baseline: Place | None = None
    defer: bool = False


class RewardRequest(BaseModel):
    model_config = _RULES

    value: Annotated[float, Field(allow_inf_nan=False)]


class NamedReward(RewardRequest):
    event_id: Id


class DecisionsRequest(BaseModel):
    model_config = _RULES

    decisions: Annotated[list[DecisionRequest], Field(min_length=1, max_length=MAX_BATCH)]


class RewardsRequest(BaseModel):
    model_config = _RULES

    rewards: Annotated[list[NamedReward], Field(min_length=1, max_length=MAX_BATCH)]


def invalid(problem: ValidationError, kind: type[BaseModel]) -> Invalid:
    """The first complaint as a problem; what was given is not repeated, it may be about a person."""
    first = min(problem.errors(include_input=False, include_url=False), key=_order)
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = ", ".join(sorted(kind.model_fields))
        *above, _ = where.rpartition(".")
        return Invalid("this key is not known", path="".join(above).rstrip("."), allowed=known)
    if first["type"] == "missing":
        return Invalid("this key is required", path=where, fix="add it")
    return Invalid("the value does not fit", path=where, allowed=first["msg"])


def _order(complaint: Any) -> bool:
    return complaint["type"] != "extra_forbidden"


def checked(kind: type[BaseModel], table: dict[str, Any]) -> Any:
    """A request from Python values."""
    try:
        return kind.model_validate(table)
    except ValidationError as problem:
        raise invalid(problem, kind) from None
