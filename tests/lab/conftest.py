from pathlib import Path

import pytest

from fairveil import registry

PLUGIN = Path(__file__).parent / "coins_plugin.py"


@pytest.fixture(autouse=True)
def coins() -> Path:
    registry.load_plugin(PLUGIN)
    return PLUGIN
