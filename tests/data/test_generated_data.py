from __future__ import annotations

import numpy as np
import pytest

from fairveil import data
from fairveil.data.schema import Column, Dataset
from fairveil.errors import InputError, SpecError
from fairveil.randomness import generator

GENERATORS = ["synthetic-census", "synthetic-adult", "synthetic-compas", "ar1", "truncated-normals"]


@pytest.mark.parametrize("name", GENERATORS)
def test_the_same_seed_gives_the_same_rows_within_public_bounds(name: str) -> None:
    first, again, other = (data.load(name, seed=seed) for seed in (5, 5, 6))
    for column in first.schema:
        assert (first[column.name] == again[column.name]).all()
        if column.kind == "continuous":
            assert first[column.name].min() >= column.low
            assert first[column.name].max() <= column.high
    assert any((first[column.name] != other[column.name]).any() for column in first.schema)
    encoded = first.encode()
    assert len(encoded.names) == len(encoded.kinds) == encoded.matrix.shape[1]
    assert np.linalg.norm(encoded.matrix, axis=1).max() <= encoded.norm_bound + 1e-12


def test_synthetic_census_has_the_documented_shape() -> None:
    people = data.synthetic_census(1000, generator(1))
    assert people.features.shape == (4000, 24)
    assert people.kinds.count("continuous") == 7
    hot = people.features[:, 7:]
    assert set(np.unique(hot)) == {0.0, 1.0}
    assert (hot.sum(axis=1) == 4).all()
    assert np.allclose(people.features @ people.theta, people.score)
    assert np.linalg.norm(people.features, axis=1).max() <= people.norm_bound
    assert np.bincount(people.groups).tolist() == [1000] * 4


def _greedy_share_of_random_regret(spread: float, tilt: float) -> float:
    """Rank lost by taking the highest true score, relative to the rank lost by taking anybody."""
    rng = generator(2)
    score = data.synthetic_census(5000, rng, spread=spread, tilt=tilt).score.reshape(4, -1)
    rank = score.argsort(axis=1).argsort(axis=1) / (score.shape[1] - 1)
    shown = rng.integers(0, score.shape[1], (4, 20_000))
    scores, ranks = np.take_along_axis(score, shown, 1), np.take_along_axis(rank, shown, 1)
    chosen = ranks[scores.argmax(axis=0), np.arange(20_000)]
    return float((ranks.max(axis=0) - chosen).mean() / (ranks.max(axis=0) - ranks.mean(axis=0)).mean())


def test_groups_differ_enough_that_the_best_score_is_not_the_best_rank() -> None:
    assert 0.18 < _greedy_share_of_random_regret(0.45, 0.8) < 0.30
    assert _greedy_share_of_random_regret(0.0, 0.0) < 0.02


def test_stand_ins_have_the_base_rates_of_what_they_stand_for() -> None:
    people = data.load("synthetic-adult", seed=0, rows=20_000)
    assert people["income"].mean() == pytest.approx(0.248, abs=0.015)
    men, women = (people["income"][people["sex"] == sex].mean() for sex in ("Male", "Female"))
    assert men - women > 0.1
    cases = data.load("synthetic-compas", seed=0, rows=20_000)
    assert cases["recidivism"].mean() == pytest.approx(0.47, abs=0.02)
    first, second = (cases["recidivism"][cases["race"] == race].mean() for race in ("African-American", "Caucasian"))
    assert first - second > 0.05


def test_ar1_is_stationary_with_the_given_moments() -> None:
    runs = np.array(
        [data.Ar1(rows=40, mean=3.0, std=2.0, correlation=0.9).generate(generator(1, i))["value"] for i in range(4000)]
    )
    assert np.allclose(runs.mean(axis=0), 3.0, atol=0.15)
    assert np.allclose(runs.std(axis=0), 2.0, atol=0.12)


def test_truncated_normals_refuse_impossible_parameters() -> None:
    with pytest.raises(SpecError, match="qualified"):
        data.TruncatedNormals(qualified=(0.0, 0.5))
    with pytest.raises(SpecError, match="stds"):
        data.TruncatedNormals(stds=(1.0, -1.0, 1.0, 1.0))


def test_encoding_refuses_what_the_public_schema_does_not_cover() -> None:
    number = Column("x", "continuous", low=0, high=2)
    kind = Column("k", "category", categories=("u", "v"))
    rows = {"x": np.array([5.0, -1.0]), "k": np.array(["u", "v"], object)}
    sample = Dataset("s", rows, (number, kind))
    assert sample.encode().matrix.tolist() == [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    assert sample.encode(["x"], signed=True).matrix.ravel().tolist() == [1.0, -1.0]
    with pytest.raises(InputError, match="missing values"):
        Dataset("s", rows | {"x": np.array([np.nan, 1.0])}, (number,)).encode()
    with pytest.raises(InputError, match="public categories") as caught:
        Dataset("s", rows | {"k": np.array(["u", "secret"], object)}, (kind,)).encode()
    assert "secret" not in str(caught.value)
    with pytest.raises(SpecError, match="no such column"):
        sample.encode(["z"])
    with pytest.raises(InputError, match="fit together"):
        Dataset("s", {"x": np.zeros(2), "k": np.zeros(3)}, ())
    assert sample.take([1])["k"].tolist() == ["v"]
    assert list(sample.frame().columns) == ["x", "k"]
