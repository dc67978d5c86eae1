"""One driver for SQLite and one for PostgreSQL, under everything that must be on disk before it counts.

A driver connects with the settings that make a commit durable, runs transactions, holds the locks between processes,
survives a fork, and says in one word what a failure was. Connections belong to the process: a few are kept and handed
from one user to the next, so that ten thousand open files or names cost as many descriptors and connections as one.
"""
