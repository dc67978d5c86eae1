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
from fairveil.dynamics.qualification.model import Qualification, model, path
from fairveil.dynamics.qualification.task import QualificationTask
from fairveil.dynamics.qualification.trained import ResponseTable, endings, response_table, transition_grid
from fairveil.dynamics.qualification.trained_task import TrainedTask

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
