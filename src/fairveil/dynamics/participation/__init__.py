"""Participation: one-shot decisions, retention, reshaping, limits, and the criterion a dynamics calls for."""

from fairveil.dynamics.participation.criteria import CriterionTask, FairSet, fair_set, resting_ratio, sustaining
from fairveil.dynamics.participation.learned import empirical_thresholds, kernel_thresholds, simulate_learned
from fairveil.dynamics.participation.limits import RestingShares, limit, response
from fairveil.dynamics.participation.model import (
    DRIVERS,
    GROWTH,
    Composition,
    Effort,
    Growth,
    History,
    Participation,
    Response,
    model,
    retention,
    simulate,
)
from fairveil.dynamics.participation.task import ParticipationTask
from fairveil.dynamics.participation.trained import LossTable, TrainedTask, loss_table, shares_over_time

__all__ = [
    "DRIVERS",
    "GROWTH",
    "Composition",
    "CriterionTask",
    "Effort",
    "FairSet",
    "Growth",
    "History",
    "LossTable",
    "RestingShares",
    "Participation",
    "ParticipationTask",
    "Response",
    "TrainedTask",
    "empirical_thresholds",
    "fair_set",
    "kernel_thresholds",
    "limit",
    "loss_table",
    "model",
    "response",
    "resting_ratio",
    "retention",
    "shares_over_time",
    "simulate",
    "simulate_learned",
    "sustaining",
]
