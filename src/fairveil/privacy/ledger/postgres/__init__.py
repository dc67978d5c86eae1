"""A ledger on a PostgreSQL server: rows in one table for all ledgers, advisory locks for writers and who is alive."""
