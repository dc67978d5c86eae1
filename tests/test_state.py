"""States as bytes: what is saved is given back exactly, files of NumPy's own are read too, damage is noticed."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from fairveil.state import load_state, same_state, save_state

STATE = {
    "whole": np.arange(6).reshape(2, 3),
    "across": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "number": np.array(0.1),
    "none": np.zeros((0, 4), np.int64),
    "inner/words": np.array(["x", "é"]),
    "mérite": np.array([True, False]),
    "every-second": np.arange(10)[::2],
    "not-a-number": np.array([np.nan, np.inf]),
}


def by_numpy(state):
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **state)
    return buffer.getvalue()


@pytest.mark.parametrize("write", [save_state, by_numpy])
@pytest.mark.parametrize("state", [STATE, {}], ids=["arrays", "empty"])
def test_a_state_is_given_back_exactly(write, state):
    found = load_state(write(state))
    assert same_state(state, found)
    assert list(found) == list(state)
    for name, array in found.items():
        assert array.shape == state[name].shape
        assert array.flags.f_contiguous == state[name].flags.f_contiguous or not state[name].flags.c_contiguous
        assert array.flags.writeable


def test_numpy_and_zip_read_what_is_saved():
    data = save_state(STATE)
    assert zipfile.ZipFile(io.BytesIO(data)).testzip() is None
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        assert same_state(STATE, dict(archive))


def test_damage_is_noticed_and_objects_are_refused():
    data = bytearray(save_state(STATE))
    data[data.index(STATE["whole"].tobytes())] ^= 1
    with pytest.raises(zipfile.BadZipFile):
        load_state(bytes(data))
    with pytest.raises((zipfile.BadZipFile, ValueError, EOFError)):
        load_state(save_state(STATE)[:-40])
    with pytest.raises(ValueError, match="no objects"):
        save_state({"a": np.array([{}], object)})
