"""Qualification rates under repeated decisions: dynamics, equilibria, interventions, checks of the theory."""

from fairveil.dynamics.qualification.equilibria import (
    Longrun,
    Settling,
    common_rates,
    constant_thresholds,
    equalising,
    equilibria,
    fixed_point,
    jacobian,
    long_run,
    other_utility,
    raised,
    reachable,
    settle,
    stable,
)
from fairveil.dynamics.qualification.model import (
    Qualification,
    Uniqueness,
    common_condition,
    condition,
    model,
    path,
    uniqueness,
)
from fairveil.dynamics.qualification.task import QualificationTask
from fairveil.dynamics.qualification.trained import ResponseTable, TrainedTask, endings, response_table, transition_grid

__all__ = [
    "Longrun",
    "Qualification",
    "QualificationTask",
    "ResponseTable",
    "Settling",
    "TrainedTask",
    "Uniqueness",
    "common_condition",
    "common_rates",
    "condition",
    "constant_thresholds",
    "equalising",
    "endings",
    "equilibria",
    "fixed_point",
    "jacobian",
    "long_run",
    "model",
    "other_utility",
    "path",
    "raised",
    "reachable",
    "response_table",
    "settle",
    "stable",
    "transition_grid",
    "uniqueness",
]
