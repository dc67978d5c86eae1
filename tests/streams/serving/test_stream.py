"""`Stream`: one by one as in a batch, forks, threads, what it refuses and says."""

import math
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fairveil
from fairveil.errors import HorizonError, InputError, PrivacyError
from fairveil.privacy.noise import SeededNoise
from fairveil.proof.laws.releasers import OneByOne
from fairveil.streams import BaselineGaussian, BaselineLaplace, Fast, Predictive, PrivateKalman, Stream
from fairveil.streams.serving.stream import NoiseAhead


def assert_same_rows(shown, track):
    for name in ("step", "value", "low", "high", "plain"):
        assert np.array_equal([getattr(row, name) for row in shown], getattr(track, name), equal_nan=True), name
    assert [row.status for row in shown] == [track.row(t).status for t in range(len(shown))]


def noise_of(kind):
    """A source of the noise that a stream draws ahead: the buffer itself, or what the stream shows of zeros."""
    releaser = BaselineGaussian(epsilon=1.0, delta=1e-6, unit="event")
    if kind == "buffer":
        return NoiseAhead(releaser.plan, fairveil.SecureNoise()).take
    stream = Stream(releaser)
    return lambda: stream.release(0.0).plain


@pytest.mark.parametrize(
    "keys", [{}, {"seasons": (7,)}, {"lag": 2}, {"nonnegative": True, "round": True}, {"first": 0.0}]
)
def test_a_stream_shows_what_a_batch_shows(keys):
    releaser = PrivateKalman(epsilon=1.0, delta=1e-6, horizon=150, **keys)
    values = [float(t % 9) if t % 11 else None for t in range(160)]
    track = releaser.run(releaser.start(), values, SeededNoise(5))[1]
    stream = Stream(releaser, noise=SeededNoise(5))
    shown = [stream.release(z) for z in values]
    assert_same_rows(shown, track)
    assert len(stream.finish()) == keys.get("lag", 0)


@pytest.mark.parametrize(
    "releaser",
    [
        BaselineGaussian(epsilon=1.0, delta=1e-6, unit="event"),
        BaselineLaplace(epsilon=1.0, horizon=2100),
        Fast(epsilon=1.0, horizon=2100, process_variance=4.0),
        Predictive(epsilon=1.0, delta=1e-6, horizon=2100, weight=0.3),
    ],
    ids=lambda releaser: releaser.name,
)
def test_whole_numbers_and_more_than_a_block_of_noise_change_nothing(releaser):
    values = [t % 9 if t % 2 else t % 7 / 4 for t in range(2100)]
    track = releaser.run(releaser.start(), values, OneByOne(5))[1]
    stream = Stream(releaser, noise=OneByOne(5))
    assert_same_rows([stream.release(z) for z in values], track)


def test_a_stream_refuses_what_it_cannot_release():
    stream = Stream(PrivateKalman(epsilon=1.0, delta=1e-6, horizon=2), noise=SeededNoise(1))
    for bad in (math.inf, "text", object()):
        with pytest.raises(InputError):
            stream.release(bad)
    stream.release(1)
    stream.release(2.0)
    with pytest.raises(HorizonError):
        stream.release(3.0)
    with pytest.raises(PrivacyError):
        Stream(Predictive(epsilon=1.0, delta=1e-6, horizon=5, law="binomial", variant="printed", weight=0.5))
    with pytest.raises(PrivacyError):
        Stream(Fast(epsilon=1.0, horizon=5, process_variance="oracle"), noise=SeededNoise(1)).release(1.0)


@pytest.mark.parametrize("kind", ["buffer", "stream"])
def test_a_forked_child_shares_no_noise(kind):
    take = noise_of(kind)
    take()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, " ".join(str(take()) for _ in range(20)).encode())
        os._exit(0)
    os.close(writer)
    theirs = set(os.read(reader, 10_000).decode().split())
    os.waitpid(child, 0)
    os.close(reader)
    assert len(theirs) == 20
    assert not theirs & {str(take()) for _ in range(1100)}


def test_threads_share_no_noise():
    take = noise_of("stream")
    with ThreadPoolExecutor(4) as pool:
        drawn = [value for part in pool.map(lambda _: [take() for _ in range(1500)], range(4)) for value in part]
    assert len(set(drawn)) >= len(drawn) - 3  # equal by chance: .08 pairs are expected, four once in a million runs


def test_threads_share_a_stream_and_no_draw():
    stream = Stream(BaselineGaussian(epsilon=1.0, delta=1e-6, horizon=20_000))
    shown = [[] for _ in range(4)]

    def work(own):
        own.extend(stream.release(0.0) for _ in range(4_000))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(own,)) for own in shown]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    rows = [row for own in shown for row in own]
    assert sorted(row.step for row in rows) == list(range(16_000))
    assert len({row.plain for row in rows}) > 15_990  # equal draws by chance: less than one expected


@pytest.mark.parametrize("law", ["gaussian", "laplace", "discrete-gaussian", "binomial"])
def test_single_steps_a_stream_and_a_batch_meet_the_same_seeded_noise(law):
    budget = {"epsilon": 1.0} if law == "laplace" else {"epsilon": 1.0, "delta": 1e-6}
    releaser = PrivateKalman(**budget, law=law, horizon=30)
    values = [100.0 + t % 7 for t in range(30)]
    state = releaser.start()
    batch = releaser.advance(state, np.array(values), SeededNoise(3)).value.tolist()
    state, noise, single = releaser.start(), SeededNoise(3), []
    for z in values:
        state, shown = releaser.release(state, z, noise)
        single.append(shown.value)
    stream = Stream(releaser, noise=SeededNoise(3))
    assert single == batch
    assert [stream.release(z).value for z in values] == batch


def test_a_simulated_stream_says_so():
    releaser = BaselineGaussian(epsilon=1.0, delta=1e-6, horizon=5)
    seeded, secure = Stream(releaser, noise=SeededNoise(1)), Stream(releaser)
    assert seeded.simulated
    assert "protects nobody" in seeded.guarantee.notes[0]
    assert not secure.simulated
    assert secure.guarantee == releaser.guarantee()
