"""Task ``classify``: train a learner on a part of a data set, measure accuracy and group fairness on the rest."""

from __future__ import annotations

import dataclasses
import json
import math
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fairveil import data
from fairveil.arrays import Floats, Ints
from fairveil.classify.learner import Learner, Public, chances, fit
from fairveil.classify.measures import GAPS, WEIGHTED, measures
from fairveil.configuration import describe
from fairveil.errors import InputError, PrivacyError, SpecError, at, spec_error
from fairveil.fairness.groups import Groups, cells
from fairveil.fairness.subgroups import Subgroups
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import make_noise
from fairveil.randomness import Generator, generator
from fairveil.registry import build, kind_of, names, register
from fairveil.task import Outcome, Part, Task, TaskSpec, run_blocks

EVALUATED = "metrics are counted on held-out people without noise: a lab number that the guarantee does not cover"
ONE_FIT = "the guarantee is that of one fit"


class DataTable(BaseModel):
    """Keys of ``data``; all others are options of the data set itself."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)

    name: str
    sensitive: Annotated[list[str], Field(min_length=1, max_length=4)]
    features: Literal["all", "without-sensitive"] | list[str] | None = None
    bins: Annotated[int, Field(ge=0, le=1000)] = 8


class ClassifySpec(TaskSpec):
    """Keys of a classify spec.

    ``data``: {name, sensitive, features, bins, rows, options of the data set}. ``subgroups``: the class that
    ``subgroup_violation`` looks for the worst subgroup in.
    """

    learner: dict[str, Any] = Field(description="the learner: its name and parameters")
    data: dict[str, Any] = Field(description="the data: name, sensitive columns, features, bins, rows")
    test_fraction: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        0.25, description="share of the rows kept for testing"
    )
    subgroups: Literal["groups", "intersections", "thresholds"] = Field(
        "intersections", description="the class in which the worst subgroup is looked for"
    )


@register("task", "classify")
class ClassifyTask(Task):
    """Accuracy and group fairness of a learner, private or not, on held-out people.

    Metrics (means over runs, ``_std`` beside them; rates use decision probabilities): ``accuracy``, ``error``,
    ``discrimination`` (gaps), ``weighted`` (gaps weighted by group size), ``pooled`` (gaps of mean rates),
    ``subgroup_violation``, ``by_group`` with 95 % intervals, ``unestimable``, ``estimated`` (what a private learner
    says about itself), ``randomised``.
    """

    Spec = ClassifySpec

    def fill(self, model: Any) -> dict[str, Any]:
        spec = model.model_dump(mode="json")
        learner: Learner = build("learner", spec["learner"], "learner")
        spec["learner"] = describe(learner)
        spec["data"] = _complete_data(spec["data"], learner)
        promise = learner.guarantee()
        if spec["noise"] == "secure" and promise is not None and not promise.established:
            raise PrivacyError(
                "this learner's claim is not established: it runs with seeded noise only", path="noise", given="secure",
                allowed="seeded", fix="use the sound variant, or private-fair",
            )  # fmt: skip
        if spec["noise"] == "secure" and spec["runs"] > 1 and spec["data"]["name"] not in names("generator"):
            raise SpecError(
                "secure noise with several runs would fit the same recorded people again and again", path="runs",
                given=spec["runs"], allowed="1", fix='noise="seeded" for a study, runs=1 for a release',
            )  # fmt: skip
        return spec

    def blocks(self, spec: dict[str, Any]) -> list[dict[str, Any]]:
        return run_blocks(spec["runs"], 1)

    def work(self, spec: dict[str, Any], block: dict[str, Any]) -> Part:
        runs = [one_run(spec, run) for run in range(block["first"], block["last"])]
        return {name: np.stack([run[name] for run in runs]) for name in runs[0]}

    def finish(self, spec: dict[str, Any], parts: list[Part]) -> Outcome:
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        groups = tuple(str(name) for name in joined["names"][0])
        categories = json.loads(str(joined["categories"][0]))
        attributes = {name: tuple(values) for name, values in categories.items()}
        known = Subgroups.of(spec["subgroups"], attributes)
        metrics = measures(joined["counted"], groups, known, joined["random"], joined["estimated"])
        learner: Learner = build("learner", spec["learner"], "learner")
        learner = learner.with_public(Public(groups, float(joined["norm_bound"][0]), attributes))
        promise = _promise(learner)
        noise = make_noise(spec["noise"], spec["seed"])
        return Outcome(metrics, {}, promise, simulated=noise.simulated, evaluation=promise is not None)


def one_run(spec: dict[str, Any], run: int) -> dict[str, NDArray[Any]]:
    """Draw or load, split, fit, decide; counts of held-out people by group, label and decision."""
    rng = generator(spec["seed"], "classify", run)
    table = dict(spec["data"])
    generated = table["name"] in names("generator")
    people = _generated(table, rng) if generated else _recorded(json.dumps(table, sort_keys=True))
    if not generated and isinstance(table.get("rows"), int):
        people = people.take(rng.choice(len(people), _checked_rows(table["rows"], len(people)), replace=False))
    categories, groups = sensitive_groups(people, table["sensitive"])
    encoded = people.encode(_features(people, table), bins=table["bins"])
    labels = np.asarray(people[people.target]).astype(np.int64)
    order = rng.permutation(len(labels))
    held_out = max(1, min(len(labels) - 1, round(spec["test_fraction"] * len(labels))))
    test, train = order[:held_out], order[held_out:]
    learner: Learner = build("learner", spec["learner"], "learner")
    attributes = {name: tuple(values) for name, values in categories.items()}
    learner = learner.with_public(Public(groups.names, encoded.norm_bound, attributes))
    estimator = learner.estimator(make_noise(spec["noise"], spec["seed"], "classify", run), rng)
    group_of: Any = np.array(groups.names)[groups.index]
    if getattr(estimator, "by_columns", False):
        group_of = ByColumns({name: np.asarray(people[name]).astype(str) for name in table["sensitive"]})
    if not getattr(estimator, "private", False):
        _refuse_one_sided(labels[train], groups.index[train])
    model = fit(estimator, encoded.matrix[train], labels[train], group_of[train])
    chance = chances(model, encoded.matrix[test], group_of[test])
    return {
        "counted": cells(groups.index[test], labels[test], chance, len(groups.names)),
        "random": np.array(float(np.mean((chance > 0) & (chance < 1)))),
        "estimated": _estimated(getattr(model, "report_", None)),
        "names": np.array(groups.names),
        "categories": np.array(json.dumps(categories)),
        "norm_bound": np.array(encoded.norm_bound),
    }


class ByColumns(dict[str, NDArray[Any]]):
    """Sensitive columns by name, taken row by row like an array."""

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else ByColumns({n: v[key] for n, v in self.items()})


def sensitive_groups(people: data.Dataset, sensitive: list[str]) -> tuple[dict[str, list[str]], Groups]:
    """Public categories of the sensitive columns, and everybody's cell among their intersections."""
    categories: dict[str, list[str]] = {}
    for name in sensitive:
        try:
            column = people.column(name)
        except SpecError as problem:
            raise at(problem, "data.sensitive") from None
        if column.kind != "category" or name == people.target:
            raise SpecError(
                "a sensitive column is one of the data set's categories", path="data.sensitive", given=name,
                allowed=", ".join(c.name for c in people.schema if c.kind == "category" and c.name != people.target),
            )  # fmt: skip
        categories[name] = [str(value) for value in column.categories]
    known = Subgroups.of("groups", {name: tuple(values) for name, values in categories.items()}).names
    values = {name: people[name] for name in sensitive}
    return categories, Groups.of(values if len(values) > 1 else people[sensitive[0]], known)


def _complete_data(table: dict[str, Any], learner: Learner) -> dict[str, Any]:
    rows = table.get("rows")
    wrong = isinstance(rows, bool) or not isinstance(rows, int) or rows < 2
    if rows is not None and table.get("name") != "compas" and wrong:
        raise SpecError("rows are a public number", path="data.rows", given=rows, allowed="a whole number from 2 on")
    try:
        filled = DataTable.model_validate({key: value for key, value in table.items() if key != "rows"})
    except ValidationError as problem:
        raise spec_error(problem, "data", frozenset({*DataTable.model_fields, "rows"})) from None
    done = {**filled.model_dump(mode="json"), "rows": rows}
    if len(set(done["sensitive"])) != len(done["sensitive"]):
        raise SpecError("a sensitive column is named twice", path="data.sensitive", given=done["sensitive"])
    blind = not learner.reads_group and learner.blind
    if done["features"] is None:
        done["features"] = "without-sensitive" if blind else "all"
    inside = done["features"] == "all" or set(done["features"]) & set(done["sensitive"])
    if blind and inside and done["features"] != "without-sensitive":
        raise SpecError(
            "a blind rule would read the sensitive column as a feature", path="data.features", given=done["features"],
            allowed="without-sensitive, or a list without the sensitive columns", fix='or use awareness="aware"',
        )  # fmt: skip
    kind = kind_of(done["name"], "data.name", "dataset", "generator")
    build(kind, {"name": done["name"], **_options(done)}, "data")
    return done


def _options(table: dict[str, Any]) -> dict[str, Any]:
    """What the data set itself takes: generators and compas have rows of their own."""
    given = {key: value for key, value in table.items() if key not in (*DataTable.model_fields, "rows")}
    own = table["name"] == "compas" or table["name"] in names("generator")
    return {**given, "rows": table["rows"]} if own and table.get("rows") is not None else given


def _generated(table: dict[str, Any], rng: Generator) -> data.Dataset:
    made: data.Dataset = build("generator", {"name": table["name"], **_options(table)}, "data").generate(rng)
    return _labelled(made)


@lru_cache(maxsize=2)
def _recorded(table: str) -> data.Dataset:
    given = json.loads(table)
    made: data.Dataset = build("dataset", {"name": given["name"], **_options(given)}, "data").load()
    return _labelled(made)


def _labelled(people: data.Dataset) -> data.Dataset:
    if not people.target or tuple(people.column(people.target).categories) != (0, 1):
        raise SpecError(
            "this data set has no label 0 or 1", path="data.name", given=people.name,
            allowed="adult, compas, synthetic-adult, synthetic-compas",
        )  # fmt: skip
    return people


def _checked_rows(wanted: int, there: int) -> int:
    if wanted > there:
        raise SpecError("there are fewer rows", path="data.rows", given=wanted, allowed=f"at most {there}")
    return wanted


def _features(people: data.Dataset, table: dict[str, Any]) -> list[str]:
    if table["features"] == "all":
        return list(people.features)
    if table["features"] == "without-sensitive":
        return [name for name in people.features if name not in table["sensitive"]]
    unknown = [name for name in table["features"] if name not in people.features]
    if unknown or not table["features"]:
        raise SpecError(
            "a feature is not known" if unknown else "there are no features", path="data.features",
            given=unknown or None, allowed=", ".join(people.features),
        )  # fmt: skip
    return list(table["features"])


def _refuse_one_sided(labels: Ints, index: Ints) -> None:
    for path, values, words in (("data", labels, "class"), ("data.sensitive", index, "group")):
        if len(np.unique(values)) < 2:
            raise InputError(
                f"the training people are of one {words} only", path=path, allowed="two or more",
                fix="more rows, another seed, or a private learner, which does not say so",
            )  # fmt: skip


def _estimated(report: dict[str, Any] | None) -> Floats:
    """Error, gaps and weighted gaps of a report in a row; NaN for what is not said."""
    if report is None:
        return np.full(2 + len(GAPS) + len(WEIGHTED), np.nan)
    values = [report["error"], *(report["discrimination"][n] for n in GAPS), *(report["weighted"][n] for n in WEIGHTED)]
    values.append(report.get("subgroup_violation"))
    return np.array([math.nan if value is None else value for value in values], np.float64)


def _promise(learner: Learner) -> Guarantee | None:
    promise = learner.guarantee()
    if promise is None:
        return None
    return dataclasses.replace(promise, notes=(*promise.notes, EVALUATED, ONE_FIT))
