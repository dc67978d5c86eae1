"""Group-meritocratic bandits: choose the candidate of the highest relative rank within its own group, privately.

Notation: public arguments have full names, formulas single letters.

==========  ==========  ================================================================
API name    symbol      meaning
==========  ==========  ================================================================
epsilon     epsilon     budget of one candidate of one round
delta       delta       chance that the promise may fail
mu          mu          the same budget in Gaussian DP
rho         rho         the same budget in zCDP
sigma       sigma       noise level of a draw
bound       gamma       bound on the noise of a regression sum
features    x           features of a candidate, or a score
weights     theta       weights of the features
-           a, b, c, d  four weights in a row; a, b, c in family.py: value, low and high
-           p, q, r     columns of these weights, with s the fourth
candidates  s           a slot of a round
groups      k           a group, or a step of a sum
-           i, j        rows and columns of a matrix
==========  ==========  ================================================================
"""

from fairveil.bandits.meritocratic.batched import BatchedPrivateFairGreedy
from fairveil.bandits.meritocratic.fair_greedy import FairGreedy
from fairveil.bandits.meritocratic.family import Meritocratic
from fairveil.bandits.meritocratic.oful import Greedy, Oful
from fairveil.bandits.meritocratic.private_fair_greedy import PrivateFairGreedy
from fairveil.bandits.meritocratic.private_fair_greedy_printed import PrivateFairGreedyPrinted
from fairveil.bandits.meritocratic.scaling import Scaling

__all__ = [
    "BatchedPrivateFairGreedy",
    "FairGreedy",
    "Greedy",
    "Meritocratic",
    "Oful",
    "PrivateFairGreedy",
    "PrivateFairGreedyPrinted",
    "Scaling",
]
