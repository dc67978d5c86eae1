"""The published confidence set of Priv-FairX (lemma 7), with a public shift or floor and bounds on the noise."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairveil.bandits.exposure.belief import Facts, Radius

Floats = NDArray[np.float64]
Definite = Literal["shift", "floor"]


class Federation(NamedTuple):
    """Public numbers of the lemma: agents m, dimension d, releases, and the chance that a set may miss theta*."""

    agents: int
    dimension: int
    releases: int
    failure: float


def lemma_7(stds: Floats, facts: Facts, federation: Federation, definite: Definite) -> tuple[Floats, Radius]:
    """The shift of the Gram matrix and the radius at releases whose entries carry noise of these standard deviations.

    With Gamma a bound on the operator norm of one agent's noise and gamma on its vector, both at once for all agents
    and releases, and rho_min, rho_max the public bounds on the added regularisation, after t rounds

        m (S sqrt(rho_max) + gamma/sqrt(rho_min))/R + sqrt(2 ln(2/failure) + d ln(rho_max/rho_min + t/(d rho_min))).

    ``shift`` adds 2 Gamma m to the diagonal (rho in [Gamma, 3 Gamma]); ``floor`` lifts eigenvalues to lambda instead.
    """
    d, m = federation.dimension, federation.agents
    rare = math.log(2 * federation.releases * m / federation.failure)
    operator = stds * facts.gram * (2 * math.sqrt(d) + 2 * math.sqrt(rare))
    vector = stds * facts.moment * (math.sqrt(d) + math.sqrt(2 * rare))
    if definite == "shift":
        shift, low, high = 2 * operator * m, operator, 3 * operator
    else:
        shift = np.zeros_like(stds)
        low, high = np.full_like(stds, facts.regularisation), facts.regularisation + operator
    offset = m * (facts.bound * np.sqrt(high) + vector / np.sqrt(low)) / math.sqrt(facts.variance)
    level = np.full_like(stds, 2 * math.log(2 / federation.failure))
    return shift, Radius(offset, level, np.zeros_like(stds), high / low, 1 / (d * low))
