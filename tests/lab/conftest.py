from pathlib import Path

import pytest

from fairveil import plugins


@pytest.fixture(autouse=True)
def coins() -> None:
    """A task of coin tosses: quick to run, and nothing of ours."""
    plugins.load_file(Path(__file__).parents[1] / "running" / "coins_plugin.py")
