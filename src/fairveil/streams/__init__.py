"""Private real-time release of sequential data: one noisy release a step, everything else is post-processing.

>>> from fairveil.streams import PrivateKalman, Stream
>>> from fairveil.privacy.noise import SeededNoise
>>> stream = Stream(PrivateKalman(epsilon=1.0, delta=1e-6, horizon=3), noise=SeededNoise(1))
>>> [stream.release(z).status for z in (120.0, None, 131.0)]
['released', 'missing', 'released']
"""

from fairveil.streams import theory
from fairveil.streams.absorption import BudgetAbsorption, BudgetDistribution
from fairveil.streams.baselines import BaselineGaussian, BaselineLaplace
from fairveil.streams.dft import Dft
from fairveil.streams.fast import Fast
from fairveil.streams.people import PersonCounts
from fairveil.streams.predictive import Predictive
from fairveil.streams.private_kalman import PrivateKalman
from fairveil.streams.protocol import Quote, Released, Releaser, Track
from fairveil.streams.stream import Stream
from fairveil.streams.task import StreamTask

__all__ = [
    "BaselineGaussian",
    "BaselineLaplace",
    "BudgetAbsorption",
    "BudgetDistribution",
    "Dft",
    "Fast",
    "PersonCounts",
    "Predictive",
    "PrivateKalman",
    "Quote",
    "Released",
    "Releaser",
    "Stream",
    "StreamTask",
    "Track",
    "theory",
]
