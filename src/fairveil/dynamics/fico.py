"""Credit scores of four groups: the fitted betas of table 6.1, or histograms from the public score tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairveil.errors import SpecError

#: Group -> (repayment rate, features of defaulters, features of repayers, share): table 6.1 of the thesis.
TABLE = {
    "caucasian": (0.758, ["beta", 1.23, 12.34], ["beta", 2.57, 1.24], 0.7651),
    "african-american": (0.338, ["beta", 1.18, 15.99], ["beta", 1.84, 2.32], 0.1050),
    "hispanic": (0.570, ["beta", 1.23, 9.02], ["beta", 2.03, 1.90], 0.0845),
    "asian": (0.804, ["beta", 0.89, 4.94], ["beta", 2.31, 1.38], 0.0454),
}
_IN_TABLES = {"caucasian": "white", "african-american": "black", "hispanic": "hispanic", "asian": "asian"}


def fico_groups(
    names: Sequence[str] = tuple(TABLE), source: str = "fitted", cells: int = 40, pooled: bool = True
) -> dict[str, Any]:
    """Groups tables for a spec: ``source`` is ``fitted`` (built in) or ``tables`` (needs the fico data set).

    From the tables, scores are rescaled to [0, 1], pooled into ``cells`` equal cells, and split by repayment. Repayment
    rates in single cells are noisy, so the likelihood ratio is made monotone by pooling neighbours that violate it,
    unless ``pooled`` is False.

    >>> fico_groups(["asian"])["asian"]["features"]["1"]
    ['beta', 2.31, 1.38]
    """
    unknown = [name for name in names if name not in TABLE]
    if unknown:
        raise SpecError("there is no such group", path="names", given=unknown[0], allowed=", ".join(TABLE))
    if source == "fitted":
        return {name: _group(*TABLE[name]) for name in names}
    if source != "tables":
        raise SpecError("there is no such source", path="source", given=source, allowed="fitted, tables")
    from fairveil.data import load

    data = load("fico")
    groups = {}
    for name in names:
        rows = data["group"] == _IN_TABLES[name]
        score, below, repay = (np.asarray(data[key], dtype=float)[rows] for key in ("score", "cdf", "repay"))
        groups[name] = _from_scores(score, below, repay, data.facts["shares"][_IN_TABLES[name]], cells, pooled)
    return groups


def _group(qualified: float, bad: list[Any], good: list[Any], share: float) -> dict[str, Any]:
    return {"share": share, "qualified": qualified, "features": {"0": list(bad), "1": list(good)}}


def _from_scores(
    score: np.ndarray, below: np.ndarray, repay: np.ndarray, share: float, cells: int, pooled: bool
) -> dict[str, Any]:
    mass = np.diff(below, prepend=0.0)
    edges = np.linspace(0.0, 1.0, cells + 1)
    cell = np.clip(np.searchsorted(edges, score / 100.0, side="left") - 1, 0, cells - 1)
    good = np.bincount(cell, mass * repay, cells)
    bad = np.bincount(cell, mass * (1.0 - repay), cells)
    if pooled:
        good, bad = _pool(good, bad)
    features = {"0": ["histogram", edges.tolist(), bad.tolist()], "1": ["histogram", edges.tolist(), good.tolist()]}
    return {"share": share, "qualified": float(good.sum() / (good.sum() + bad.sum())), "features": features}


def _pool(good: np.ndarray, bad: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pool adjacent cells until good/bad does not fall; total mass of every cell and both sums stay the same."""
    blocks: list[list[Any]] = []
    for k in range(good.size):
        blocks.append([float(good[k]), float(bad[k]), [k]])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] > blocks[-1][0] * blocks[-2][1]:
            last = blocks.pop()
            blocks[-1] = [blocks[-1][0] + last[0], blocks[-1][1] + last[1], blocks[-1][2] + last[2]]
    out_good, out_bad = np.zeros(good.size), np.zeros(bad.size)
    total = good + bad
    for repaid, failed, members in blocks:
        part = total[members] / max(total[members].sum(), 1e-300)
        out_good[members], out_bad[members] = repaid * part, failed * part
    return out_good, out_bad
