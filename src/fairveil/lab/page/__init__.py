"""A page with figures that opens without a network: an inlined script draws them as wide as their place, and static
ones stand in print and where no script runs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from fairveil._version import __version__
from fairveil.errors import DependencyError
from fairveil.lab.artefact import DECIDING, PLURAL, readable
from fairveil.running.store import machine_facts, write_atomically, writing

HERE = Path(__file__).parent
MANY_FIGURES = 4
"""A part with this many figures shows them two by two, so that neighbours can be compared."""
FILLED = {"type": "fit-x", "contains": "padding"}
"""Axes and legends count: every chart of a page is as wide as its place, so that their edges line up."""
STILL = 760
"""Width of a chart on paper and before the page's script has drawn it."""
STACKED = 4
"""Tables of so many columns are a block a row on a phone, each cell with its column's name."""
SHORT = 14
"""Tables of no more rows are on one page in print."""
LONG = 32
"""Cells of more letters may go over several lines."""
TOGETHER = ("vconcat", "resolve", "title")
"""What a Vega-Lite spec says of several charts and not of each."""


def write_page(parts: Sequence[Mapping[str, Any]], file: Path, *, title: str, lead: str = "") -> Path:
    """Write parts (of the keys that the template names; those left out are empty) into one HTML file."""
    try:
        import jinja2
        import vl_convert
    except ImportError:
        raise DependencyError("a page needs jinja2 and vl-convert", fix="pip install 'fairveil[lab]'") from None
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    drawn = {one["key"]: one["spec"] for part in parts for one in part["pictures"] if one["kind"] == "figure"}
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for part in parts:
        groups.setdefault(part.get("group", ""), []).append(part)
    counts = {
        verdict: sum(claim["verdict"] == verdict for part in parts for claim in part.get("claims", ()))
        for verdict in DECIDING
    }
    page = environment.from_string((HERE / "template.html").read_text()).render(
        title=title,
        lead=lead,
        sections=parts,
        groups=groups,
        counts=counts,
        plural=PLURAL,
        readable=readable,
        many=MANY_FIGURES,
        stacked=STACKED,
        short=SHORT,
        long=LONG,
        style=style_of(HERE / "style.css"),
        machine={"fairveil": __version__, **machine_facts()},
        script=_bundle(vl_convert) + "\n" + (HERE / "figures.js").read_text() if drawn else "",
        curves=any(map(_has_curves, drawn.values())),
        figures=json.dumps(drawn).replace("</", "<\\/"),
    )
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, page.encode())
    return file


def style_of(file: Path) -> str:
    """The stylesheet of a page, with that of its tables on a phone."""
    return file.read_text() + (HERE / "stacked.css").read_text()


def write_charts(spec: dict[str, Any], file: Path) -> Path:
    """Write a Vega-Lite spec as a page; what stands below each other in it is a figure each."""
    common = {key: value for key, value in spec.items() if key not in TOGETHER}
    charts = [{**common, **one} for one in spec["vconcat"]] if "vconcat" in spec else [spec]
    names = [str(one.get("title", "")) for one in charts]
    heading = spec.get("title", "") if "vconcat" in spec else ""
    lead = [heading["text"], *heading.get("subtitle", ())] if isinstance(heading, dict) else [heading]
    title = lead.pop(0) if lead[0] and len(charts) + len(lead) > 2 else next(filter(None, names), file.stem)
    if title == names[0] and len(charts) == 1:
        charts = [{key: value for key, value in charts[0].items() if key != "title"}]
    pictures = [figure(f"figure-{place}", one, names[place]) for place, one in enumerate(charts)]
    return write_page([{"pictures": pictures}], file, title=title, lead=" ".join(lead))


def _has_curves(spec: Mapping[str, Any]) -> bool:
    """Whether a chart has lines, of which a later one may cover an earlier one."""
    mark = spec.get("mark", "")
    kind = mark["type"] if isinstance(mark, Mapping) else mark
    return kind == "line" or any(map(_has_curves, spec.get("layer", ())))


def figure(key: str, spec: dict[str, Any], words: str) -> dict[str, Any]:
    """A chart of a page: its spec, what it shows in words, and how it looks on paper."""
    spec = {**spec, "width": STILL, "autosize": FILLED}
    svg = re.sub(r"<\?xml[^>]*\?>", "", _still(json.dumps(spec)))
    svg = re.sub(r"\b(gradient_|clip)(\d+)", rf"{key}-\1\2", svg)  # ids are unique in the whole page
    return {"kind": "figure", "key": key, "spec": spec, "words": words, "svg": svg}


@lru_cache(maxsize=1024)
def _still(spec: str) -> str:
    """A chart as SVG; a page that is written again and again as it grows draws each once."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(spec))


@lru_cache(maxsize=1)
def _bundle(vl_convert: Any) -> str:
    """Vega, Vega-Lite and the embedder as one script, inlined once for all figures."""
    return str(vl_convert.javascript_bundle("window.fairveilEmbed = vegaEmbed;")).replace("</script", "<\\/script")
