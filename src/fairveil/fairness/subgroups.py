"""Classes of subgroups: the groups, all intersections of attributes, or all linear thresholds of the attributes.

A subgroup is a union of cells, a cell one combination of all attributes. So every class is a table of memberships of
cells, and whoever knows the counts by cell knows them for every subgroup.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fairveil.arrays import Bools, Floats
from fairveil.errors import InputError, SpecError
from fairveil.fairness.groups import Groups, cells
from fairveil.fairness.metrics import chances_of, labels_of

Kind = Literal["groups", "intersections", "thresholds"]
MAX_CELLS = 16
"""Linear thresholds are listed one by one: at most this many cells."""


@dataclass(frozen=True)
class Subgroups:
    """Named subgroups over cells: ``members[s, c]`` says whether cell c belongs to subgroup s.

    >>> Subgroups.of("intersections", {"sex": ("f", "m"), "race": ("x", "y")}).names[:4]
    ('sex=f', 'sex=m', 'race=x', 'race=y')
    """

    cells: tuple[str, ...]
    names: tuple[str, ...]
    members: Bools

    @classmethod
    def of(cls, kind: Kind, categories: Mapping[str, tuple[str, ...]]) -> Subgroups:
        """The class over attributes with these (public) categories."""
        places = list(itertools.product(*categories.values()))
        names = tuple(cell_name(dict(zip(categories, place, strict=True))) for place in places)
        if kind == "groups":
            return cls(names, names, np.eye(len(names), dtype=bool))
        if kind == "intersections":
            return cls(names, *_intersections(categories, places))
        if kind != "thresholds":
            raise SpecError(
                "the class of subgroups is not known", path="subgroups", given=kind,
                allowed="groups, intersections, thresholds",
            )  # fmt: skip
        if len(names) > MAX_CELLS:
            raise SpecError(
                "there are too many cells to list linear thresholds", path="subgroups", given=len(names),
                allowed=f"at most {MAX_CELLS} cells", fix="use intersections",
            )  # fmt: skip
        members = thresholds(tuple(len(values) for values in categories.values()))
        return cls(names, tuple(" or ".join(itertools.compress(names, row)) for row in members), members)

    def violations(self, counted: Floats) -> Floats:
        """`signed_violations` of these subgroups."""
        return signed_violations(self.members, counted)


def signed_violations(members: Bools, counted: Floats) -> Floats:
    """Signed A_g (FP - FP_g) of every subgroup, from counts of shape (cells, label, declined or accepted).

    A_g = P(g, y = 0) is the share of all people; n A_g (FP - FP_g) = N_g0 N_h0/N_0 - N_hg0, a sum over cells.
    """
    negatives, alarms, everybody = counted[:, 0].sum(axis=1), counted[:, 0, 1], counted.sum()
    overall = alarms.sum() / max(negatives.sum(), 1e-300)
    return members @ (negatives * overall - alarms) / max(everybody, 1e-300)


def cell_name(values: Mapping[str, str]) -> str:
    """One attribute: its value; several: ``sex=f, race=x``, as `Groups` names intersections."""
    if len(values) == 1:
        return str(next(iter(values.values())))
    return ", ".join(f"{name}={value}" for name, value in values.items())


def subgroup_violation(
    truth: ArrayLike, decision: ArrayLike, attributes: Mapping[str, ArrayLike], kind: Kind = "intersections"
) -> float:
    """Largest A_g |FP - FP_g| of false positives over a class of subgroups (decisions may be probabilities).

    >>> subgroup_violation([0, 0, 1, 0], [1, 0, 1, 0], {"s": ["f", "f", "m", "m"]})
    0.08333333333333334
    """
    y, d = labels_of(truth), chances_of(decision)
    text = {name: np.asarray(values).astype(str) for name, values in attributes.items()}
    if not text or {len(values) for values in text.values()} != {len(y)} or len(d) != len(y):
        raise InputError("labels, decisions and attributes have different lengths", allowed="one of each per person")
    found = {name: tuple(str(value) for value in np.unique(values)) for name, values in text.items()}
    known = Subgroups.of(kind, found)
    index = Groups.of(text if len(text) > 1 else next(iter(text.values())), known.cells).index
    return float(np.abs(known.violations(cells(index, y, d, len(known.cells)))).max())


def _intersections(
    categories: Mapping[str, tuple[str, ...]], places: list[tuple[str, ...]]
) -> tuple[tuple[str, ...], Bools]:
    names, rows, order = [], [], list(categories)
    for size in range(1, len(order) + 1):
        for chosen in itertools.combinations(order, size):
            for values in itertools.product(*(categories[name] for name in chosen)):
                wanted = dict(zip(chosen, values, strict=True))
                names.append(", ".join(f"{name}={value}" for name, value in wanted.items()))
                rows.append([all(place[order.index(name)] == v for name, v in wanted.items()) for place in places])
    return tuple(names), np.array(rows, bool)


@lru_cache(maxsize=16)
def thresholds(sizes: tuple[int, ...]) -> Bools:
    """Every set of cells of the form {f_1(a_1) + ... + f_k(a_k) > t}, but for none and all: one-hot linear thresholds.

    One attribute: every set. Two: the sets whose rows are nested (if one row has a cell that another lacks and the
    other way round, the four sums cannot be ordered). More: cells are added one at a time and a linear programme says
    whether the cell can lie on the other side of a known dichotomy.

    >>> len(thresholds((2, 2))), len(thresholds((2, 2, 2)))
    (12, 102)
    """
    sizes = tuple(size for size in sizes if size > 1)
    if len(sizes) <= 2:
        count = int(np.prod(sizes, dtype=int))
        bits = (np.arange(2**count)[:, None] >> np.arange(count)) & 1 == 1
        if len(sizes) == 2:
            table = bits.reshape(-1, *sizes)
            for i, j in itertools.combinations(range(sizes[0]), 2):
                only_i, only_j = (table[:, i] & ~table[:, j]).any(axis=1), (table[:, j] & ~table[:, i]).any(axis=1)
                keep = ~(only_i & only_j)
                table, bits = table[keep], bits[keep]
    else:
        bits = _separable(sizes)
    bits = bits[bits.any(axis=1) & ~bits.all(axis=1)]
    bits.setflags(write=False)
    return bits


def _separable(sizes: tuple[int, ...]) -> Bools:
    from scipy.optimize import linprog

    places = itertools.product(*(range(size) for size in sizes))
    points = np.array([np.concatenate([np.eye(n)[v] for n, v in zip(sizes, place, strict=True)]) for place in places])
    # half of all dichotomies: the first cell is in; the others are complements
    found: list[tuple[list[bool], Floats]] = [([True], points[0])]
    for m in range(1, len(points)):
        grown = []
        for signs, witness in found:
            side = bool(points[m] @ witness > 0)
            if points[m] @ witness != 0:
                grown.append(([*signs, side], witness))
            for other in (not side,) if points[m] @ witness != 0 else (True, False):
                trial = np.where([*signs, other], 1.0, -1.0)
                answer = linprog(
                    np.zeros(points.shape[1]), A_ub=-trial[:, None] * points[: m + 1], b_ub=-np.ones(m + 1),
                    bounds=(None, None),
                )  # fmt: skip
                if answer.status == 0:
                    grown.append(([*signs, other], answer.x))
        found = grown
    half = np.array([signs for signs, _ in found], bool)
    return np.concatenate([half, ~half])
