"""The privacy ledger: write-ahead charges, stored releases, a hash chain, and an anchor against rollback."""

from fairveil.privacy.ledger.anchor import Anchor, FileAnchor, Mark
from fairveil.privacy.ledger.checks import ReleaseLost
from fairveil.privacy.ledger.ledger import Ledger
from fairveil.privacy.ledger.verify import Report, verify
from fairveil.privacy.limits import Limit

__all__ = ["Anchor", "FileAnchor", "Ledger", "Limit", "Mark", "ReleaseLost", "Report", "verify"]
