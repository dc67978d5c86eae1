"""Streams in use: rows in, stored releases, lines out, and one process at a time."""
