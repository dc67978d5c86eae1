"""BD: publish when the data moved, with half of what the window has left."""

from __future__ import annotations

from fairveil.configuration import configuration
from fairveil.fields import Epsilon, described
from fairveil.registry import register
from fairveil.streams.protocol import USED, State
from fairveil.streams.releasers.budget_absorption import BUDGETS, Publishing


@register("releaser", "bd")
@configuration
class BudgetDistribution(Publishing):
    """Budget distribution: a publication takes half of what is left in the window.

    Guarantee: as `ba`: epsilon-DP (pure) for any ``window`` successive steps. Publications inside a window spend
    epsilon/4, epsilon/8, ... and never more than epsilon/2 together.
    Cost: one event for the whole stream. One or two draws a step; O(window) time and memory.

    >>> BudgetDistribution(epsilon=1.0, horizon=8).quote().noise_std > 5
    True

    Reference: Kellaris, Papadopoulos, Xiao and Papadias 2014.
    """

    smallest: Epsilon = described("budgets below this are not spent", default=1e-6)

    def offered(self, state: State) -> float:
        numbers, at = state["numbers"], int(state["counts"][USED])
        oldest = numbers[BUDGETS + at % self.width]  # leaves the window now
        spent = float(numbers[BUDGETS:].sum()) - float(oldest)
        budget = (self._half - spent) / 2
        return budget if budget >= self.smallest * self._half else 0.0
