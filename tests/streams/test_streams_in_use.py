"""`Stream` and the `stream` task: one by one, forks, oracles, series, and quality on generated data."""

import math
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fairveil
from fairveil.errors import FairveilError, HorizonError, InputError, PrivacyError
from fairveil.privacy.noise import SeededNoise
from fairveil.streams import BaselineGaussian, BaselineLaplace, Fast, PersonCounts, Predictive, PrivateKalman, Stream
from fairveil.streams.ahead import Ahead
from fairveil.streams.contract import OneByOne


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


def assert_same_rows(shown, track):
    for name in ("step", "value", "low", "high", "plain"):
        assert np.array_equal([getattr(row, name) for row in shown], getattr(track, name), equal_nan=True), name
    assert [row.status for row in shown] == [track.row(t).status for t in range(len(shown))]


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


def noise_of(kind):
    """A source of the noise that a stream draws ahead: the buffer itself, or what the stream shows of zeros."""
    releaser = BaselineGaussian(epsilon=1.0, delta=1e-6, unit="event")
    if kind == "buffer":
        return Ahead(releaser.plan, fairveil.SecureNoise()).take
    stream = Stream(releaser)
    return lambda: stream.release(0.0).plain


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


def test_people_count_within_their_bounds():
    counts = PersonCounts(per_step=2, participation=3)
    assert [counts.step(["a", "a", "a", "b"]) for _ in range(4)] == [3, 3, 3, 0]
    assert "a" not in repr(counts).replace("participation", "").replace("PersonCounts", "")
    for bad in (0, 1.5, True):
        with pytest.raises(FairveilError):
            PersonCounts(per_step=bad)


def run(releaser, data, runs=4, **more):
    spec = {"task": "stream", "releaser": releaser, "data": data, "runs": runs, "seed": 3, **more}
    return fairveil.run(spec)


def test_the_task_measures_and_says_that_it_reads_data():
    result = run(
        {"name": "private-kalman", "epsilon": 1.0, "delta": 1e-6}, {"name": "values", "values": [1.0, None, 2.0]}
    )
    metrics = result["metrics"]
    assert metrics["steps"] == 3
    assert metrics["releases"] == 2
    assert "raw data" in metrics["note"]
    assert result["meta"]["simulated"]
    assert set(result["series"]) == {"released", "plain", "true", "error"}
    assert metrics["spent"]["epsilon"] == 1.0
    known = {"mean": 0.0, "std": 1.0, "correlation": 0.9}
    told = run(
        {"name": "predictive", "mu": 30.0, "weight": 0.3, "known": known},
        {"name": "ar1", "rows": 900, "correlation": 0.9},
    )
    assert told["metrics"]["rmse"] == pytest.approx(told["metrics"]["expected_rmse"], rel=0.05)
    assert told["metrics"]["theorem10_rmse"] < told["metrics"]["expected_rmse"]


def test_equal_seeds_are_paired_and_oracles_are_marked():
    data = {"name": "ar1", "rows": 300, "correlation": 0.9}
    plain = run({"name": "baseline-gaussian", "mu": 10.0}, data)
    best = run({"name": "predictive", "mu": 10.0, "weight": "oracle"}, data)
    assert plain["series"]["true"] == best["series"]["true"]
    assert not best["guarantee"]["established"]
    assert best["metrics"]["oracle"]["weight"] < 1
    assert best["metrics"]["rmse"] < plain["metrics"]["rmse"]


@pytest.mark.parametrize("rho, noise, limit", [(0.95, 1.0, 0.90), (0.5, 0.3, 1.03), (0.1, 3.0, 1.02)])
def test_private_kalman_told_nothing_against_the_best_weight(rho, noise, limit):
    data = {"name": "ar1", "rows": 2000, "correlation": rho}
    mu = math.sqrt(2000) / noise
    ours = run({"name": "private-kalman", "mu": mu}, data)["metrics"]
    best = run({"name": "predictive", "mu": mu, "weight": "oracle"}, data)["metrics"]
    assert ours["rmse"] < limit * best["rmse"]
    if noise <= 1:
        assert 0.85 < ours["coverage"] < 0.96


def test_seasons_lag_and_memory_pay():
    season = {"name": "seasonal", "rows": 3000}
    keys = {"name": "private-kalman", "epsilon": 2.0, "delta": 1e-6}
    none = run(keys, season, runs=2)["metrics"]["rmse"]
    assert run({**keys, "seasons": [24, 168]}, season, runs=2)["metrics"]["rmse"] < 0.8 * none
    slow = {"name": "ar1", "rows": 2000, "correlation": 0.95}
    now = run({"name": "private-kalman", "mu": math.sqrt(2000)}, slow)["metrics"]["rmse"]
    assert run({"name": "private-kalman", "mu": math.sqrt(2000), "lag": 10}, slow)["metrics"]["rmse"] < 0.88 * now
    slower = {"name": "ar1", "rows": 2000, "correlation": 0.99}
    event = {"name": "private-kalman", "mu": 1.0, "unit": "event"}
    ratio = run({**event, "memory": 0.7}, slower)["metrics"]["rmse"] / run(event, slower)["metrics"]["rmse"]
    assert ratio < 0.87


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


def test_code_that_was_just_compiled_and_code_from_the_cache_agree_to_the_last_bit(tmp_path):
    script = """
import numpy as np
from fairveil.privacy.noise import SeededNoise
from fairveil.streams import PrivateKalman
releaser = PrivateKalman(epsilon=1.0, delta=1e-7, horizon=40)
values = np.where(np.arange(40) == 7, np.nan, 100.0 + np.arange(40) % 7)
for seed in range(40):
    print(releaser.advance(releaser.start(), values, SeededNoise(seed)).value.tobytes().hex())
"""
    place = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    made = [
        subprocess.run([sys.executable, "-c", script], env=place, capture_output=True, check=True) for _ in range(2)
    ]
    assert made[0].stdout == made[1].stdout
    assert len(made[0].stdout) > 1000


@pytest.mark.parametrize("bad", ["4242", b"4242", True, 10**400, [4242.0], 4242j, {"z": 4242}])
def test_what_is_no_number_is_refused_and_not_repeated(bad):
    stream = Stream(BaselineGaussian(epsilon=1.0, delta=1e-6, horizon=5), noise=SeededNoise(1))
    with pytest.raises(InputError) as caught:
        stream.release(bad)
    assert "4242" not in str(caught.value)
    assert stream.step == 0
    assert stream.release_many([]) == []


def test_a_simulated_stream_says_so():
    releaser = BaselineGaussian(epsilon=1.0, delta=1e-6, horizon=5)
    seeded, secure = Stream(releaser, noise=SeededNoise(1)), Stream(releaser)
    assert seeded.simulated
    assert "protects nobody" in seeded.guarantee.notes[0]
    assert not secure.simulated
    assert secure.guarantee == releaser.guarantee()
