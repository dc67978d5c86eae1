"""Where loops are kept: SQLite in a file, or PostgreSQL; a few dozen statements, no mapper between."""

from fairveil.loop.storage.driver import Driver, Transaction, driver_of

__all__ = ["Driver", "Transaction", "driver_of"]
