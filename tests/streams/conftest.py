"""A folder for one stream and its output."""

import pytest
from release_place import Place


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)
