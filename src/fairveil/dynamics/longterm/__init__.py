"""The closed loop: a learner retrained on the people whom its own decisions leave behind."""

from fairveil.dynamics.longterm.loop import History, Loop, Own, simulate
from fairveil.dynamics.longterm.task import LongtermTask
from fairveil.dynamics.longterm.world import People, World

__all__ = ["History", "LongtermTask", "Loop", "Own", "People", "World", "simulate"]
