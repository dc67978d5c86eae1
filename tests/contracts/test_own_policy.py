"""A private policy written by the page alone keeps every law; each line that is wrong is caught by a law."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairveil import plugins, registry
from fairveil.errors import ContractError
from fairveil.loop.accept import policy_of
from fairveil.loop.config import LoopSpec
from fairveil.proof.laws.policies import LAWS, check_policy

PAGE = (Path(__file__).parents[2] / "docs" / "contributing.md").read_text()
PLUGIN = re.search(r"^PLUGIN = '''\n(.*?)^'''", PAGE, re.M | re.S).group(1)
EXAMPLE = next(
    part for part in re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S) if "class EpsilonGreedy" in part
)
AT = "    def numbers(self):"

MISTAKES = {
    "propensity": (
        "propensities_are_frequencies",
        """
    def decide(self, state, round, rng):
        from fairveil.bandits.protocol import Decision

        return Decision(super().decide(state, round, rng).arm)
""",
    ),
    "clip": (
        "audited: its own audit",
        """
    from functools import cached_property

    def _reward(self, feedback):
        return feedback.reward

    @cached_property
    def sum(self):  # the noise of one reward in [0, 1], and room for seven of them
        from fairveil.privacy.sums import BatchSum

        return BatchSum(epsilon=7 * self.release_epsilon, bound=7.0, bits=GRID_BITS)
""",
    ),
    "noise": (
        "exact_cost: the worst answer costs more than is promised",
        """
    from functools import cached_property

    @cached_property
    def sum(self):
        from fairveil.privacy.sums import BatchSum

        return BatchSum(epsilon=2 * self.release_epsilon, bits=GRID_BITS)
""",
    ),
    "simulated noise": (
        "simulations_are_served: a simulated run publishes other sums than its steps",
        """
    @property
    def success(self):  # half of the noise, in simulations alone
        from fairveil.privacy.noise import laplace_parameter

        return laplace_parameter(0.5 * 2.0**GRID_BITS / self.release_epsilon)
""",
    ),
    "block that closes early": (
        "pure_decide: the round is not part of an open block",
        """
    def due(self, state, settled):
        return super().due(state, settled + 1)
""",
    ),
    "block that closes by its content": (
        "pure_decide: the round is not part of an open block",
        """
    def due(self, state, settled):
        block = self.block(state)
        rich = float(abs(state["sum/open"]).sum()) > 2.0**GRID_BITS
        return block.name if block is not None and rich else super().due(state, settled)
""",
    ),
}


def loaded(text: str, folder: Path):
    file = folder / "plain_nash.py"
    file.write_text(text)
    plugins.load_file(file)
    return registry.build("policy", {"name": "plain-nash", "arms": 3, "epsilon": 1.0}, "policy")


def test_the_policy_of_the_page_keeps_every_law_and_is_served(tmp_path):
    with registry.isolated():
        assert check_policy(loaded(PLUGIN, tmp_path)) == list(LAWS)
        table = {"name": "mine", "policy": {"name": "plain-nash", "epsilon": 1.0}, "actions": ["a", "b"]}
        spec = LoopSpec.model_validate(table)
        assert policy_of(spec).name == "plain-nash"


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_line_is_caught_and_not_served(mistake, tmp_path):
    law, wrong = MISTAKES[mistake]
    with registry.isolated():
        policy = loaded(PLUGIN.replace(AT, wrong.lstrip("\n") + "\n" + AT), tmp_path)
        with pytest.raises(ContractError, match=law):
            check_policy(policy)


def test_the_policy_that_reports_certainty_for_coins_is_caught():
    """What this page taught in 0.1.0: half of the choices are coin flips, and every propensity is 1."""
    text = EXAMPLE.replace("Decision(arm, float(law[arm]), law)", "Decision(arm)").replace("default=0.1", "default=0.5")
    assert "Decision(arm)" in text
    with registry.isolated():
        exec(
            compile(text, "contributing.md", "exec", dont_inherit=True),
            {"__name__": "docs", "check_policy": lambda policy: None},
        )
        with pytest.raises(ContractError, match="propensities_are_frequencies: a reported propensity of 1 is in truth"):
            check_policy(registry.build("policy", {"name": "epsilon-greedy-example", "arms": 3}, "policy"))
