"""Tables and charts of results, comparisons, rates by group, reports and estimates: one call for each.

Every table and chart says in its title and attributes whether its numbers are private, raw or simulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fairveil.bandits.estimates import Estimates
from fairveil.errors import InputError
from fairveil.fairness.metrics import GroupRates, GroupReport
from fairveil.frames import Kind, check_may_be_seen, frame_of
from fairveil.lab import compare
from fairveil.lab.artefact import Chart, Line
from fairveil.lab.handover.results import is_real
from fairveil.lab.plain import leaves
from fairveil.lab.plots import one_page
from fairveil.lab.result_charts import estimate_charts, rates_chart, result_charts

Result = Mapping[str, Any]


def kind_of(result: Result) -> Kind:
    """Whether the numbers of a result are simulated, released under its guarantee, or those of people as they are:
    without a guarantee, with noise that anybody can draw again, or counted beside it."""
    if not is_real(dict(result)):
        return "simulated"
    bare = result["guarantee"] is None or result["meta"]["simulated"] or result["meta"].get("evaluation")
    return "raw" if bare else "private"


def frame(found: Any, metric: str | None = None) -> Any:
    """A pandas table: of a result its series (or its numbers where it has none), of several results by name their
    comparison, of anything else its own ``to_frame()``.
    """
    if isinstance(found, GroupReport) or not isinstance(found, Mapping):
        return _own(found, "to_frame")()
    if "metrics" in found:
        return _result_frame(found)
    chosen = metric or compare.default_metric(found)
    rows = [
        {
            "run": one.name,
            chosen: one.value,
            "difference": one.difference,
            "low": one.low,
            "high": one.high,
            "p": one.p_value,
        }
        for one in compare.differences(found, chosen)
    ]
    return frame_of(rows, f"{chosen} by run", _kind_of_all(found))


def _result_frame(result: Result) -> Any:
    rows = [
        {
            "metric": name,
            "at": at,
            "value": value,
            **{end: points[end][place] for end in ("low", "high") if points.get(end)},
        }
        for name, points in result["series"].items()
        for place, (at, value) in enumerate(zip(points["x"], points["y"]))
    ]
    kind = kind_of(result)
    if not rows:
        shown = {name: value for name, value in result["metrics"].items() if (name, kind) != ("lab", "private")}
        single = ((name, value) for name, value in leaves(shown) if isinstance(value, bool | int | float | str))
        rows = [{"metric": name, "value": value} for name, value in single]
    return frame_of(rows, str(result["spec"]["task"]), kind, seed=result["spec"].get("seed"))


def _kind_of_all(results: Mapping[str, Result]) -> Kind:
    kinds = {kind_of(one) for one in results.values()}
    if "raw" in kinds:
        return "raw"
    return "simulated" if "simulated" in kinds else "private"


def plot(found: Any, metric: str | None = None) -> Any:
    """An Altair chart: rates by group with intervals, estimates, the curves of a result, or a comparison of several."""
    if isinstance(found, GroupReport | GroupRates):
        kind: Kind = found.kind if isinstance(found, GroupReport) else "raw"
        page = one_page(marked([_rates(found)], kind))
        promise = found.promise if isinstance(found, GroupReport) else ""
        return page.properties(title=promise) if promise else page
    if isinstance(found, Estimates):
        return one_page(marked(estimate_charts({"metrics": {"estimates": found.to_dict()}}), "private"))
    if not isinstance(found, Mapping):
        return _own(found, "plot")()
    if "metrics" in found:
        return one_page(marked(result_charts(dict(found)), kind_of(found)))
    return one_page(marked(compare.charts(found, metric or compare.default_metric(found)), _kind_of_all(found)))


def marked(charts: list[Chart], kind: Kind) -> list[Chart]:
    """The same charts with what they are in their titles; raises where that may not be shown."""
    if not charts:
        raise InputError("there is nothing to draw", allowed="a series, estimates, or rates by group")
    return [replace(chart, title=check_may_be_seen(chart.title, kind)) for chart in charts]


def _rates(found: GroupReport | GroupRates) -> Chart:
    """Points with intervals: a group on the axis, a colour a rate."""
    table = found.to_frame()
    if "group" not in table:
        names, gaps = tuple(table["notion"]), tuple(table["gap"])
        return Chart("gaps by notion", "", "gap", (Line("gap", names, gaps),), kind="bars")
    rows = table.astype(object).where(table.notna(), None).set_index("group").to_dict("index")
    return rates_chart("rates by group, 95 % intervals", rows)


def _own(found: Any, method: str) -> Any:
    own = getattr(found, method, None)
    if own is None:
        raise InputError(
            "this is neither a result nor something with a table of its own",
            given=type(found).__name__,
            allowed="what fairveil.run returns, several of them by name, rates by group, report_, estimates",
        )
    return own
