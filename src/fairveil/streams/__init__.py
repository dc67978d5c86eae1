"""Private real-time release of sequential data: one noisy release a step, everything else is post-processing.

`releasers` promise and spend, `filters` are compiled and read released values only, `serving` reads rows, stores
releases and prints lines.

Notation: public arguments have full names, formulas single letters.

===========  =======  =========================================================================================
API name     symbol   meaning
===========  =======  =========================================================================================
epsilon      epsilon  budget of the whole stream
delta        delta    chance that it is exceeded
mu           mu       the budget in Gaussian DP: mu^2 = sum of (sensitivity/noise std)^2
rho          rho      the budget in zCDP; in filters and closed forms the lag-one correlation of the data
-            phi      2 rho: sensitivity^2 sum w^2/variance of the noise (Theorem 8)
value        z        the query over people's current data; in theory.py its variance, in logarithms a mantissa
plain        y        the plain release z + noise, the only place where both meet
shown        x        what is shown: y after a filter; in a polynomial its argument
v            v        y in units of the reference noise
r            r        variance of its noise in those units; in theory.py that of y
step         t        a step
horizon      T        releases of a stream (Theorem 9)
weight       w        weight of y against the prediction; log weight of an expert
count        n        values seen; experts; in theory.py the variance of the noise that reaches x
m            m        level of an expert, experts of a season; half the coins of Binomial noise (Lemma 4)
u            u        deviation of an expert from its level, or the slope of a trend; a stored release
a            a        covariance of (u, m): of u
b            b        of both; in theory.py the linear term of a Riccati equation
c            c        of m
-            q        what a step adds to the variance of an AR(1) sequence
trend        k        1 for a damped trend, else 0
h            h        size of u in the signal: 1, or the season against the level
e            e        what was seen minus what was expected
-            g        the leaky sum; a season candidate; pull (1 - w) r of the last x; a square in a polynomial
frequencies  d        lowest frequencies that are released
-            f        argument of a logarithm's polynomial
status       s        of a stored step; size of a signal against the noise
-            i        an expert
-            j        an expert of a season, a lag, an earlier step
===========  =======  =========================================================================================

>>> from fairveil.streams import PrivateKalman, Stream
>>> from fairveil.privacy.noise import SeededNoise
>>> stream = Stream(PrivateKalman(epsilon=1.0, delta=1e-6, horizon=3), noise=SeededNoise(1))
>>> [stream.release(z).status for z in (120.0, None, 131.0)]
['released', 'missing', 'released']
"""

from fairveil.streams import theory
from fairveil.streams.protocol import Quote, Released, Releaser, Track
from fairveil.streams.releasers.baseline_gaussian import BaselineGaussian
from fairveil.streams.releasers.baseline_laplace import BaselineLaplace
from fairveil.streams.releasers.budget_absorption import BudgetAbsorption
from fairveil.streams.releasers.budget_distribution import BudgetDistribution
from fairveil.streams.releasers.dft import Dft
from fairveil.streams.releasers.fast import Fast
from fairveil.streams.releasers.predictive import Predictive
from fairveil.streams.releasers.private_kalman import PrivateKalman
from fairveil.streams.serving.people import PersonCounts
from fairveil.streams.serving.stream import Stream
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
