"""What agents send each other: a plain value of noisy sums, and the checks before one is believed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.errors import InputError
from fairveil.privacy.ledger.values import decode, encode

Floats = NDArray[np.float64]
VERSION = 1
FIELDS = ("sender", "sync", "round", "gram", "moment", "guarantee")


@dataclass(frozen=True, eq=False)
class Message:
    """Noisy sums of one agent at one synchronisation, in scaled rows [x/L, w y/B], and the promise they were made
    under.

    ``sync`` counts synchronisations from 0, ``round`` is the round after which it was made. Arrays, numbers and a
    table: it can be sent over a wire, and anybody may read it.
    """

    sender: int
    sync: int
    round: int
    gram: Floats
    moment: Floats
    guarantee: dict[str, Any]

    def __post_init__(self) -> None:
        # A value: what has been checked cannot change afterwards, whoever else holds the arrays.
        for name in ("gram", "moment"):
            array = getattr(self, name)
            if isinstance(array, np.ndarray):
                array = array.copy()
                array.setflags(write=False)
                object.__setattr__(self, name, array)

    def to_bytes(self) -> bytes:
        """Typed text, exact to the last bit; `from_bytes` reads it back without running anything."""
        table = {name: getattr(self, name) for name in FIELDS}
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

    def matrix(self) -> Floats:
        """The sums as one matrix over [x, y]; the y y entry is not sent and is zero."""
        width = len(self.moment) + 1
        full = np.zeros((width, width))
        full[:-1, :-1] = self.gram
        full[:-1, -1] = full[-1, :-1] = self.moment
        return full


def problem_with(message: Any, agents: int, dimension: int, largest: float, guarantee: dict[str, Any]) -> str:
    """Why a message cannot be believed, in words that repeat nothing of it; empty when it can.

    ``largest`` is the public limit of its numbers: rows and noise cannot make larger ones.
    """
    if not isinstance(message, Message):
        return "not a message"
    if not _is_count(message.sender) or message.sender >= agents:
        return "from a stranger"
    if not _is_count(message.sync) or not _is_count(message.round):
        return "without a place in the schedule"
    for array, shape in ((message.gram, (dimension, dimension)), (message.moment, (dimension,))):
        if not isinstance(array, np.ndarray) or array.dtype != np.float64 or array.shape != shape:
            return "of the wrong shape"
        if not np.isfinite(array).all():
            return "with numbers that are not finite"
        if np.abs(array).max() > largest:
            return "with numbers that are too large"
    if not np.array_equal(message.gram, message.gram.T):
        return "with a matrix that is not symmetric"
    if message.guarantee != guarantee:
        return "made under another guarantee"
    return ""


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
