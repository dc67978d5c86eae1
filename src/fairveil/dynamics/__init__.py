"""Long-term fairness: who stays, who becomes qualified, who manipulates, in closed loops with decisions."""

from fairveil.dynamics.distributions import Distribution, distribution, empirical
from fairveil.dynamics.fico import fico_groups
from fairveil.dynamics.longterm import LongtermTask
from fairveil.dynamics.participation import ParticipationTask
from fairveil.dynamics.population import Population, measure, optimal_thresholds, population
from fairveil.dynamics.qualification import QualificationTask
from fairveil.dynamics.strategic import Scene, StrategicTask

__all__ = [
    "Distribution",
    "LongtermTask",
    "ParticipationTask",
    "Population",
    "QualificationTask",
    "Scene",
    "StrategicTask",
    "distribution",
    "empirical",
    "fico_groups",
    "measure",
    "optimal_thresholds",
    "population",
]
