"""BA: windows and budgets."""

import pytest

import fairveil
from fairveil.streams import BudgetAbsorption
from fairveil.streams.protocol import USED

FOUR = {"name": "values", "values": [1.0, 2.0, 3.0, 4.0]}


def run(releaser, data=FOUR, **keys):
    return fairveil.run({"task": "stream", "releaser": releaser, "data": data, **keys})


@pytest.mark.parametrize("name", ["ba", "bd"])
def test_a_window_is_whom_publishing_releasers_protect(name):
    result = run({"name": name, "epsilon": 1.0, "window": 2})
    assert result["spec"]["releaser"]["unit"] == "window"
    assert "any 2 successive steps" in result["guarantee"]["unit"]


def test_a_publication_absorbs_what_was_not_used_and_gives_as_much_up():
    releaser = BudgetAbsorption(epsilon=1.0, unit="window", window=4)
    state, each = releaser.start(), 1 / 8
    offered = []
    for at in range(6):
        offered.append(releaser.offered(state))
        releaser.note(state, offered[-1] if at == 2 else 0.0)
        state["counts"][USED] = at + 1
    assert offered == [each, 2 * each, 3 * each, 0.0, 0.0, each]
