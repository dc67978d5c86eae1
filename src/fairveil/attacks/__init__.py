"""Attacks on privacy in practice, each against a twin without the protection and against the code that serves people.

>>> from fairveil.attacks.low_bits import LowBits
>>> found = LowBits().run(seed=1, games=200)
>>> found.succeeds, found.held
(True, True)
"""

from fairveil.attacks.attack import Attack, Result, Wins, guess_chance

__all__ = ["Attack", "Result", "Wins", "guess_chance"]
