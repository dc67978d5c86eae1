"""What a releaser is given: numbers, or nothing."""

import pytest

from fairveil.errors import InputError
from fairveil.privacy.noise import SeededNoise
from fairveil.streams import BaselineGaussian, Stream


@pytest.mark.parametrize("bad", ["4242", b"4242", True, 10**400, [4242.0], 4242j, {"z": 4242}])
def test_what_is_no_number_is_refused_and_not_repeated(bad):
    stream = Stream(BaselineGaussian(epsilon=1.0, delta=1e-6, horizon=5), noise=SeededNoise(1))
    with pytest.raises(InputError) as caught:
        stream.release(bad)
    assert "4242" not in str(caught.value)
    assert stream.step == 0
    assert stream.release_many([]) == []
