"""Bodies of the routes that are not hot."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from fairveil.loop.requests import Id

_RULES = ConfigDict(extra="forbid", strict=True)


class LoopBody(BaseModel):
    """A loop; keys and their meaning are in the guide. Checked by `fairveil.loop.config.read_spec`."""

    model_config = _RULES

    name: str
    policy: dict[str, Any]
    actions: list[str] | None = None
    groups: list[str] | None = None
    features: list[dict[str, Any]] | None = None
    reward: dict[str, Any] | None = None
    person: dict[str, Any] | None = None
    max_candidates: int | None = None
    budget: dict[str, Any] | None = None
    explore: float | None = None
    targets: Any = None
    reports: Any = None
    retention: dict[str, Any] | None = None
    start_from: str | None = None
    mode: str | None = None
    simulated: bool | None = None


class ModeBody(BaseModel):
    model_config = _RULES

    mode: str


class SubjectBody(BaseModel):
    model_config = _RULES

    subject: Id


class ReleaseBody(BaseModel):
    model_config = _RULES

    kind: str
    first: int | None = None
    stop: int | None = None
    epsilon: float | None = None
    settings: dict[str, Any] | None = None


class QuoteBody(BaseModel):
    model_config = _RULES

    kind: str
    settings: dict[str, Any] | None = None
