"""Spec keys the three models share, and grids: one spec that stands for thousands of instances."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fairveil.dynamics.distributions import distribution
from fairveil.errors import SpecError, spec_error
from fairveil.fields import NonNegative, OpenUnit, Positive, described
from fairveil.task import Part, Task, TaskSpec

MAX_INSTANCES = 10**6


class SpecTable(BaseModel):
    """A nested table of a spec: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Utility(SpecTable):
    """What accepting a qualified person gains and accepting an unqualified one costs."""

    gain: Positive = Field(1.0, description="what accepting a qualified person gains")
    loss: Positive = Field(1.0, description="what accepting an unqualified person costs")


class FeatureTable(SpecTable):
    """One group: how many qualify, and the features of both labels."""

    qualified: OpenUnit = Field(description="share of the group that is qualified")
    features: dict[str, list[Any]] = Field(description="distribution of the features of label 0 and of label 1")


class GroupTable(FeatureTable):
    """A group with its share of the population."""

    share: NonNegative | None = described("share of the population; equal when left out", default=None)


class SteppedSpec(TaskSpec):
    """A spec of steps through people's lives."""

    steps_per_year: Positive | None = Field(None, description="how many steps are a year: pictures count years then")


def dumped(model: SteppedSpec) -> dict[str, Any]:
    """A checked spec as plain data; specs of earlier versions, without years, keep their digest."""
    spec = model.model_dump(mode="json")
    if spec["steps_per_year"] is None:
        del spec["steps_per_year"]
    return spec


class ModelSpec(SteppedSpec):
    """Keys of all three models. ``grid`` maps a path (or several, with commas) to the values it takes.

    An axis may also have a free name and list tables of paths and values, to vary several things together.
    """

    groups: dict[str, Any] = Field(description="the groups, by name")
    check: bool = Field(True, description="refuse a model that breaks an assumption of its theory")
    grid: dict[str, list[Any]] = Field(
        default_factory=dict, description="paths of the spec and the values each takes: one spec, many instances"
    )


class ModelTask(Task):
    """Base of the three model tasks: completes groups, expands grids, cuts a grid into blocks."""

    Group: type[FeatureTable] = GroupTable
    block = 500

    def fill(self, model: Any) -> dict[str, Any]:
        spec = dumped(model)
        spec["groups"] = self._groups(spec["groups"])
        if spec["grid"]:
            count = math.prod(shape_of(spec))
            if count > MAX_INSTANCES:
                allowed = f"at most {MAX_INSTANCES} instances"
                raise SpecError("the grid is too large", path="grid", given=count, allowed=allowed)
            for instance in expand(spec):
                self._check_instance(instance)
        return spec

    def blocks(self, spec: dict[str, Any]) -> list[dict[str, Any]]:
        count = math.prod(shape_of(spec))
        return [{"first": k, "last": min(k + self.block, count)} for k in range(0, count, self.block)]

    def _check_instance(self, instance: dict[str, Any]) -> None:
        try:
            self.Spec.model_validate(instance)
        except ValidationError as problem:
            raise spec_error(problem, "", frozenset(self.Spec.model_fields), explained=self.name) from None
        self._groups(instance["groups"])

    def _groups(self, groups: Mapping[str, Any]) -> dict[str, Any]:
        full = {}
        for name, path, group in checked_groups(groups, self.Group, self.name, "distribution"):
            for label, features in group.features.items():
                distribution(features, f"{path}.features.{label}")
            self.check_group(group, path)
            full[name] = group.model_dump(mode="json")
        given = [table["share"] for table in full.values()] if "share" in self.Group.model_fields else []
        if given and any(item is None for item in given) != all(item is None for item in given):
            raise SpecError("either every group has a share or none", path="groups", fix="add the missing shares")
        if given and given[0] is None:
            for table in full.values():
                table["share"] = 1.0 / len(full)
        elif given and sum(given) <= 0:
            raise SpecError("shares must have a positive sum", path="groups", given=given)
        return full

    def check_group(self, group: Any, path: str) -> None:
        """Check what this model adds to a group."""


def checked_groups(
    groups: Mapping[str, Any], kind: type[SpecTable], task: str, each: str
) -> Iterator[tuple[str, str, Any]]:
    """Name, path and checked table of every group; ``each`` is what its features have for a label."""
    if not groups:
        raise SpecError("there is no group", path="groups", allowed="a table of at least one group")
    for name, table in groups.items():
        path = f"groups.{name}"
        try:
            group: Any = kind.model_validate(table)
        except ValidationError as problem:
            raise spec_error(problem, path, frozenset(kind.model_fields), explained=task) from None
        if sorted(group.features) != ["0", "1"]:
            raise SpecError(
                f"features need one {each} per label",
                path=f"{path}.features",
                given=sorted(group.features),
                allowed='a table with "0" (unqualified) and "1" (qualified)',
            )
        yield name, path, group


class GridResult:
    """What the blocks of a grid found, side by side, in the shape of the grid; ``apart`` are keys of another shape."""

    def __init__(self, spec: dict[str, Any], parts: list[Part], apart: tuple[str, ...]) -> None:
        self.names, self.shape = list(spec["groups"]), shape_of(spec)
        self.found = {key: np.concatenate([part[key] for part in parts]) for key in parts[0] if key not in apart}
        self.assumptions = {
            "checked": spec["check"],
            "violations": sorted({str(text) for part in parts for text in part["violations"]}),
        }

    def listed(self, key: str) -> Any:
        """One value an instance."""
        return nest(self.found[key].tolist(), self.shape)

    def by_group(self, key: str) -> dict[str, Any]:
        """One value an instance, for every group."""
        return {name: nest(self.found[key][:, s].tolist(), self.shape) for s, name in enumerate(self.names)}

    def gaps(self, key: str) -> Any:
        """First group minus second; a table over all pairs when there are more than two, zero for one group."""
        rate, names = self.found[key], self.names
        if len(names) == 1:
            return nest([0.0] * len(rate), self.shape)
        pairs = {
            f"{names[i]} - {names[j]}": nest((rate[:, i] - rate[:, j]).tolist(), self.shape)
            for i, j in itertools.combinations(range(len(names)), 2)
        }
        return pairs if len(pairs) > 1 else next(iter(pairs.values()))


def shape_of(spec: Mapping[str, Any]) -> tuple[int, ...]:
    """Lengths of the grid's axes; empty for a single instance."""
    return tuple(len(values) for values in spec.get("grid", {}).values())


def expand(spec: Mapping[str, Any], first: int = 0, last: int | None = None) -> list[dict[str, Any]]:
    """The instances first..last-1 of a spec's grid in row-major order (the last axis moves fastest).

    >>> spec = {"groups": {"a": {"qualified": 0.5}}, "grid": {"groups.a.qualified": [0.1, 0.9]}}
    >>> [instance["groups"]["a"]["qualified"] for instance in expand(spec)]
    [0.1, 0.9]
    """
    base = {key: value for key, value in spec.items() if key != "grid"}
    grid = spec.get("grid", {})
    if not grid:
        return [base]
    for axis, values in grid.items():
        if not values:
            raise SpecError("a grid axis has no values", path=f"grid.{axis}", allowed="a list of at least one value")
    out = []
    for choice in itertools.islice(itertools.product(*grid.values()), first, last):
        instance = dict(base)
        instance["groups"] = copy.deepcopy(base["groups"])
        if "utility" in base:
            instance["utility"] = dict(base["utility"])
        for axis, value in zip(grid, choice, strict=True):
            changes = value if isinstance(value, Mapping) else {path.strip(): value for path in axis.split(",")}
            for path, item in changes.items():
                _assign(instance, path, item, f"grid.{axis}")
        out.append(instance)
    return out


def _assign(instance: dict[str, Any], path: str, value: Any, where: str) -> None:
    target: Any = instance
    *parents, leaf = path.split(".")
    try:
        for part in parents:
            target = target[int(part)] if isinstance(target, list) else target[part]
        if isinstance(target, list):
            target[int(leaf)] = value
        elif leaf in target:
            target[leaf] = value
        else:
            raise KeyError(leaf)
    except (KeyError, IndexError, ValueError, TypeError):
        raise SpecError(
            "the grid names a place that the spec does not have",
            path=where,
            given=path,
            allowed="dotted paths such as groups.a.qualified or groups.a.cost.1",
        ) from None


def nest(values: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Lay a flat list out as nested lists of the grid's shape; a single value for no grid."""
    if not shape:
        return values[0]
    if len(shape) == 1:
        return list(values)
    step = len(values) // shape[0]
    return [nest(values[k * step : (k + 1) * step], shape[1:]) for k in range(shape[0])]
