"""Compiled filters: they read plain releases and public facts, never data."""
