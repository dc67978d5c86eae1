"""The messages of exposure-fair agents: what they look like, and the sums in them."""

from __future__ import annotations

import numpy as np

from fairveil.arrays import Floats
from fairveil.bandits.exposure.private import PrivatePolicy
from fairveil.federated import Form, Message


def form_of(policy: PrivatePolicy) -> Form:
    """What the messages of a policy's agents look like: sums in scaled rows [x/L, w y/B], and how many rows they hold
    where that is said."""
    d, guarantee = policy.dimension, policy.guarantee()
    assert guarantee is not None
    shapes: dict[str, tuple[int, ...]] = {"gram": (d, d), "moment": (d,)}
    largest = dict.fromkeys(shapes, policy.largest_number)
    if policy.counts_rows:
        shapes["rows"], largest["rows"] = (), float(policy.horizon)
    return Form(policy.agents, shapes, largest, guarantee.to_dict(), symmetric=("gram",), counts=("rows",))


def payload(policy: PrivatePolicy, matrix: Floats, rows: int) -> dict[str, Floats]:
    """A message's arrays; the y y entry of the matrix over [x, y] is not sent."""
    d = policy.dimension
    arrays = {"gram": matrix[:d, :d], "moment": matrix[:d, d]}
    return {**arrays, "rows": np.asarray(float(rows))} if policy.counts_rows else arrays


def matrix_of(message: Message) -> Floats:
    """The sums of a message as one matrix over [x, y]; the y y entry is not sent and is zero."""
    gram, moment = message.payload["gram"], message.payload["moment"]
    full = np.zeros((len(moment) + 1, len(moment) + 1))
    full[:-1, :-1] = gram
    full[:-1, -1] = full[-1, :-1] = moment
    return full
