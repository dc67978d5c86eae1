"""Qualification rates under repeated decisions: dynamics, equilibria, interventions, checks of the theory."""

from fairveil.dynamics.qualification.conditions import Uniqueness, common_condition, condition, uniqueness
from fairveil.dynamics.qualification.equilibria import (
    Longrun,
    Settling,
    equilibria,
    fixed_point,
    jacobian,
    long_run,
    settle,
    stable,
)
from fairveil.dynamics.qualification.interventions import (
    common_rates,
    constant_thresholds,
    equalising,
    other_utility,
    raised,
    reachable,
)
from fairveil.dynamics.qualification.model import Model, model, path
from fairveil.dynamics.qualification.task import QualificationTask

__all__ = [
    "Longrun",
    "Model",
    "QualificationTask",
    "Settling",
    "Uniqueness",
    "common_condition",
    "common_rates",
    "condition",
    "constant_thresholds",
    "equalising",
    "equilibria",
    "fixed_point",
    "jacobian",
    "long_run",
    "model",
    "other_utility",
    "path",
    "raised",
    "reachable",
    "settle",
    "stable",
    "uniqueness",
]
