"""Group-meritocratic bandits: choose the candidate of the highest relative rank within its own group, privately."""

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
