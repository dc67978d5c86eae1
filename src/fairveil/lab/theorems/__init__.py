"""Theorems as checks: premises, conclusion and the numbers behind them, on one instance or on many random ones."""
