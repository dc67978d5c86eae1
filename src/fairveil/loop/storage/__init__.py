"""Where loops are kept: SQLite in a file, or PostgreSQL; a few dozen statements, no mapper between."""

from fairveil.loop.storage.choice import driver_of
from fairveil.loop.storage.driver import Driver, Transaction

__all__ = ["Driver", "Transaction", "driver_of"]
