"""Every registered releaser keeps every law, in every unit and law of noise; broken ones are caught."""

import numpy as np
import pytest

from fairveil import registry
from fairveil.errors import ContractError
from fairveil.proof.laws.releasers import LAWS, check_releaser
from fairveil.streams import BaselineGaussian

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "horizon": 60}
MORE = {
    "window": {"name": "private-kalman", "epsilon": 1.0, "delta": 1e-6, "unit": "window", "window": 10},
    "event": {"name": "private-kalman", "epsilon": 1.0, "delta": 1e-6, "unit": "event"},
    "memory": {"name": "private-kalman", "epsilon": 1.0, "delta": 1e-6, "unit": "event", "memory": 0.7},
    "lag": {"name": "private-kalman", **BUDGET, "lag": 4},
    "season": {"name": "private-kalman", **BUDGET, "seasons": [7]},
    "two seasons": {"name": "private-kalman", **BUDGET, "seasons": [4, 7], "horizon": 200},
    "auto": {"name": "private-kalman", **BUDGET, "seasons": "auto"},
    "offset": {"name": "private-kalman", **BUDGET, "neighbours": "add-remove"},
    "participation": {"name": "private-kalman", **BUDGET, "participation": 5},
    "integers": {"name": "private-kalman", **BUDGET, "law": "discrete-gaussian"},
    "coins": {"name": "predictive", **BUDGET, "law": "binomial", "weight": 0.3},
    "printed coins": {"name": "predictive", **BUDGET, "law": "binomial", "weight": 0.5, "variant": "printed"},
    "laplace": {"name": "private-kalman", "epsilon": 1.0, "horizon": 60, "law": "laplace"},
    "geometric": {"name": "private-kalman", "epsilon": 1.0, "delta": 1e-6, "schedule": {"kind": "geometric"}},
    "power": {"name": "private-kalman", "epsilon": 1.0, "delta": 1e-6, "schedule": {"kind": "power", "power": 1.2}},
    "weights": {"name": "predictive", **BUDGET, "weight": [1.0, 1.0, *[0.2] * 58]},
    "known": {"name": "predictive", **BUDGET, "known": {"mean": 50.0, "std": 30.0, "correlation": 0.9}},
    "corrected": {"name": "predictive", **BUDGET, "estimator": "corrected"},
    "samples": {"name": "fast", "epsilon": 1.0, "horizon": 60, "samples": 10},
    "range": {"name": "private-kalman", **BUDGET, "range": [0.0, 60.0], "nonnegative": True},
    "windows": {"name": "dft", "epsilon": 1.0, "horizon": 60, "delay": 12, "frequencies": 3},
    "absorption in windows": {"name": "ba", "epsilon": 1.0, "unit": "window", "window": 8},
    "distribution in windows": {"name": "bd", "epsilon": 1.0, "unit": "window", "window": 8},
}
EXAMPLES = {entry.name: entry.target.example() for entry in registry.entries("releaser")} | {
    name: registry.build("releaser", table, "releaser") for name, table in MORE.items()
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_releaser_keeps_every_law(name):
    assert check_releaser(EXAMPLES[name]) == list(LAWS)


class Remembers(BaselineGaussian):
    def start(self):
        return {**super().start(), "log": np.zeros(0)}

    def advance(self, state, values, noise):
        state["log"] = np.append(state["log"], values)
        return super().advance(state, values, noise)


class ChangesState(BaselineGaussian):
    def run(self, state, values, noise):
        return state, self.advance(state, np.array(values, float), noise)


class SecondNoise(BaselineGaussian):
    def replay(self, state, units, status):
        return super().replay(state, units + 1000 * np.random.default_rng().integers(10**6, size=len(units)), status)


@pytest.mark.parametrize(
    "broken, law",
    [(Remembers, "constant memory"), (ChangesState, "pure step"), (SecondNoise, "same seed, same run")],
)
def test_a_broken_releaser_is_caught_by_the_law_it_breaks(broken, law):
    with pytest.raises(ContractError, match=law):
        check_releaser(broken(epsilon=1.0, delta=1e-6, horizon=60))
