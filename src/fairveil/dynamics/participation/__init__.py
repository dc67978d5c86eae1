"""Participation: one-shot decisions, retention, reshaping, limits, and the criterion a dynamics calls for."""

from fairveil.dynamics.participation.criteria import FairSet, fair_set, resting_ratio, sustaining
from fairveil.dynamics.participation.growth import GROWTH, Growth
from fairveil.dynamics.participation.limits import Limit, limit, response
from fairveil.dynamics.participation.model import History, Model, model, simulate
from fairveil.dynamics.participation.reshape import Composition, Effort
from fairveil.dynamics.participation.retention import DRIVERS, Response, retention
from fairveil.dynamics.participation.task import ParticipationTask

__all__ = [
    "DRIVERS",
    "GROWTH",
    "Composition",
    "Effort",
    "FairSet",
    "Growth",
    "History",
    "Limit",
    "Model",
    "ParticipationTask",
    "Response",
    "fair_set",
    "limit",
    "model",
    "response",
    "resting_ratio",
    "retention",
    "simulate",
    "sustaining",
]
