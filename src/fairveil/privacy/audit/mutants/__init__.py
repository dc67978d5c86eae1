"""Privacy mutants: mistakes planted in the code that serves people. What no audit, law or test catches, nobody would.

A guarantee is only as good as the check that would notice its loss. So the served methods of every registered private
thing are broken on purpose, one mistake at a time, and each must be caught.

>>> from fairveil.privacy.mechanisms import Laplace
>>> [mutant.name for mutant in mutants_of("mechanism", Laplace(sensitivity=1.0, epsilon=1.0))]
['no-noise', 'half-noise', 'reused-noise']
"""

from fairveil.privacy.audit.mutants import rules
from fairveil.privacy.audit.mutants.mutant import KIND, Mutant, Plant, mutants_of, rule
from fairveil.privacy.audit.mutants.noises import Reused, Weakened
from fairveil.privacy.audit.mutants.planting import function, method, together, with_noise
from fairveil.privacy.audit.mutants.rules import data_bound, no_clip

__all__ = [
    "KIND",
    "Mutant",
    "Plant",
    "Reused",
    "Weakened",
    "data_bound",
    "function",
    "method",
    "mutants_of",
    "no_clip",
    "rule",
    "rules",
    "together",
    "with_noise",
]
