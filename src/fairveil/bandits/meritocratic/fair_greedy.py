"""Fair-Greedy: ridge regression on the first half of the history, empirical ranks on the second half. Not private."""

from __future__ import annotations

from fairveil.arrays import Floats
from fairveil.bandits.feedback import AT_ONCE
from fairveil.bandits.meritocratic.estimate import weights_of
from fairveil.bandits.meritocratic.halved_history import HalvedHistory
from fairveil.bandits.meritocratic.runner import ExactRunner, Runner
from fairveil.bandits.simulate import Case, Streams
from fairveil.configuration import configuration
from fairveil.privacy.noise import Noise
from fairveil.registry import register
from fairveil.state import State


@register("policy", "fair-greedy")
@configuration
class FairGreedy(HalvedHistory):
    """The candidate of the highest estimated relative rank; exact, without privacy.

    Guarantee: none. Cost: none. Simulated in far less than the window * features work a round that the definition
    suggests (see `fairveil.bandits.meritocratic.window`); memory O(rounds * candidates * features).

    >>> import fairveil
    >>> result = fairveil.run({"task": "bandit", "rounds": 500, "seed": 1, "policy": {"name": "fair-greedy"},
    ...     "environment": {"name": "gaussian", "weights": [1.0, 0.5], "means": [[0.0, 0.0], [2.0, 0.0]]}})
    >>> result["metrics"]["fair_regret"][-1] < 40
    True

    Reference: Grazzi, Akhavan, Falk, Cella and Pontil 2022.
    """

    def close_leaf(self, state: State, fresh: Floats, leaf: int, noise: Noise) -> State:
        rows = state["rows"][state["entered"]]
        return {"theta": weights_of(rows.T @ rows, self.ridge, self.ridge)}

    def simulator(self, case: Case, streams: Streams) -> Runner | None:
        return ExactRunner(self, case, streams) if case.lateness == AT_ONCE else None
