"""What parties send each other: a plain value of named arrays, and the checks before one is believed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.errors import InputError
from fairveil.ledger.values import decode, encode

VERSION = 2
FIELDS = ("sender", "sync", "round", "payload", "guarantee", "lost")


@dataclass(frozen=True, eq=False)
class Message:
    """Released numbers of one party at one synchronisation, and the promise they were made under.

    ``sync`` counts synchronisations from 0, ``round`` is the public time at which it was made, ``payload`` holds arrays
    by name. ``lost``: the release was charged but its value is gone; the payload then says only what was public before.
    Arrays, numbers and a table: it can be sent over a wire, and anybody may read it. Who a sender is must be
    established by whatever carries the bytes.

    >>> message = Message(1, 0, 16, {"moment": np.zeros(2)}, {"epsilon": 1.0})
    >>> Message.from_bytes(message.to_bytes()).payload["moment"]
    array([0., 0.])
    """

    sender: int
    sync: int
    round: int
    payload: Mapping[str, NDArray[Any]]
    guarantee: dict[str, Any]
    lost: bool = False

    def __post_init__(self) -> None:
        # A value: what has been checked cannot change afterwards, whoever else holds the arrays.
        if not isinstance(self.payload, Mapping):
            return
        own = {}
        for name, array in self.payload.items():
            if isinstance(array, np.ndarray):
                array = array.copy()
                array.setflags(write=False)
            own[name] = array
        object.__setattr__(self, "payload", MappingProxyType(own))

    def to_bytes(self) -> bytes:
        """Typed text, exact to the last bit; `from_bytes` reads it back without running anything."""
        table = {name: getattr(self, name) for name in FIELDS} | {"payload": dict(self.payload)}
        return encode({"version": VERSION, **table}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Message:
        try:
            table = decode(data.decode())
            version = table.pop("version")
            if version != VERSION or set(table) != set(FIELDS):
                raise KeyError("fields")
            return cls(**table)
        except Exception:  # whatever a stranger sends: refuse it, and repeat nothing of it
            raise InputError(
                "this is not a message",
                path="message",
                allowed=f"a message of version {VERSION} with {', '.join(FIELDS)}",
            ) from None


@dataclass(frozen=True)
class Form:
    """What a message must look like before it is believed; all of it is public.

    ``shapes`` of the arrays by name; ``largest`` absolute number of each: rows and noise cannot make larger ones;
    ``symmetric`` arrays are matrices equal to their transpose, ``counts`` hold whole numbers from zero on.

    >>> form = Form(2, {"moment": (2,)}, {"moment": 10.0}, {"epsilon": 1.0})
    >>> form.problem_with(Message(1, 0, 16, {"moment": np.array([1.0, np.inf])}, {"epsilon": 1.0}))
    'with numbers that are not finite'
    """

    parties: int
    shapes: Mapping[str, tuple[int, ...]]
    largest: Mapping[str, float]
    guarantee: dict[str, Any]
    symmetric: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()

    def problem_with(self, message: Any) -> str:
        """Why a message cannot be believed, in words that repeat nothing of it; empty when it can."""
        if not isinstance(message, Message):
            return "not a message"
        if not _is_count(message.sender) or message.sender >= self.parties:
            return "from a stranger"
        if not _is_count(message.sync) or not _is_count(message.round) or not isinstance(message.lost, bool):
            return "without a place in the schedule"
        if not isinstance(message.payload, Mapping) or set(message.payload) != set(self.shapes):
            return "with other arrays than agreed"
        for name, shape in self.shapes.items():
            reason = self._problem_in(name, message.payload[name], shape)
            if reason:
                return reason
        if not isinstance(message.guarantee, Mapping):
            return "made under another guarantee"
        if message.guarantee != self.guarantee and _promise(message.guarantee) != _promise(self.guarantee):
            return "made under another guarantee"
        return ""

    def _problem_in(self, name: str, array: Any, shape: tuple[int, ...]) -> str:
        if not isinstance(array, np.ndarray) or array.dtype != np.float64 or array.shape != shape:
            return "of the wrong shape"
        if not np.isfinite(array).all():
            return "with numbers that are not finite"
        if np.abs(array).max(initial=0.0) > self.largest[name]:
            return "with numbers that are too large"
        if name in self.symmetric and not np.array_equal(array, array.T):
            return "with a matrix that is not symmetric"
        if name in self.counts and ((array < 0) | (array != np.floor(array))).any():
            return "with a count that is not one"
        return ""


def _promise(stated: Any) -> Any:
    """What is promised: notes are words, of which a party with a newer version may have more, and numbers are compared
    to twelve digits, because the last ones depend on version and machine."""
    if isinstance(stated, Mapping):
        return {name: _promise(value) for name, value in stated.items() if name != "notes"}
    return float(f"{stated:.12g}") if isinstance(stated, float) else stated


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
