"""A recorded matrix of rewards, one row a user and one column an arm."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairveil.bandits.environments.arms import ArmEnvironment
from fairveil.bandits.environments.laws import RECORDED, RESAMPLED, Laws, make_laws
from fairveil.configuration import configuration
from fairveil.errors import DataError, HorizonError, InputError, SpecError
from fairveil.fields import Count, Matrix, described
from fairveil.registry import register


@register("environment", "table")
@configuration
class RecordedArms(ArmEnvironment):
    """Replay recorded rewards (a matrix in the spec, or a .npy or .csv file); an arm's mean is its column's mean.

    ``order="recorded"`` shows row t in round t and refuses to run past the last row; ``"resampled"`` draws a row at
    random every round. Rewards outside [0, 1] are clipped, unless the policy is strict: then they are refused.

    >>> RecordedArms(rewards=((0.0, 1.0), (1.0, 1.0))).true_means.tolist()
    [0.5, 1.0]
    """

    recorded = True

    rewards: Matrix | None = described(
        "one row a person, one column an arm", default=None, example=((0.0, 1.0), (1.0, 1.0))
    )
    file: str | None = described("a file of such rows instead", default=None)
    order: Literal["recorded", "resampled"] = described(
        "people as they were recorded, or drawn with replacement", default="recorded"
    )
    arms: Count | None = described("number of arms, to be checked", default=None)

    def __post_init__(self) -> None:
        if (self.rewards is None) == (self.file is None):
            raise SpecError("give the rewards or a file", path="rewards", allowed="exactly one of rewards and file")
        columns = self._raw.shape[1]
        if self.arms not in (None, columns):
            raise SpecError("the table has another width", path="arms", given=self.arms, allowed=str(columns))
        object.__setattr__(self, "arms", columns)

    @cached_property
    def _raw(self) -> NDArray[np.float64]:
        raw = _read(self.file) if self.file is not None else _matrix(self.rewards or ())
        if raw.ndim != 2 or raw.shape[0] < 1 or raw.shape[1] < 1:
            raise SpecError("the table is empty", path="rewards", allowed="at least one row and one column")
        if not np.isfinite(raw).all():
            raise InputError("a recorded reward is not a finite number", path="rewards", allowed="finite numbers")
        return raw

    @cached_property
    def true_means(self) -> NDArray[np.float64]:
        return np.clip(self._raw, 0.0, 1.0).mean(axis=0)

    @cached_property
    def laws(self) -> Laws:
        rows = np.clip(self._raw, 0.0, 1.0)
        kind = RECORDED if self.order == "recorded" else RESAMPLED
        blank = [0.0] * rows.shape[1]
        return make_laws([kind] * rows.shape[1], blank, blank, blank, rows)

    def fits(self, rounds: int, strict: bool) -> None:
        if self.order == "recorded" and rounds > len(self._raw):
            raise HorizonError(
                "the recorded table ends before the last round",
                path="rounds",
                given=rounds,
                allowed=f"at most {len(self._raw)}",
                fix='ask for fewer rounds, or order = "resampled"',
            )
        if strict and ((self._raw < 0) | (self._raw > 1)).any():
            raise InputError("a recorded reward is out of range", path="rewards", allowed="in [0, 1]", fix="rescale it")


def _matrix(rows: tuple[tuple[float, ...], ...]) -> NDArray[np.float64]:
    if len({len(row) for row in rows}) > 1:
        raise SpecError("the rows of the table have different lengths", path="rewards", allowed="a rectangular matrix")
    return np.array(rows, np.float64).reshape(len(rows), -1) if rows else np.zeros((0, 0))


def _read(name: str) -> NDArray[np.float64]:
    path = Path(name)
    try:
        if path.suffix == ".npy":
            return np.asarray(np.load(path, allow_pickle=False), np.float64)
        return np.loadtxt(path, delimiter=",", ndmin=2)
    except (OSError, ValueError) as problem:
        raise DataError(
            "the reward table cannot be read", path="file", given=name, allowed="a .npy or .csv matrix of numbers"
        ) from problem
