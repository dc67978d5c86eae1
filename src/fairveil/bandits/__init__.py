"""Bandits: a protocol, an engine, three families of policies."""
