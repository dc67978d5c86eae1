"""Strategic manipulation: the four policies, best response, extreme points, and checks of the theory."""

from fairveil.dynamics.strategic.scene import Scene, Solution, best_thresholds, solve
from fairveil.dynamics.strategic.task import StrategicTask

__all__ = ["Solution", "Scene", "StrategicTask", "best_thresholds", "solve"]
