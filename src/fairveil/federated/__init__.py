"""Parties that learn together without pooling rows: messages, schedules, plans, what a party is. Knows no transport.

`Message` is a plain value of named arrays, `Form` says what one must look like before it is believed, `Inbox` takes
each once and in order; `Party` is what a bandit agent and a consensus node have in common, and `exchange` is one
synchronisation of parties in one process. A party's own releases are made by `fairveil.ledger.release_once`.
A `Plan` is what parties agree on, a `Coordinator` keeps the log of what they say, a `PartyHost` is a party at home, and
a `Carrier` takes bytes from one to the other.
"""

from typing import Any

from fairveil.federated.carrier import Carrier, Inline, drive
from fairveil.federated.coordinator import Coordinator
from fairveil.federated.host import PartyHost
from fairveil.federated.message import Form, Message
from fairveil.federated.party import Inbox, Party, Receipt, exchange
from fairveil.federated.plan import Kind, Member, Plan, Worker
from fairveil.federated.schedules import Determinant, Doubling, EveryRound, Growing, Never, Paper, Schedule
from fairveil.federated.signing import SigningKey

__all__ = [
    "Carrier",
    "Coordinator",
    "Determinant",
    "Doubling",
    "EveryRound",
    "Form",
    "Growing",
    "Inbox",
    "Inline",
    "Kind",
    "Member",
    "Message",
    "Never",
    "Paper",
    "Party",
    "PartyHost",
    "Plan",
    "Receipt",
    "Schedule",
    "SigningKey",
    "Worker",
    "drive",
    "exchange",
]
MOVED = ("Account", "Released", "release_once")
"""Names of `fairveil.ledger` that were found here."""


def __getattr__(name: str) -> Any:
    if name not in MOVED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import warnings

    import fairveil.ledger

    warnings.warn(f"{name} has moved to fairveil.ledger", DeprecationWarning, stacklevel=2)
    return getattr(fairveil.ledger, name)
