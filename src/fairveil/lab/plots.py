"""Drawing pictures (plain data) with Altair: interactive HTML, SVG and PNG, all without a network."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fairveil.errors import DependencyError, SpecError
from fairveil.lab.artefact import Chart, Heatmap, Line, readable
from fairveil.lab.page import write_charts
from fairveil.lab.result_charts import result_charts
from fairveil.running.store import write_atomically, writing

PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#5F5F5F", "#8C510A", "#7B3294", "#B8A500"]
"""Okabe and Ito's colours first: they stay apart for colour-blind readers."""
ROLES = ("ours", "as published")
"""Of "ours: private-nash" the role has the colour: ours is ours in every chart of a page."""
READABLE_CELLS = 120
"""Heat maps up to this size show the number in every cell."""
MOST_CELLS = 120
"""Heat maps of more rows or columns draw every second (third, fourth): a page shows no more, and takes minutes."""
DOTTED_POINTS = 30
"""Curves of more points than this are drawn without a dot on each; so are dashed ones, whose dashes dots would hide."""
LINE = 96
"""Letters of a line above the charts."""
ROW_HEIGHT = 34
"""Heat maps of few rows are no higher than their numbers need."""
FONTS = {"labelFontSize": 12, "titleFontSize": 12}
SAME = 0.004
"""Share of an axis that an eye takes for nothing."""
WIDER = 1.2
"""Pixels by which a letter of a reader's font may be wider than one of the font that lays out a still chart."""


def charting() -> Any:
    """Altair, or a sentence on how to have it."""
    try:
        import altair
    except ImportError:
        raise DependencyError("drawing needs Altair", fix="pip install 'fairveil[lab]'") from None
    altair.data_transformers.disable_max_rows()
    return altair


Colours = Mapping[str, str]
"""Colours of one page by the name of what is drawn."""


def draw(picture: Chart | Heatmap, width: int = 560, height: int = 320, colours: Colours | None = None) -> Any:
    """An Altair chart of a picture."""
    if isinstance(picture, Heatmap):
        return _heatmap(picture, width, height)
    return _chart(picture, width, height, colours or page_colours([picture]))


def page_colours(pictures: Sequence[object]) -> Colours:
    """One colour for one name through all charts of a page, in the order in which they first appear."""
    names = dict.fromkeys(
        _bare(one.name) for picture in pictures if isinstance(picture, Chart) for one in picture.lines
    )
    return {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(names)}


def _bare(name: str) -> str:
    """What a colour stands for: a role, or the name without what a chart adds to it."""
    role = name.partition(": ")[0]
    return role if role in ROLES else re.sub(r" \((front|eps [^)]*)\)$", "", name)


def _in_chart(names: list[str], colours: Colours) -> list[str]:
    """Those of the page; where a chart would show one of them twice, its own."""
    found = [colours.get(_bare(name), "") for name in names]
    repeated = len(set(found)) < len(found) or "" in found
    return [PALETTE[i % len(PALETTE)] for i in range(len(names))] if repeated else found


def _chart(picture: Chart, width: int, height: int, colours: Colours) -> Any:
    alt = charting()
    rows = [
        {"name": item.name, "place": i, "x": x, "y": y, "low": _at(item.low, i), "high": _at(item.high, i)}
        for item in picture.lines
        for i, (x, y) in enumerate(zip(item.x, item.y))
        if y is not None
        and not (picture.log_y and y <= 0)
        and not (picture.log_x and not isinstance(x, str) and x <= 0)
    ]
    if picture.log_y:
        floor = min((row["y"] for row in rows), default=1.0) / 10
        for row in rows:
            row["low"] = None if row["low"] is None else max(row["low"], floor)
    names = [item.name for item in picture.lines]
    named = any(isinstance(row["x"], str) for row in rows)
    x = _x_axis(alt, picture, named)
    y = _y_axis(alt, picture, rows)
    legend = None if [name.replace("_", " ") for name in names] == [picture.y_label] else _legend(alt, names)
    scale = alt.Scale(domain=names, range=_in_chart(names, colours))
    colour = alt.Color("name:N", title=None, sort=names, scale=scale, legend=legend)
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, color=colour)
    tips = [
        alt.Tooltip("name:N"),
        alt.Tooltip("x:N" if named else "x:Q", title=picture.x_label),
        alt.Tooltip("y:Q", title=picture.y_label, format=".4g"),
    ]
    if picture.kind == "bars":
        bar = y.copy()
        bar.scale = alt.Undefined
        mark = base.mark_bar().encode(y=bar, xOffset=alt.XOffset("name:N", sort=names), tooltip=tips)
    elif picture.kind == "points":
        mark = base.mark_point(filled=True, size=45).encode(y=y, tooltip=tips)
    else:
        covers = covering(picture.lines)
        second = [item.dashed or i >= len(PALETTE) or covers[i] for i, item in enumerate(picture.lines)]
        few = max((len(item.x) for item in picture.lines), default=0) <= DOTTED_POINTS
        dots = alt.OverlayMarkDef(size=18) if picture.kind == "paths" or (few and not any(second)) else False
        order = alt.Order("place:Q") if picture.kind == "paths" else alt.Order("x:Q")
        mark = base.mark_line(point=dots).encode(y=y, tooltip=tips, order=order)
        if any(second):  # of a pair, or of two on one place; and when colours come round again, the second round
            dashes = alt.Scale(domain=names, range=[[5, 3] if dashed else [1, 0] for dashed in second])
            mark = mark.encode(strokeDash=alt.StrokeDash("name:N", sort=names, scale=dashes, legend=legend, title=None))
    banded = any(row["low"] is not None for row in rows)
    if banded and picture.kind == "lines":
        low = y.copy()
        low.shorthand = "low:Q"
        mark = base.mark_area(opacity=0.18).encode(y=low, y2="high:Q") + mark
    elif banded:
        offset = {"xOffset": alt.XOffset("name:N", sort=names)} if picture.kind == "bars" else {}
        rule = base.mark_rule().encode(y=alt.Y("low:Q", title=picture.y_label), y2="high:Q", **offset)
        mark = mark + rule.encode(color=alt.value("#333333"))
    if picture.level is not None:
        level = alt.Chart(alt.Data(values=[{"level": picture.level}]))
        mark = (
            level.mark_rule(strokeDash=[2, 2], color="#333333").encode(y=alt.Y("level:Q", title=picture.y_label)) + mark
        )
    return mark.properties(title=picture.title, width=width, height=height)


def _x_axis(alt: Any, picture: Chart, named: bool) -> Any:
    if named:
        axis = alt.Axis(labelAngle=0, labelExpr="split(datum.label, ' ')", **FONTS)  # a word a line
        return alt.X("x:N", title=picture.x_label, sort=None, axis=axis)
    pad = {"padding": 12} if picture.kind in ("points", "paths") else {}
    scale = alt.Scale(type="log", nice=False) if picture.log_x else alt.Scale(zero=False, nice=not pad, **pad)
    count = alt.Undefined if picture.log_x else 10
    axis = alt.Axis(format=",~r", labelOverlap="greedy", labelSeparation=6, labelFlush=False, tickCount=count, **FONTS)
    return alt.X("x:Q", title=picture.x_label, scale=scale, axis=axis)


def _y_axis(alt: Any, picture: Chart, rows: list[dict[str, Any]]) -> Any:
    """Log axes end where the curves do; an axis over many powers of ten names the powers."""
    ends = [row[key] for row in rows for key in ("y", "low", "high") if row[key] is not None]
    axis: dict[str, Any] = {**FONTS, "titlePadding": 12}
    pad = {"padding": 12} if picture.kind in ("points", "paths") else {}
    if picture.kind == "lines" and on_the_frame(picture.lines, ends):
        pad = {"padding": 8}
    scale = alt.Scale(zero=False, nice=not pad, **pad)
    if picture.y_range is not None:
        scale = alt.Scale(domain=list(picture.y_range), nice=False)
    elif picture.log_y and ends:
        low, high = min(ends), max(ends)
        scale = alt.Scale(type="log", nice=False, domain=[low / 1.15, high * 1.15])
        axis["labelOverlap"] = "greedy"
        if high / low > 1e9:
            axis["labelExpr"] = "'10^' + format(log(datum.value) / LN10, 'd')"
        else:
            axis["format"] = ",~r"
    elif ends and max(ends) - min(ends) <= 1e-6 * max(map(abs, ends)):
        axis["format"] = ".4~g"  # the axis of a constant has one tick, which is rounded to a whole number otherwise
    return alt.Y("y:Q", title=picture.y_label, scale=scale, axis=alt.Axis(**axis))


def _legend(alt: Any, names: list[str]) -> Any:
    """As many columns as the names leave room for."""
    longest = max(map(len, names), default=0)
    columns = max(1, min(4, 84 // (longest + 6)))
    apart = round(10 + WIDER * longest)
    return alt.Legend(
        orient="bottom", columns=columns, columnPadding=apart, symbolOpacity=1, labelLimit=420, labelFontSize=12
    )


def _heatmap(picture: Heatmap, width: int, height: int) -> Any:
    alt = charting()
    rows: list[dict[str, Any]] = [
        {"x": picture.x[j], "y": picture.y[i], "value": picture.values[i][j]}
        for i in _drawn(picture.y)
        for j in _drawn(picture.x)
    ]
    values = [row["value"] for row in rows if row["value"] is not None]
    ends = list(picture.value_range or (min(values, default=0.0), max(values, default=1.0)))
    crossing = ends[0] < 0 < ends[1]
    reach = max(map(abs, ends))
    scale = (
        alt.Scale(scheme="blueorange", domain=[-reach, reach], domainMid=0, clamp=True)
        if crossing
        else alt.Scale(scheme="viridis", domain=ends if picture.value_range else alt.Undefined, clamp=True)
    )
    legend = alt.Legend(orient="bottom", titleLimit=500, labelFontSize=12, titleFontSize=12, labelOverlap="greedy")
    colour = alt.Color("value:Q", title=picture.value_label, scale=scale, legend=legend)
    tip = alt.Tooltip("value:Q", format=".4g")
    if values and picture.value_range is None and set(values) <= {0, 1}:  # yes-or-no has no values in between
        for row in rows:
            row["value"] = None if row["value"] is None else "yes" if row["value"] else "no"
        two = alt.Scale(domain=["no", "yes"], range=["#d9d9d9", PALETTE[0]])
        colour = alt.Color("value:N", title=picture.value_label, scale=two, legend=legend)
        tip = alt.Tooltip("value:N")
    few = len(rows) <= READABLE_CELLS
    axis = {"format": ",.3~f", "labelOverlap": "greedy", "labelSeparation": 6, **FONTS}
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("x:O", title=picture.x_label, axis=alt.Axis(**axis, labelAngle=0)),
        y=alt.Y("y:O", title=picture.y_label, sort="descending", axis=alt.Axis(**axis, titlePadding=12)),
        tooltip=[alt.Tooltip("x:Q", title=picture.x_label), alt.Tooltip("y:Q", title=picture.y_label), tip],
    )
    chart = base.mark_rect().encode(color=colour)
    if few:
        for row in rows:
            row["text"], row["ink"] = _number(row["value"]), _ink(row["value"], ends, crossing)
        numbers = base.mark_text(fontSize=11).encode(text="text:N", color=alt.Color("ink:N", scale=None))
        chart = (chart + numbers).resolve_scale(color="independent")
        height = min(height, max(3 * ROW_HEIGHT, ROW_HEIGHT * len(picture.y)))
    return chart.properties(title=picture.title, width=width, height=height)


def _drawn(axis: Sequence[object]) -> range:
    """Places of a heat map's rows or columns that are drawn."""
    return range(0, len(axis), -(-len(axis) // MOST_CELLS) or 1)


def _number(value: float | str | None) -> str:
    """A cell's value as a reader wants it."""
    if value is None or isinstance(value, str):
        return value or ""
    if 0 < abs(value) < 1e-4:
        return "\u22480"
    return readable(round(float(f"{value:.2g}"), 4) if abs(value) < 1000 else value)


def _ink(value: float | str | None, ends: list[float], crossing: bool) -> str:
    """White on the dark ends of the colour scales, black elsewhere."""
    if value is None or isinstance(value, str):
        return "white" if value == "yes" else "black"
    low, high = ends
    dark = abs(value) > 0.6 * max(high, -low) if crossing else value - low < 0.55 * (high - low)
    return "white" if dark else "black"


def _at(values: tuple[float, ...], index: int) -> float | None:
    return values[index] if index < len(values) else None


def covering(lines: Sequence[Line]) -> list[bool]:
    """Which lines lie on an earlier one as far as an eye can tell.

    >>> covering([Line("a", (0, 1), (0, 1)), Line("b", (0, 1), (0, 1.001)), Line("c", (0, 1), (0.5, 1))])
    [False, True, False]
    """
    values = [y for item in lines for y in item.y if y is not None]
    near = SAME * (max(values) - min(values)) if values else 0.0

    def same(one: Line, other: Line) -> bool:
        pairs = [(a, b) for a, b in zip(one.y, other.y) if a is not None and b is not None]
        return one.x == other.x and len(pairs) > 1 and all(abs(a - b) <= near for a, b in pairs)

    return [any(same(item, earlier) for earlier in lines[:place]) for place, item in enumerate(lines)]


def on_the_frame(lines: Sequence[Line], ends: Sequence[float]) -> bool:
    """Whether a line lies from end to end on an edge of a chart whose values end at these.

    >>> on_the_frame([Line("a", (0, 1), (0, 1)), Line("b", (0, 1), (1, 1))], (0, 1))
    True
    """
    low, high = min(ends, default=0.0), max(ends, default=0.0)
    near = SAME * (high - low)
    lying = [[y for y in item.y if y is not None] for item in lines]
    return near > 0 and any(len(y) > 1 and (min(y) >= high - near or max(y) <= low + near) for y in lying)


def draw_result(result: dict[str, Any], file: Path) -> None:
    """Draw every series of a result into one .html, .svg, .png or .pdf file."""
    charts = result_charts(result)
    if not charts:
        raise SpecError("this result has no series to draw", path="plot", given=result["spec"]["task"])
    write_picture(one_page(charts).properties(title=_heading(result)), file)


def _heading(result: dict[str, Any]) -> Any:
    """What was run, whether it is simulated, and what is promised, above the charts."""
    from fairveil.lab.handover.results import banner_of, promise_of, run_in_words, subject
    from fairveil.lab.handover.words import promise_section

    said = promise_section(promise_of(result["guarantee"]))
    words = [banner_of(result), run_in_words(result["spec"]), *([said.marked] if said.marked else said.text[:1])]
    return charting().TitleParams(
        f"Result of a run: {subject(result['spec'])}",
        subtitle=[part for line in words if line for part in textwrap.wrap(line, LINE)],
        anchor="start", fontSize=18, subtitleFontSize=12, subtitlePadding=6, offset=16,
    )  # fmt: skip


def one_page(charts: Sequence[Chart | Heatmap]) -> Any:
    """Pictures of one width below each other."""
    colours = page_colours(charts)
    drawn = [draw(chart, colours=colours) for chart in charts]
    return _saved_whole()(vconcat=drawn).resolve_scale(color="independent")


@cache
def _saved_whole() -> Any:
    """Altair's charts below each other, whose ``save("file.html")`` needs no network and is dark in the dark."""

    class Saved(charting().VConcatChart):  # type: ignore[misc]
        def save(self, fp: Any, format: Any = None, **options: Any) -> None:
            if format is None and isinstance(fp, str | Path) and Path(fp).suffix == ".html":
                write_picture(self, Path(fp))
            else:
                super().save(fp, format, **options)

    return Saved


def write_picture(chart: Any, file: Path) -> None:
    """Write an Altair chart; the file needs no network to open."""
    import vl_convert

    check_picture_file(file)
    spec = chart.to_dict()
    if file.suffix == ".html":
        write_charts(spec, file)
        return
    if file.suffix == ".svg":
        data = vl_convert.vegalite_to_svg(spec).replace(">", f">{ALONE}", 1).encode()
    elif file.suffix == ".pdf":
        data = vl_convert.vegalite_to_pdf(spec)
    else:
        data = vl_convert.vegalite_to_png(spec, scale=2)
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, data)


ALONE = (
    "<style>:root { max-width: 100%; height: auto; } @media screen and (prefers-color-scheme: dark) "
    "{ :root { background: #141414; } :root > * { filter: invert(0.92) hue-rotate(180deg); } }</style>"
)
"""An SVG that is opened alone is no wider than the window. Charts are drawn on white; in the dark lightness is turned
round and hues stay, also in a page's images."""


PICTURES = (".html", ".svg", ".png", ".pdf")


def check_picture_file(file: Path) -> None:
    """Refuse a file that cannot be drawn; ask before the work, not after it."""
    charting()
    if file.suffix not in PICTURES or file.is_dir():
        raise SpecError("this kind of file cannot be drawn", path="plot", given=file.name, allowed=", ".join(PICTURES))
