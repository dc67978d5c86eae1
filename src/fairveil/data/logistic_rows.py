"""Generated rows of a logistic model: dense, in the unit ball, with a known best direction."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.configuration import configuration
from fairveil.data.schema import Column, Dataset, Synthesis
from fairveil.fields import Count, Natural, Positive, described
from fairveil.randomness import Generator
from fairveil.registry import register


@register("generator", "logistic")
@configuration
class LogisticRows(Synthesis):
    """Rows x ~ N(0, I), scaled down where they are longer than 1; y = 1 with chance sigma(w.x), |w| = ``signal``.

    ``test`` rows more are drawn for testing. Nobody is in them.

    >>> from fairveil.randomness import generator
    >>> len(LogisticRows(rows=30, features=2, test=10).generate(generator(0)))
    40
    """

    rows: Count = described("number of rows", default=20_000)
    features: Count = described("number of features", default=10)
    signal: Positive = described("length of the true weights: how far labels follow the features", default=6.0)
    test: Natural = described("rows kept for testing", default=5_000)

    def generate(self, rng: Generator) -> Dataset:
        total = self.rows + self.test
        matrix = rng.normal(size=(total, self.features))
        matrix /= np.maximum(1.0, np.linalg.norm(matrix, axis=1, keepdims=True))
        direction = rng.normal(size=self.features)
        direction *= self.signal / np.linalg.norm(direction)
        chance = 1 / (1 + np.exp(-(matrix @ direction)))
        rows: dict[str, NDArray[Any]] = {f"x{place}": matrix[:, place] for place in range(self.features)}
        rows["label"] = (rng.random(total) < chance).astype(np.int64)
        schema = tuple(Column(f"x{place}", "continuous", low=-1, high=1) for place in range(self.features))
        return Dataset("logistic", rows, (*schema, Column("label", "category", categories=(0, 1))), "label")
