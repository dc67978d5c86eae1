"""What a caller asks for, checked before it waits for the writer, and prepared for one loop: keys instead of ids,
positions instead of names, features as bytes. Errors name the place, never a person's value.
"""

from __future__ import annotations

import secrets
import time
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from fairveil.bandits.protocol import Candidate
from fairveil.errors import complaint_in_words
from fairveil.loop.config import MAX_CANDIDATES, MAX_FEATURES, MAX_MAGNITUDE, LoopSpec
from fairveil.loop.events import PENDING, Event
from fairveil.loop.keys import Keys
from fairveil.loop.problems import Invalid, SubjectTwice

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
    words, allowed = complaint_in_words(first)
    return Invalid(words, path=where, allowed=allowed)


def _order(complaint: Any) -> bool:
    return complaint["type"] != "extra_forbidden"


def checked(kind: type[BaseModel], table: dict[str, Any]) -> Any:
    """A request from Python values."""
    try:
        return kind.model_validate(table)
    except ValidationError as problem:
        raise invalid(problem, kind) from None


# Prepared for one loop ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Ask:
    """A prepared request. ``allowed``: positions that may be chosen; ``shown``: their candidates, empty for arms.

    ``body``: fingerprint of all of it; ``outline``: of all but features; ``subjects``: persons who can be chosen;
    ``mentioned``: everybody who stands in it, ``places``: at how many of those that can be chosen. ``older``: the same
    under keys of before a change of keys.
    """

    event: str
    key: bytes
    body: bytes
    outline: bytes
    subjects: tuple[bytes, ...]
    mentioned: tuple[bytes, ...]
    places: tuple[int, ...]
    allowed: tuple[int, ...] | None
    shown: tuple[Candidate, ...]
    baseline: int | None
    defer: bool
    names: tuple[str | None, ...]
    group: int | None = None
    older: tuple[Ask, ...] = ()

    def permits(self, action: int) -> bool:
        return self.allowed is None or action in self.allowed

    def place(self, action: int) -> int:
        """Where an action stands among those that may be chosen."""
        return action if self.allowed is None else self.allowed.index(action)

    def is_like(self, row: Event) -> bool:
        """Whether this may be the request of a stored event; of an erased one its length alone can tell."""
        if row.erased is not None:
            return not self.shown or row.action < len(self.names)
        if row.body == self.body or (row.learn != PENDING and row.body == self.outline):
            return True
        return any(one.is_like(row) for one in self.older)

    def name(self, row: Event) -> str | None:
        """The name of what was done. After an erasure nobody knows whether a list of candidates is the one of then."""
        if not self.names or (self.shown and row.erased is not None):
            return None
        return self.names[row.action]


class Preparer:
    """Checks requests against the public facts of one loop."""

    def __init__(self, spec: LoopSpec, arms: int | None, keys: Keys) -> None:
        self.spec, self.arms, self.keys = spec, arms, keys
        self.width = 0 if spec.features is None else len(spec.features)
        self.groups = {name: index for index, name in enumerate(spec.groups or ())}
        self.names = tuple(spec.actions) if spec.actions is not None else ()
        self.older = [Preparer(spec, arms, old) for old in keys.old]

    def __call__(self, request: DecisionRequest, event: str = "") -> Ask:
        event = event or request.event_id or new_event_id()
        made = self._arms(request, event) if self.arms is not None else self._candidates(request, event)
        if self.older:
            made.older = tuple(one(request, event) for one in self.older)
        return made

    def _arms(self, request: DecisionRequest, event: str) -> Ask:
        assert self.arms is not None
        if request.candidates is not None:
            raise Invalid("this loop chooses between declared arms", path="candidates", allowed="nothing")
        if request.group is not None and request.group not in self.groups:
            raise Invalid("this group was not declared", path="group", allowed=", ".join(self.groups) or "none")
        if request.subject is None and (self.spec.person.max_events is not None or self.spec.person.sticky):
            raise Invalid("this loop counts events per person", path="subject", fix="say who it is about")
        allowed = self._allowed(request, self.arms)
        keys = self.keys
        plain = request.exclude is None and request.baseline is None and not request.defer and request.group is None
        parts = (request.subject,) if plain else self._parts(request)
        body = keys.body(repr(parts).encode())
        subjects = () if request.subject is None else (keys.subject(request.subject),)
        return Ask(
            event,
            keys.event(event),
            body,
            body,
            subjects,
            subjects,
            (1,) * len(subjects),
            allowed,
            (),
            request.baseline,
            request.defer,
            self.names,
            self._reported(request.group),
        )

    def _candidates(self, request: DecisionRequest, event: str) -> Ask:
        given = request.candidates
        if given is None:
            raise Invalid("this loop chooses between candidates", path="candidates", fix="send them")
        if request.subject is not None or request.group is not None:
            path = "subject" if request.subject is not None else "group"
            raise Invalid("it stands at each candidate", path=path, allowed=f"candidates.*.{path}")
        if len(given) > self.spec.max_candidates:
            most = f"at most {self.spec.max_candidates}"
            raise Invalid("too many candidates", path="candidates", given=len(given), allowed=most)
        allowed = self._allowed(request, len(given))
        shown, digest, outline = [], list[bytes](), [b"outline"]
        mentioned: dict[bytes, None] = {}
        places: dict[bytes, list[int]] = {}
        for index, one in enumerate(given):
            if len(one.features) != self.width:
                path = f"candidates.{index}.features"
                raise Invalid("a candidate has one number per feature", path=path, allowed=f"{self.width} numbers")
            group = self._group(one.group, index)
            raw = array("d", one.features).tobytes()
            words = repr((one.id, group, one.subject)).encode()
            digest += raw, words
            outline.append(words)
            person = None if one.subject is None else self.keys.subject(one.subject)
            if person is not None:
                mentioned[person] = None
            if allowed is None or index in allowed:
                shown.append(Candidate(group, np.frombuffer(raw)))
                if person is not None:
                    places.setdefault(person, []).append(index)
                elif self.spec.person.max_events is not None:
                    path = f"candidates.{index}.subject"
                    raise Invalid("this loop counts events per person", path=path, fix="say who it is about")
        self._check_places(places.values())
        words = repr(self._parts(request)).encode()
        return Ask(
            event,
            self.keys.event(event),
            self.keys.body(b"".join([*digest, words])),
            self.keys.body(b"".join([*outline, words])),
            tuple(places),
            tuple(mentioned),
            tuple(len(places.get(person, ())) for person in mentioned),
            allowed,
            tuple(shown),
            request.baseline,
            request.defer,
            tuple(one.id for one in given),
        )

    def _reported(self, name: str | None) -> int | None:
        """The group of a person in a loop of arms, which a report needs: declared, ``unknown``, or the only one."""
        if self.spec.reports is None or not self.groups:
            return 0
        if name is None:
            name = "unknown" if "unknown" in self.groups or len(self.groups) > 1 else next(iter(self.groups))
        if name not in self.groups:
            raise Invalid(
                "this loop reports by group", path="group", allowed=", ".join(self.groups),
                fix="say the person's group, or declare a group named unknown",
            )  # fmt: skip
        return self.groups[name]

    def _check_places(self, people: Iterable[Sequence[int]]) -> None:
        """Nobody stands at more places than the promise to one person counts."""
        most = self.spec.person.candidates
        for places in people:
            if len(places) > most:
                known = ", ".join(f"candidates.{place}.subject" for place in places[:most])
                raise SubjectTwice(
                    "one person stands at several places",
                    path=f"candidates.{places[most]}.subject",
                    allowed=f"another subject than {known}",
                    fix="show a person once, or declare person.candidates in a new loop: its promise counts each place",
                )

    def _group(self, name: str | None, index: int) -> int:
        if name is None and len(self.groups) <= 1:
            return 0
        if name is None or name not in self.groups:
            path = f"candidates.{index}.group"
            raise Invalid("this group was not declared", path=path, allowed=", ".join(self.groups))
        return self.groups[name]

    def _allowed(self, request: DecisionRequest, count: int) -> tuple[int, ...] | None:
        if request.baseline is not None and request.baseline >= count:
            raise Invalid("the baseline is none of the actions", path="baseline", allowed=f"0 to {count - 1}")
        if not request.exclude:
            return None
        if max(request.exclude) >= count:
            raise Invalid("an excluded action does not exist", path="exclude", allowed=f"0 to {count - 1}")
        left = tuple(sorted(set(range(count)) - set(request.exclude)))
        if not left:
            raise Invalid("every action is excluded", path="exclude", allowed="at least one action left")
        if request.baseline is not None and request.baseline not in left:
            raise Invalid("the baseline is excluded", path="baseline", allowed="an action that is not excluded")
        return left

    @staticmethod
    def _parts(request: DecisionRequest) -> tuple[object, ...]:
        exclude = tuple(sorted(set(request.exclude))) if request.exclude else ()
        return (request.subject, request.group, exclude, request.baseline, request.defer)


def new_event_id() -> str:
    """UUID version 7: sortable by time, 74 random bits."""
    random = secrets.token_bytes(10)
    moment = time.time_ns() // 1_000_000
    digits = (moment.to_bytes(6, "big") + random).hex()
    variant = "89ab"[random[2] & 3]
    return f"{digits[:8]}-{digits[8:12]}-7{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
