"""Parties that learn together without pooling rows: messages, schedules, what a party is. Knows no transport.

`Message` is a plain value of named arrays, `Form` says what one must look like before it is believed, `Inbox` takes
each once and in order, `release_once` charges, draws and stores a party's own; `Party` is what a bandit agent and a
consensus node have in common, and `exchange` is one synchronisation of parties in one process.
"""

from fairveil.federated.inbox import Inbox, Receipt
from fairveil.federated.message import Form, Message
from fairveil.federated.outbox import Account, Released, release_once
from fairveil.federated.party import Party, exchange
from fairveil.federated.schedules import Determinant, Doubling, EveryRound, Growing, Never, Paper, Schedule

__all__ = [
    "Account",
    "Determinant",
    "Doubling",
    "EveryRound",
    "Form",
    "Growing",
    "Inbox",
    "Message",
    "Never",
    "Paper",
    "Party",
    "Receipt",
    "Released",
    "Schedule",
    "exchange",
    "release_once",
]
