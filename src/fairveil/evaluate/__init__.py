"""Off-policy evaluation: the value of a rule from the log of another, with and without privacy.

>>> import numpy as np
>>> rng = np.random.default_rng(1)
>>> arms = rng.integers(0, 2, 4000)
>>> log = Log(("a", "b"), arms, (rng.random(4000) < np.where(arms == 1, 0.7, 0.3)) * 1.0, np.full(4000, 0.5))
>>> value = evaluate(log, {"name": "arm", "arm": "b"})["clipped-importance"]
>>> value.low < 0.7 < value.high
True
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairveil.data.logs import Log, LogTable
from fairveil.evaluate.estimators import ESTIMATORS, Estimate, Question
from fairveil.evaluate.private import PrivateValue
from fairveil.evaluate.targets import Support, Target, importance, support
from fairveil.evaluate.task import EvaluateTask
from fairveil.randomness import generator
from fairveil.registry import build

__all__ = ["Estimate", "EvaluateTask", "Log", "LogTable", "PrivateValue", "Support", "Target", "evaluate", "support"]


def evaluate(
    log: Log,
    target: dict[str, Any] | Target,
    *,
    clip: float = np.inf,
    level: float = 0.95,
    seed: int = 0,
    regressor: Any = None,
) -> dict[str, Estimate]:
    """Value of a rule by every estimator (not protected), on the scale of the outcomes.

    ``regressor`` is any scikit-learn regressor for the doubly robust estimate (ridge regression without it).
    """
    rule = target if isinstance(target, Target) else build("target", target, "target")
    law = rule.probabilities(log)
    weights = importance(log, law)
    return {
        name: estimator(Question(log, law, weights, clip, level, generator(seed, "evaluate", name), regressor)).scaled(
            log.low, log.high
        )
        for name, estimator in ESTIMATORS.items()
    }
