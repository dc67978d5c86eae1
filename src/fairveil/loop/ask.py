"""A request prepared for one loop: keys instead of ids, positions instead of names, features as bytes."""

from __future__ import annotations

import secrets
import time
from array import array
from dataclasses import dataclass

import numpy as np

from fairveil.bandits.protocol import Candidate
from fairveil.loop.config import LoopSpec
from fairveil.loop.keys import Keys
from fairveil.loop.problems import Invalid
from fairveil.loop.requests import DecisionRequest


@dataclass(slots=True)
class Ask:
    """``allowed``: positions that may be chosen; ``shown``: their candidates, empty for arms."""

    event: str
    key: bytes
    body: bytes
    subjects: tuple[bytes, ...]
    allowed: tuple[int, ...] | None
    shown: tuple[Candidate, ...]
    baseline: int | None
    defer: bool
    names: tuple[str | None, ...]

    def permits(self, action: int) -> bool:
        return self.allowed is None or action in self.allowed


class Preparer:
    """Checks requests against the public facts of one loop."""

    def __init__(self, spec: LoopSpec, arms: int | None, keys: Keys) -> None:
        self.spec, self.arms, self.keys = spec, arms, keys
        self.width = 0 if spec.features is None else len(spec.features)
        self.groups = {name: index for index, name in enumerate(spec.groups or ())}
        self.names = tuple(spec.actions) if spec.actions is not None else ()

    def __call__(self, request: DecisionRequest) -> Ask:
        event = request.event_id or new_event_id()
        if self.arms is not None:
            return self._arms(request, event)
        return self._candidates(request, event)

    def _arms(self, request: DecisionRequest, event: str) -> Ask:
        assert self.arms is not None
        if request.candidates is not None:
            raise Invalid("this loop chooses between declared arms", path="candidates", allowed="nothing")
        if request.group is not None and request.group not in self.groups:
            raise Invalid("this group was not declared", path="group", allowed=", ".join(self.groups) or "none")
        allowed = self._allowed(request, self.arms)
        keys = self.keys
        plain = request.exclude is None and request.baseline is None and not request.defer and request.group is None
        parts = (request.subject,) if plain else self._parts(request)
        body = keys.body(repr(parts).encode())
        return Ask(
            event,
            keys.event(event),
            body,
            () if request.subject is None else (keys.subject(request.subject),),
            allowed,
            (),
            request.baseline,
            request.defer,
            self.names,
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
        shown, digest, subjects = [], [], []
        for index, one in enumerate(given):
            if len(one.features) != self.width:
                path = f"candidates.{index}.features"
                raise Invalid("a candidate has one number per feature", path=path, allowed=f"{self.width} numbers")
            group = self._group(one.group, index)
            raw = array("d", one.features).tobytes()
            digest.append(raw)
            digest.append(repr((one.id, group, one.subject)).encode())
            if allowed is None or index in allowed:
                shown.append(Candidate(group, np.frombuffer(raw)))
                if one.subject is not None:
                    subjects.append(self.keys.subject(one.subject))
                elif self.spec.person.max_events is not None:
                    path = f"candidates.{index}.subject"
                    raise Invalid("this loop counts events per person", path=path, fix="say who it is about")
        digest.append(repr(self._parts(request)).encode())
        return Ask(
            event,
            self.keys.event(event),
            self.keys.body(b"".join(digest)),
            tuple(dict.fromkeys(subjects)),
            allowed,
            tuple(shown),
            request.baseline,
            request.defer,
            tuple(one.id for one in given),
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
