"""A recorded matrix of rewards, one row a user and one column an arm."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from fairveil.arrays import Floats
from fairveil.bandits.environments.arms import RECORDED, RESAMPLED, ArmEnvironment, Laws, make_laws
from fairveil.bandits.environments.base import check_length
from fairveil.configuration import configuration
from fairveil.data.frames import Frame
from fairveil.data.tables import TableField, read_frame
from fairveil.errors import DataError, InputError, SpecError
from fairveil.fields import Count, Matrix, described
from fairveil.registry import register


@register("environment", "table")
@configuration
class RecordedArms(ArmEnvironment):
    """Replay recorded rewards (a matrix in the spec, or a file); an arm's mean is its column's mean.

    ``file`` is CSV with a header line (names of the arms) or without, parquet, .npy, or a pandas or polars DataFrame.

    ``order="recorded"`` shows row t in round t and refuses to run past the last row; ``"resampled"`` draws a row at
    random every round. Rewards outside [0, 1] are clipped, unless the policy is strict: then they are refused.

    >>> RecordedArms(rewards=((0.0, 1.0), (1.0, 1.0))).true_means.tolist()
    [0.5, 1.0]
    """

    recorded = True

    rewards: Matrix | None = described(
        "one row a person, one column an arm", default=None, example=((0.0, 1.0), (1.0, 1.0))
    )
    file: TableField = described("a file or DataFrame of such rows instead", default=None)
    header: bool | None = described(
        "whether the first line of a CSV file names the arms; without it: unless all its cells are numbers",
        default=None,
    )
    order: Literal["recorded", "resampled"] = described(
        "people as they were recorded, or drawn with replacement", default="recorded"
    )
    arms: Count | None = described("number of arms, to be checked", default=None)

    def __post_init__(self) -> None:
        if (self.rewards is None) == (self.file is None):
            raise SpecError(
                "give the rewards or a file",
                path="rewards",
                allowed="exactly one of rewards and file",
                fix='file = "rewards.csv"',
            )
        columns = self._raw.shape[1]
        if self.arms not in (None, columns):
            raise SpecError(
                "the table has another width",
                path="arms",
                given=self.arms,
                allowed=str(columns),
                fix="leave arms out, or remove columns that are no rewards",
            )
        object.__setattr__(self, "arms", columns)

    @cached_property
    def _frame(self) -> Frame | None:
        """The file as named columns; None for a matrix without names."""
        if self.file is None or str(self.file).endswith(".npy"):
            return None
        return read_frame(self.file, header=self.header)

    @cached_property
    def _raw(self) -> Floats:
        frame = self._frame
        if frame is not None:
            return np.stack([frame.numbers(name) for name in frame.names], axis=1)
        raw = _matrix(self.rewards or ()) if self.file is None else _load(self.file)
        if raw.ndim != 2 or raw.shape[0] < 1 or raw.shape[1] < 1:
            raise SpecError("the table is empty", path="rewards", allowed="at least one row and one column")
        if not np.isfinite(raw).all():
            raise InputError("a recorded reward is not a finite number", path="rewards", allowed="finite numbers")
        return raw

    @property
    def arm_names(self) -> tuple[str, ...] | None:
        named = self._frame is not None and self._frame.names[0] != "1"
        return self._frame.names if named and self._frame is not None else None

    @cached_property
    def true_means(self) -> Floats:
        return np.clip(self._raw, 0.0, 1.0).mean(axis=0)

    @cached_property
    def laws(self) -> Laws:
        rows = np.clip(self._raw, 0.0, 1.0)
        kind = RECORDED if self.order == "recorded" else RESAMPLED
        blank = [0.0] * rows.shape[1]
        return make_laws([kind] * rows.shape[1], blank, blank, blank, rows)

    def fits(self, rounds: int, strict: bool) -> None:
        if self.order == "recorded":
            check_length("the recorded table", rounds, len(self._raw), "resampled")
        if strict and ((self._raw < 0) | (self._raw > 1)).any():
            if self._frame is not None:
                for name in self._frame.names:
                    self._frame.numbers(name, 0.0, 1.0)
            raise InputError("a recorded reward is out of range", path="rewards", allowed="in [0, 1]", fix="rescale it")


def _matrix(rows: tuple[tuple[float, ...], ...]) -> Floats:
    if len({len(row) for row in rows}) > 1:
        raise SpecError("the rows of the table have different lengths", path="rewards", allowed="a rectangular matrix")
    return np.array(rows, np.float64).reshape(len(rows), -1) if rows else np.zeros((0, 0))


def _load(name: str) -> Floats:
    try:
        return np.asarray(np.load(Path(name), allow_pickle=False), np.float64)
    except (OSError, ValueError):
        raise DataError(
            "the reward table cannot be read",
            path="file",
            given=name,
            allowed="a .npy matrix of numbers, CSV or parquet",
            fix="check the path; a relative one starts in the folder of the spec file",
        ) from None
