"""One figure or table of a paper: the specs that make it, the pictures it shows, and the claims it must answer.

A paper is one module in `fairveil.lab.papers` with one `Artefact` class per figure or table, registered as
``paper/key``. Pictures are plain data, so that paper modules need no plotting library.

    @register("artefact", "dp-ncb/b")
    class FigureB(Artefact):
        '''Nash regret of global policies against the horizon.'''
        title = "Figure b: Nash regret, global privacy, k = 50, eps = 0.2"
        source = "section 6, figure (b)"
        notes = ("mu* is the largest mean for every policy; the published AdaP-UCB curve was measured against 1.",)

        def specs(self, scale):                  # label -> spec for fairveil.run; only sizes depend on the scale
            rounds = {"quick": 10**5, "standard": 10**7, "paper": 10**8}[scale]
            return {"NCB": {"task": "bandit", ...}, "GDP-NCB": {...}}

        def pictures(self, results):             # label -> result of fairveil.run
            curves = tuple(line(name, result, "nash_regret") for name, result in results.items())
            return [Chart("Nash regret", "round", "regret", curves, log_x=True)]

        def claims(self, results):
            return [Claim.difference("GDP-NCB is below AdaP-UCB", "section 6.1", *last(adap, m), *last(gdp, m))]
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from statistics import NormalDist
from typing import Any, ClassVar, Literal, TypeVar

Scale = Literal["quick", "standard", "paper"]
SCALES: tuple[Scale, ...] = ("quick", "standard", "paper")
Spec = dict[str, Any]
Results = dict[str, dict[str, Any]]
RAISED = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
Said = TypeVar("Said")
Verdict = Literal["holds", "does not hold", "undecided", "illustration"]
DECIDING: tuple[Verdict, ...] = ("holds", "does not hold", "undecided")
"""Verdicts that are counted: an illustration is true by construction and says nothing about the paper."""
PLURAL: dict[str, str] = {
    "holds": "hold",
    "does not hold": "do not hold",
    "undecided": "undecided",
    "illustration": "illustrations",
}
"""Verdicts of several claims."""


@dataclass(frozen=True)
class Line:
    """One curve (or group of bars): points and, where there is one, a band; ``dashed`` for the second of a pair."""

    name: str
    x: tuple[Any, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    dashed: bool = False


@dataclass(frozen=True)
class Chart:
    """Curves, points, bars or paths (curves drawn in the order of their points) in one frame.

    ``level`` is a height that the eye should compare with; ``y_range`` makes several frames comparable.
    """

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    kind: Literal["lines", "points", "bars", "paths"] = "lines"
    log_x: bool = False
    log_y: bool = False
    level: float | None = None
    y_range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Heatmap:
    """A matrix of values over two parameters; ``values[i][j]`` belongs to ``y[i]`` and ``x[j]``.

    ``value_range`` makes the colours of several maps comparable (values beyond it have the colour of its end); around
    zero they part into two families.
    """

    title: str
    x_label: str
    y_label: str
    value_label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]
    value_range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Table:
    """A table; cells are text or numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def without_empty_columns(self) -> Table:
        """The same table for people to read."""
        kept = [place for place in range(len(self.columns)) if any(row[place] is not None for row in self.rows)]
        rows = tuple(tuple(row[place] for place in kept) for row in self.rows)
        return Table(self.title, tuple(self.columns[place] for place in kept), rows)


Picture = Chart | Heatmap | Table


@dataclass(frozen=True)
class Claim:
    """What the text says an artefact shows, and what we measured.

    The margin is signed so that positive supports the claim; ``low`` and ``high`` are its 95 % band (equal to the
    margin for results without randomness). The claim holds when the whole band is above zero, does not hold when it is
    below. What is true by construction (algebra, an inclusion of sets, a choice made for it) is an ``illustration``: it
    is shown and not counted. ``refuted_by`` says which results would refute the claim.
    """

    text: str
    where: str
    margin: float
    low: float
    high: float
    note: str = ""
    constructed: bool = False
    refuted_by: str = "the opposite order of the two, beyond their band"

    @property
    def verdict(self) -> Verdict:
        if self.low > 0:
            return "illustration" if self.constructed else "holds"
        if self.high < 0:
            return "does not hold"
        return "undecided"

    @classmethod
    def exact(cls, text: str, where: str, margin: float, note: str = "") -> Claim:
        """A claim about numbers without randomness: positive margin holds, zero or negative does not."""
        margin = float(margin)
        settled = margin if margin != 0 else -math.ulp(0.0)
        return cls(text, where, margin, settled, settled, note, refuted_by="numbers for which the margin is 0 or less")

    @classmethod
    def around(cls, text: str, where: str, margin: float, reach: float, note: str = "", **facts: Any) -> Claim:
        """A margin with a band that reaches as far to both sides."""
        return cls(text, where, margin, margin - reach, margin + reach, note, **facts)

    @classmethod
    def difference(
        cls, text: str, where: str, larger: float, larger_std: float, smaller: float, smaller_std: float, note: str = ""
    ) -> Claim:
        """'``smaller`` is below ``larger``': both are means with the standard errors of those means."""
        reach = 1.96 * math.hypot(larger_std, smaller_std)
        return cls.around(text, where, float(larger) - float(smaller), reach, note)

    @classmethod
    def illustration(cls, text: str, where: str, margin: float, why: str) -> Claim:
        """What is true by construction; ``why`` says by which. A margin that is not positive is still a failure."""
        made = cls.exact(text, where, margin, f"true by construction: {why}")
        return replace(made, constructed=True, refuted_by="")

    @classmethod
    def every(cls, text: str, where: str, parts: Sequence[Claim], note: str = "") -> Claim:
        """All of these at once: the worst margin, each band widened so that together they have 95 % (Bonferroni).

        It does not hold as soon as one part does not.
        """
        widening = NormalDist().inv_cdf(1 - 0.025 / len(parts)) / 1.96
        lows = [part.margin - (part.margin - part.low) * widening for part in parts]
        highs = [part.margin + (part.high - part.margin) * widening for part in parts]
        one = "one part on the other side, beyond its band"
        return cls(text, where, min(part.margin for part in parts), min(lows), min(highs), note, refuted_by=one)

    def to_dict(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "where": self.where,
            "verdict": self.verdict,
            "margin": self.margin,
            "low": self.low,
            "high": self.high,
            "note": self.note,
            "refuted_by": self.refuted_by,
        }


class Artefact(ABC):
    """Base of all artefacts. ``data`` names data sets that a full run uses; see `have` for stand-ins.

    ``words`` says a paper's symbols and short names in plain words, wherever pictures and claims use them.
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    source: ClassVar[str] = ""
    notes: ClassVar[tuple[str, ...]] = ()
    data: ClassVar[tuple[str, ...]] = ()
    words: ClassVar[dict[str, str]] = {}

    def specs(self, scale: Scale) -> dict[str, Spec]:
        """The specs behind the artefact, by label; none where nothing is run."""
        return {}

    @abstractmethod
    def pictures(self, results: Results) -> list[Picture]:
        raise NotImplementedError

    @abstractmethod
    def claims(self, results: Results) -> list[Claim]:
        raise NotImplementedError


def say(thing: Said, words: dict[str, str]) -> Said:
    """Text, or a picture, claim or tuple with texts, in plain words; longer terms go before the shorter in them.

    >>> say("n_a under DP", {"n_a": "share of group a", "DP": "demographic parity"})
    'share of group a under demographic parity'
    """
    if not words or isinstance(thing, int | float):
        return thing
    if isinstance(thing, str):
        terms = "|".join(re.escape(term) for term in sorted(words, key=len, reverse=True))
        return re.sub(rf"(?<![\w-])(?:{terms})(?![\w-])", lambda found: words[found[0]], thing)  # type: ignore[return-value]
    if isinstance(thing, tuple):
        return tuple(say(part, words) for part in thing)  # type: ignore[return-value]
    if is_dataclass(thing) and not isinstance(thing, type):
        return replace(thing, **{part.name: say(getattr(thing, part.name), words) for part in fields(thing)})
    return thing


def readable(value: float) -> str:
    """A number as people write it: 15,430 and 0.0123, and a power of ten only where zeros would have to be counted.

    >>> readable(15432.1), readable(-0.01234567), readable(0.00000839)
    ('15,432', '\u22120.01235', '8.39 \u00d7 10\u207b\u2076')
    """
    size = abs(value)
    if not math.isfinite(value) or size == 0 or 1e-4 <= size < 1000:
        text = f"{value or 0:.4g}"
    elif 1000 <= size < 1e9:
        text = f"{value:,.0f}"
    else:
        digits, power = f"{value:.2e}".split("e")
        digits = digits.rstrip("0").rstrip(".")
        text = f"{digits} \u00d7 10{str(int(power)).translate(RAISED)}"
    return text.replace("-", "\u2212")


def have(dataset: str) -> bool:
    """Is this data set on the machine? An artefact uses its generated stand-in otherwise and is marked so."""
    from fairveil import data

    return bool(data.available(dataset))


def line(name: str, result: dict[str, Any], series: str) -> Line:
    """A curve from a result's series, with its band; time in the unit of the result's axis."""
    found = result["series"][series]
    each = result["spec"].get("steps_per_year", 1)
    x = tuple(at / each for at in found["x"]) if each != 1 else tuple(found["x"])
    return Line(name, x, tuple(found["y"]), tuple(found.get("low", ())), tuple(found.get("high", ())))


def courses(results: Results, series: str) -> tuple[Line, ...]:
    """A curve of every result, by its label."""
    return tuple(line(name, result, series) for name, result in results.items())


def labelled(results: Results, start: str = "", end: str = "") -> Results:
    """The results whose labels begin and end so, by the rest of their labels.

    >>> labelled({"a, T = 1": {}, "b, T = 1": {}, "a, T = 2": {}}, end=", T = 1")
    {'a': {}, 'b': {}}
    """
    return {
        label.removeprefix(start).removesuffix(end): result
        for label, result in results.items()
        if label.startswith(start) and label.endswith(end)
    }


def is_course(result: dict[str, Any], metric: str) -> bool:
    """Does a list metric run over time (its last value is where it ended), or over arms or groups?"""
    return f"{metric}_std" in result["metrics"] or any(metric.startswith(name) for name in result["series"])


FEW = 2_000
"""Below so many rounds an axis is linear."""


def time_axis(result: dict[str, Any]) -> tuple[str, bool]:
    """What time is called in a result, and whether its points span so much of it that the axis is logarithmic.

    Rounds of a learner may be, from `FEW` on; where arms are plain a round is one of the people who take part. The
    steps of people's lives are years where the spec says how many make one.
    """
    xs = [x for points in result["series"].values() for x in points["x"] if x is not None]
    wide = bool(xs) and min(xs) > 0 and max(xs) / min(xs) > 50 and max(xs) >= FEW
    if "steps_per_year" in result["spec"]:
        return "years", False
    one = "people" if "pull_share" in result["metrics"] else "round"
    unit = {"bandit": one, "consensus": "iteration"}.get(result["spec"]["task"])
    return unit or "step", wide and unit is not None


def last(result: dict[str, Any], metric: str, key: str | None = None) -> tuple[float, float]:
    """A metric (of a course the last value, of a table the one under ``key``) and the standard error of its mean.

    ``<metric>_std`` is the standard deviation over runs (for Nash regret, of its jackknife pseudo-values), everywhere.
    """
    value, spread = result["metrics"][metric], result["metrics"].get(f"{metric}_std")
    if key is not None:
        value, spread = value[key], spread[key]
    if isinstance(value, list):
        value, spread = value[-1], spread and spread[-1]
    return float(value), float(spread or 0.0) / math.sqrt(result["spec"]["runs"])


def below(text: str, where: str, larger: Spec, smaller: Spec, metric: str, note: str = "") -> Claim:
    """'``smaller`` has less of this metric than ``larger``': both are results."""
    return Claim.difference(text, where, *last(larger, metric), *last(smaller, metric), note)
