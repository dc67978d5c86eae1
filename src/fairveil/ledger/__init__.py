"""The privacy ledger: write-ahead charges, stored releases, a hash chain, and an anchor against rollback."""

from fairveil.ledger.account import Account, OneEvent, Paid, Released, RunCost, release_many, release_once
from fairveil.ledger.anchor import Anchor, FileAnchor, Mark
from fairveil.ledger.checks import ReleaseLost
from fairveil.ledger.ledger import Ledger
from fairveil.ledger.verify import Report, verify
from fairveil.privacy.limits import Limit

__all__ = [
    "Account",
    "Anchor",
    "FileAnchor",
    "Ledger",
    "Limit",
    "Mark",
    "OneEvent",
    "Paid",
    "ReleaseLost",
    "Released",
    "Report",
    "RunCost",
    "release_many",
    "release_once",
    "verify",
]
