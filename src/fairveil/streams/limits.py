"""The limit that lets exactly one stream pass."""

from __future__ import annotations

from fairveil.privacy.charges import Currency, charge
from fairveil.privacy.events import GaussianEvent, ZcdpEvent
from fairveil.privacy.limits import Limit
from fairveil.streams.columns import Columns
from fairveil.streams.protocol import Releaser


def exact_limit(releaser: Releaser | Columns) -> Limit:
    """A ledger's limit for this stream and nothing else, in the currency of its noise.

    >>> from fairveil.streams.baselines import BaselineLaplace
    >>> exact_limit(BaselineLaplace(epsilon=0.5, horizon=10)).units
    500000
    """
    event, promise = releaser.event(), releaser.guarantee()
    currency = Currency.EPSILON
    if isinstance(event, GaussianEvent):
        currency = Currency.GAUSSIAN
    elif isinstance(event, ZcdpEvent):
        currency = Currency.ZCDP
    needed = charge(event, currency, promise.epsilon)
    return Limit(currency, needed.units, needed.delta_units, promise.epsilon, promise.delta)
