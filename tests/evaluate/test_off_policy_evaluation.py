"""Off-policy evaluation: exact where everything can be enumerated, intervals that cover, honest about support."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import fairveil
from fairveil.data import available
from fairveil.errors import DataError, InputError, SpecError
from fairveil.evaluate import Log, LogTable, PrivateValue, evaluate, support
from fairveil.evaluate.estimators import ESTIMATORS, Question
from fairveil.evaluate.private import with_laplace
from fairveil.evaluate.targets import importance
from fairveil.privacy.guarantee import REFUSED
from fairveil.privacy.noise import SeededNoise, ZeroNoise
from fairveil.randomness import generator
from fairveil.registry import build

LEARNED = {"name": "mixture", "shares": [0.1, 0.2, 0.7]}


def enumerated() -> tuple[Log, float]:
    """Every (context, arm, outcome) as often as the logging law says, in 10,000 rows; and the rule's true value."""
    logging = {0.0: (20, 30, 50), 1.0: (50, 30, 20)}
    success = {0.0: (10, 40, 80), 1.0: (70, 50, 20)}
    rows = []
    for x, arm in itertools.product((0.0, 1.0), range(3)):
        count = 50 * logging[x][arm]
        wins = count * success[x][arm] // 100
        rows += [(x, arm, float(k < wins), logging[x][arm] / 100) for k in range(count)]
    x, arm, y, p = (np.array(column) for column in zip(*rows, strict=True))
    value = np.mean([0.1 * s[0] + 0.2 * s[1] + 0.7 * s[2] for s in success.values()]) / 100
    return Log(("a", "b", "c"), arm.astype(int), y, p, x[:, None]), float(value)


def test_exact_where_the_log_is_the_law_itself():
    log, truth = enumerated()
    found = evaluate(log, LEARNED)
    assert found["clipped-importance"].value == pytest.approx(truth, abs=1e-9)
    assert found["self-normalised"].value == pytest.approx(truth, abs=1e-9)
    assert found["replay"].low < truth < found["replay"].high


def test_doubly_robust_is_exact_with_the_right_model_and_any_propensities():
    class Oracle:
        """Success rates by context and arm, whatever the rows say."""

        def get_params(self, deep=True):
            return {}

        def set_params(self):
            return self

        def fit(self, x, y):
            return self

        def predict(self, x):
            table = np.array([[0.1, 0.4, 0.8], [0.7, 0.5, 0.2]])
            return table[x[:, 0].astype(int), x[:, 1:4].argmax(axis=1)]

    log, truth = enumerated()
    wrong = Log(log.arms, log.chosen, log.outcomes, np.full(len(log), 1 / 3), log.contexts)
    assert evaluate(wrong, LEARNED, regressor=Oracle())["doubly-robust"].value == pytest.approx(truth, abs=1e-9)
    assert abs(evaluate(wrong, LEARNED)["clipped-importance"].value - truth) > 0.01


def simulated(run: int, rows: int = 2000) -> tuple[Log, float]:
    rng = generator(11, "log", run)
    x = rng.integers(0, 2, rows)
    logging = np.array([[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]])
    success = np.array([[0.1, 0.4, 0.8], [0.7, 0.5, 0.2]])
    arm = (rng.random(rows)[:, None] > np.cumsum(logging, axis=1)[x]).sum(axis=1)
    y = (rng.random(rows) < success[x, arm]).astype(float)
    value = float((success @ np.array([0.1, 0.2, 0.7])).mean())
    return Log(("a", "b", "c"), arm, y, logging[x, arm], x[:, None].astype(float)), value


@pytest.mark.parametrize(
    "name, logs", [("replay", 4000), ("clipped-importance", 4000), ("self-normalised", 4000), ("doubly-robust", 1000)]
)
def test_intervals_cover(name, logs):
    """Nominal 95 %; the band .93 to .99 is at least 2.9 standard errors of the count away from it."""
    hits = 0
    for run in range(logs):
        log, truth = simulated(run, 1000)
        law = build("target", LEARNED, "target").probabilities(log)
        question = Question(log, law, importance(log, law), np.inf, 0.95, generator(run, "evaluate", name))
        estimate = ESTIMATORS[name](question)
        hits += estimate.low <= truth <= estimate.high
    assert 0.93 <= hits / logs <= 0.99


@pytest.mark.parametrize("delta", [None, 1e-5])
def test_private_intervals_cover_and_shrink_with_the_budget(delta):
    widths = []
    for epsilon in (0.5, 5.0):
        value, hits, width = PrivateValue(epsilon, clip=3.5, delta=delta, largest_weight=3.5), 0, 0.0
        for run in range(1000):
            log, truth = simulated(run)
            law = np.tile([0.1, 0.2, 0.7], (len(log), 1))
            weights = law[np.arange(len(log)), log.chosen] / log.propensities
            found = value.estimate(value.release(weights, log.outcomes, SeededNoise(run)), len(log), 0.95)
            hits += found.low <= truth <= found.high
            width += found.high - found.low
        assert 0.93 <= hits / 1000 <= 0.99
        widths.append(width)
    assert widths[0] > widths[1]


def clipped_log(run: int, rows: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Weights and outcomes where one of four arms is valued by uniform logging: weights reach 4, the truth is .4."""
    rng = generator(23, "clipped", run)
    return np.where(rng.random(rows) < 0.25, 4.0, 0.0), (rng.random(rows) < 0.4).astype(float)


@pytest.mark.parametrize("largest, top", [(4.0, 0.4454 + (1 - 2.185 / 4) / 2), (None, 0.4454 + 0.5)])
def test_a_clip_below_the_largest_weight_is_said_and_covered(largest, top):
    """Version 0.1.0 covered 0 of 200 and said nothing: value .2185, truth .4. Centred, the value is .4454."""
    value, hits, values, tops = PrivateValue(5.0, clip=2.185, largest_weight=largest), 0, [], []
    for run in range(200):
        found = value.estimate(value.release(*clipped_log(run), SeededNoise(run)), 2000, 0.95)
        hits += found.low <= 0.4 <= found.high
        values.append(found.value)
        tops.append(found.high)
    assert hits == 200
    assert np.mean(values) == pytest.approx(0.4454, abs=0.002)
    assert np.mean(tops) == pytest.approx(top, abs=0.05)
    assert any("may be wrong" in note for note in value.guarantee().notes)
    assert not any("may be wrong" in note for note in PrivateValue(5.0, clip=4.0, largest_weight=4.0).guarantee().notes)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.99])
@pytest.mark.parametrize("delta, epsilon", [(None, 0.02), (None, 0.3), (1e-5, 0.1)])
def test_private_intervals_keep_the_level_that_is_asked_for(level, delta, epsilon):
    """Noise alone (.02) and noise beside sampling. Bands are four standard errors of 1,000 logs; a second moment that
    is bounded from above makes the interval wider where sampling counts, so nothing is asked of the top there.
    """
    value, hits, runs = PrivateValue(epsilon, clip=4.0, delta=delta, largest_weight=4.0), 0, 1000
    for run in range(runs):
        found = value.estimate(value.release(*clipped_log(run), SeededNoise(5, run)), 2000, level)
        hits += found.low <= 0.4 <= found.high
    band = 4 * math.sqrt(level * (1 - level) / runs)
    assert level - band <= hits / runs
    if epsilon == 0.02:
        assert hits / runs <= level + band


@pytest.mark.parametrize("level", [0.5, 0.95, 0.9999])
def test_the_half_width_moves_smoothly_from_noise_to_sampling(level):
    """No seam where a formula ends: between ratios of 1e-6 and 1e6 neighbours differ by what the ratio does."""
    ratios = np.geomspace(1e-6, 1e6, 1201)
    halves = np.array([with_laplace(ratio, 1.0, level) for ratio in ratios])
    assert (np.diff(halves) >= -1e-7 * halves[1:]).all()
    assert (halves[1:] / halves[:-1] <= ratios[1] / ratios[0] * (1 + 1e-6)).all()
    assert halves[0] == pytest.approx(math.log(1 / (1 - level)) / math.sqrt(2), rel=1e-6)


def test_private_sums_move_by_at_most_one_in_all_whatever_the_row_holds():
    rng = np.random.default_rng(3)
    value = PrivateValue(1.0, clip=2.0)
    weights, outcomes = rng.random(50) * 4, rng.random(50)
    before = value.release(weights, outcomes, ZeroNoise())
    for weight, outcome in itertools.product((0.0, 1.0, 1e300, math.inf), (0.0, 0.3, 1.0)):
        changed, results = weights.copy(), outcomes.copy()
        changed[7], results[7] = weight, outcome
        moved = np.abs(value.release(changed, results, ZeroNoise()) - before)
        assert moved.sum() <= 1.0
    assert value.guarantee().epsilon == 1.0
    assert value.guarantee().established


def test_support_is_said():
    weights = np.append(np.ones(500), 21_739.0)
    assert not support(weights).enough
    assert support(np.zeros(10)).reasons[0] == "the rule never chooses what was logged"
    wrong = support(np.full(1000, 3.0) + np.linspace(0, 0.1, 1000))
    assert "propensities are wrong" in wrong.reasons[0]


def spec(tmp_path, **more):
    rows = "drug,recovered,p\n" + "".join(f"{'ab'[k % 2]},{(k // 2) % 2},0.5\n" for k in range(200))
    (tmp_path / "log.csv").write_text(rows)
    log = {"file": str(tmp_path / "log.csv"), "arm": "drug", "outcome": "recovered", "propensity": "p"}
    return {"task": "evaluate", "log": log, "target": {"name": "arm", "arm": "b"}, **more}


def test_task_without_and_with_privacy(tmp_path):
    plain = fairveil.run(spec(tmp_path))
    assert plain["metrics"]["evaluation"] is True
    assert plain["guarantee"] is None
    assert plain["metrics"]["estimates"]["replay"]["rows"] == 100
    private = spec(tmp_path, epsilon=1.0, clip=2.0)
    private["log"]["arms"] = ["a", "b"]
    found = fairveil.run(private)
    assert set(found["metrics"]) == {"estimates", "sums"}
    assert set(found["metrics"]["estimates"]["clipped-importance"]) == {"value", "low", "high"}
    assert found["guarantee"]["epsilon"] == 1.0
    assert found["meta"]["simulated"] is True
    assert fairveil.run({**private, "noise": "secure"})["meta"]["simulated"] is False


def test_how_large_weights_can_be_follows_from_a_public_propensity(tmp_path):
    def found(**more):
        asked = spec(tmp_path, epsilon=1.0, clip=1.5, **more)
        asked["log"] |= {"arms": ["a", "b"], **({} if "column" in asked else {"propensity": 0.5})}
        return fairveil.run({key: value for key, value in asked.items() if key != "column"})

    one_arm = found()
    assert one_arm["spec"]["largest_weight"] == 2.0
    assert any("weights reach 2" in note for note in one_arm["guarantee"]["notes"])
    uniform = found(target={"name": "uniform"})
    assert uniform["spec"]["largest_weight"] == 1.0
    assert not any("may be wrong" in note for note in uniform["guarantee"]["notes"])
    assert found(target={"name": "mixture", "shares": [0.3, 0.7]})["spec"]["largest_weight"] == 1.4
    unknown = found(column=True)
    assert "largest_weight" not in unknown["spec"]
    assert any("not declared" in note for note in unknown["guarantee"]["notes"])
    found_unknown = unknown["metrics"]["estimates"]["clipped-importance"]
    assert found_unknown["high"] - found_unknown["low"] >= 0.9
    declared = found(column=True, largest_weight=1.5)
    assert not any("may be wrong" in note for note in declared["guarantee"]["notes"])
    with pytest.raises(SpecError, match="larger than declared"):
        found(largest_weight=1.6)


def test_refusals_that_depend_on_values_are_in_a_note(tmp_path):
    asked = spec(tmp_path, epsilon=1.0, clip=2.0)
    asked["log"]["arms"] = ["a", "b"]
    assert REFUSED not in fairveil.run(asked)["guarantee"]["notes"]
    asked["log"]["strict"] = True
    assert REFUSED in fairveil.run(asked)["guarantee"]["notes"]


@pytest.mark.parametrize(
    "change, path",
    [
        ({"largest_weight": 2.0}, "largest_weight"),
        ({"epsilon": 1.0, "clip": 2.0}, "log.arms"),
        ({"epsilon": 1.0}, "clip"),
        ({"epsilon": 1.0, "clip": 2.0, "estimators": ["replay"]}, "estimators"),
        ({"delta": 1e-5}, "delta"),
        ({"runs": 2}, "runs"),
        ({"target": {"name": "arm", "arm": "c"}}, "target.arm"),
        ({"target": {"name": "mixture", "shares": [0.4, 0.4]}}, "target.shares"),
        ({"target": {"name": "nobody"}}, "target.name"),
    ],
)
def test_mistakes_are_named(tmp_path, change, path):
    with pytest.raises(SpecError) as caught:
        fairveil.run(spec(tmp_path, **change))
    assert caught.value.path == path


@pytest.mark.parametrize(
    "content, words",
    [
        ("arm,outcome\na,1\nb,secret-7\n", "line 3"),
        ("arm,outcome\na,1\n,0\n", "line 3"),
        ("arm,outcome\na,nan\n", "line 2"),
        ("arm,outcome\na,1,9\n", "line 2.*given 3"),
        ("", "no rows"),
        ("arm,outcome\n", "no rows"),
        ("arm,arm\na,1\n", "two columns|no such column"),
    ],
)
def test_bad_files_name_the_line_and_never_the_cell(tmp_path, content, words):
    (tmp_path / "log.csv").write_text(content)
    with pytest.raises((InputError, DataError, SpecError), match=words) as caught:
        LogTable(file=tmp_path / "log.csv").read()
    assert "secret" not in str(caught.value)


def test_missing_file_and_column_are_named(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        LogTable(file=tmp_path / "nowhere.csv").read()
    (tmp_path / "log.csv").write_text("drug,outcome\na,1\n")
    with pytest.raises(SpecError, match="no such column"):
        LogTable(file=tmp_path / "log.csv").read()
    with pytest.raises(SpecError, match="exactly one"):
        LogTable()


def test_tables_in_memory_and_times(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"arm": [2, 1, 1], "outcome": [5.0, 0.0, 10.0], "when": [3, 1, 2], "x": [0.1, 0.2, 0.3]})
    log = LogTable(file=frame, time="when", features=["x"], high=10.0, propensity=0.5).read()
    assert log.arms == ("1", "2")
    assert log.outcomes.tolist() == [0.0, 1.0, 0.5]
    assert log.contexts.ravel().tolist() == [0.2, 0.3, 0.1]
    frame.to_parquet(tmp_path / "log.parquet")
    assert LogTable(file=str(tmp_path / "log.parquet"), high=10.0).read().chosen.tolist() == [1, 0, 0]
    assert "0.1" not in repr(log)


@pytest.mark.skipif(not available("open-bandit"), reason="the Open Bandit sample is not on this machine")
@pytest.mark.parametrize("campaign, enough", [("all", True), ("men", True), ("women", False)])
def test_uniform_play_from_thompson_logs(campaign, enough):
    """The Thompson log's estimate and the uniform log's own mean overlap where there is support."""
    log = {"arm": "item_id", "outcome": "click", "propensity": "propensity_score"}
    results = {}
    for policy in ("bts", "random"):
        data = {"name": "open-bandit", "policy": policy, "campaign": campaign}
        found = fairveil.run({"task": "evaluate", "log": {**log, "dataset": data}, "target": {"name": "uniform"}})
        results[policy] = found["metrics"]
    assert results["bts"]["support"]["enough"] is enough
    if enough:
        own = results["random"]["logged"]
        for name in ("clipped-importance", "self-normalised", "doubly-robust"):
            estimate = results["bts"]["estimates"][name]
            assert estimate["low"] <= own["high"]
            assert own["low"] <= estimate["high"]
    else:
        assert results["bts"]["support"]["largest_weight"] == pytest.approx(21_739, rel=1e-4)


def test_an_outcome_outside_its_range_counts_as_the_end_of_it():
    value, weights = PrivateValue(1.0, clip=2.0), np.array([0.5, 1.0, 2.0])
    for outside, end in ((7.0, 1.0), (-3.0, 0.0)):
        assert (value.units(weights, np.full(3, outside)) == value.units(weights, np.full(3, end))).all()


def test_what_a_row_counts_for_is_its_own():
    value = PrivateValue(1.0, clip=2.0)
    alone = value.units(np.array([0.5]), np.array([1.0]))
    for other in (0.1, 2.0, 40.0):
        beside = value.units(np.array([0.5, other]), np.array([1.0, 0.0])) - value.units(np.array([other]), np.zeros(1))
        assert (beside == alone).all()
