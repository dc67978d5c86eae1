"""A ledger in a file: SQLite for the rows, flock beside it for who writes and who is alive."""
