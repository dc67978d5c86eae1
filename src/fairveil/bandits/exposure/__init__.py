"""Exposure-fair bandits, alone and with many agents (`docs/guides/exposure.md`).

Notation: public arguments have full names, formulas single letters.

==============  =======  ===============================================================
API name        symbol   meaning
==============  =======  ===============================================================
epsilon         epsilon  budget of one interaction
delta           delta    chance that the promise may fail
regularisation  lam      lambda of the ridge
agents          m        number of agents
-               i        an agent, or a row
dimension       d        features of an action
actions         a, b     actions; k in simulate.py is their number
-               k, j     columns of features and factors
-               r, c     rows and columns of a matrix
context         x        features of an action
reward          y        what the chosen action earned
-               z        a point of the unit ball: which parameter of the confidence set
theta           theta    the parameter of the world
horizon         t        a round
-               n        a name
==============  =======  ===============================================================
"""

from fairveil.bandits.environments.exposure import ExposureWorld
from fairveil.bandits.exposure.batched_priv_fairx import BatchedPrivFairx
from fairveil.bandits.exposure.fairx_linucb import FairxLinUcb
from fairveil.bandits.exposure.family import ExposureFamily
from fairveil.bandits.exposure.fed_fairx import FedFairx
from fairveil.bandits.exposure.priv_fairx import PrivFairx
from fairveil.bandits.exposure.priv_fairx_printed import PrivFairxDubeyPentland, PrivFairxPrinted

__all__ = [
    "BatchedPrivFairx",
    "ExposureFamily",
    "ExposureWorld",
    "FairxLinUcb",
    "FedFairx",
    "PrivFairx",
    "PrivFairxDubeyPentland",
    "PrivFairxPrinted",
]
