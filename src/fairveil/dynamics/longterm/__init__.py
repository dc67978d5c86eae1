"""The closed loop: a learner retrained on the people whom its own decisions leave behind."""

from fairveil.dynamics.longterm.loop import Cohort, History, Loop, Own, World, simulate
from fairveil.dynamics.longterm.task import LongtermTask

__all__ = ["History", "LongtermTask", "Loop", "Own", "Cohort", "World", "simulate"]
