from pathlib import Path

import pytest

from fairveil import plugins

collect_ignore = ["coins_plugin.py"]  # loaded as a plug-in by the tests, never imported as a module
PLUGIN = Path(__file__).parent / "coins_plugin.py"


@pytest.fixture(autouse=True)
def coins() -> Path:
    plugins.load_file(PLUGIN)
    return PLUGIN
