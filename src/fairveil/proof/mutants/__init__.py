"""Privacy mutants: mistakes planted in the code that serves people. What no audit, law or test catches, nobody would.

A guarantee is only as good as the check that would notice its loss. So the served methods of every registered private
thing are broken on purpose, one mistake at a time, and each must be caught. Where a mistake is no line of served code,
a broken copy is shown to the audits instead.

>>> from fairveil.privacy.mechanisms import Gaussian
>>> [mutant.name for mutant in mutants_of("mechanism", Gaussian(sensitivity=1.0, epsilon=1.0, delta=1e-5))]
['no-noise', 'half-noise', 'reused-noise', 'uncounted-rows']
"""

from fairveil.proof.mutants.everywhere import data_bound, no_clip
from fairveil.proof.mutants.mutant import (
    KIND,
    Method,
    Mutant,
    Plant,
    Reused,
    Weakened,
    broken_copy,
    function,
    in_function,
    in_its,
    in_method,
    method,
    mutants_of,
    replaced,
    rule,
    together,
    twin,
    with_noise,
)

__all__ = [
    "KIND",
    "Method",
    "Mutant",
    "Plant",
    "Reused",
    "Weakened",
    "broken_copy",
    "data_bound",
    "function",
    "in_function",
    "in_its",
    "in_method",
    "method",
    "mutants_of",
    "no_clip",
    "replaced",
    "rule",
    "together",
    "twin",
    "with_noise",
]
