"""What a reader meets on a phone, in the dark and on paper: nothing cut, torn, struck through or too small."""

import re

import pytest

from fairveil.lab.artefact import Chart, Claim, Heatmap, Line, Table
from fairveil.lab.handover.document import BandedLines, Bars, Document, DocumentSection, TextGrid
from fairveil.lab.handover.write import write_document
from fairveil.lab.plots import one_page, write_picture
from fairveil.lab.report import Section, write_report
from fairveil.lab.streams import stream_chart

pytestmark = pytest.mark.browser
PAPER = {"width": 711, "height": 1045}
"""What the margins leave of A4."""


def opened(browser, file, **options):
    tab = browser.new_context(**options).new_page()
    tab.goto(file.as_uri())
    return tab


def test_a_released_series_that_is_opened_alone_fits_a_phone_and_is_dark_all_over(browser, tmp_path):
    hours = [f"2026-01-{1 + k // 24:02} {k % 24:02}:00:00" for k in range(600)]
    rows = [{"ts": hour, "n": 5.0, "n_low": 1.0, "n_high": 9.0, "status": "released"} for hour in hours]
    write_picture(stream_chart(rows, "ts", ["n"]), tmp_path / "series.svg")
    tab = opened(browser, tmp_path / "series.svg", viewport={"width": 360, "height": 740}, color_scheme="dark")
    root = tab.locator("svg").first
    box = root.evaluate("root => root.getBoundingClientRect().toJSON()")
    assert box["right"] <= 360
    assert box["height"] < 400, "it keeps its shape"
    assert 12 * box["width"] / root.evaluate("root => root.viewBox.baseVal.width") >= 6
    assert root.evaluate("root => getComputedStyle(root).backgroundColor") == "rgb(20, 20, 20)"
    assert "all 600 hours" in tab.content()
    tab.context.close()


def test_a_long_cell_is_whole_on_paper_and_short_tables_are_not_torn(browser, tmp_path):
    places = str([k * k * k for k in range(40)])
    tables = [
        Table("all specs have", ("key", "value"), (("checkpoints", places),)),
        Table("long", ("key", "value"), tuple((str(k), k) for k in range(30))),
    ]
    file = write_report([Section("compare", "Runs", pictures=tables)], tmp_path / "index.html", title="Comparison")
    tab = opened(browser, file, viewport=PAPER)
    tab.emulate_media(media="print")
    for table in tab.locator("table").all():
        assert table.bounding_box()["x"] + table.bounding_box()["width"] <= PAPER["width"]
    torn = tab.locator(".scroll").evaluate_all("found => found.map(one => getComputedStyle(one).breakInside)")
    assert torn == ["avoid", "auto"]
    assert len(re.findall(rb"/Type\s*/Page\b", tab.pdf(prefer_css_page_size=True))) == 2
    tab.context.close()


def test_on_a_phone_no_number_of_a_comparison_is_broken_and_no_name_of_a_legend_cut(browser, tmp_path):
    rules = ("no constraint (none)", "one common threshold (simple)", "demographic parity (dp)")
    table = Table(
        "at the end", ("run", "share of group a", "minus the first"), tuple((r, 0.2, -0.05524) for r in rules)
    )
    lines = tuple(Line(rule, (1.0, 2.0), (100_000.0 * k, 4.0)) for k, rule in enumerate(rules))
    title = "(a) share of group a, a arrives three times as often"
    pictures = [table, Chart(title, "years", "share of group a", lines)]
    file = write_report([Section("compare", "Runs", pictures=pictures)], tmp_path / "index.html", title="Comparison")
    tab = opened(browser, file, viewport={"width": 360, "height": 740})
    tab.wait_for_selector(".figure.drawn", timeout=20_000)
    lengths = tab.locator("td", has_text="0.05524").evaluate_all("found => found.map(one => one.scrollWidth)")
    assert min(lengths) > 60, "on one line"
    edge = tab.locator(".live svg.marks").evaluate("place => place.getBoundingClientRect().right")
    names = tab.locator(".live svg.marks .role-legend-label text")
    assert names.all_text_contents() == list(rules)
    words = tab.locator(".live svg.marks :is(.role-legend-label, .role-title-text) text")
    assert words.count() == len(rules) + 1
    assert max(words.evaluate_all("found => found.map(one => one.getBoundingClientRect().right)")) <= edge
    tab.context.close()


def test_every_chart_of_a_short_page_is_drawn_for_a_phone_before_anybody_scrolls(browser, tmp_path):
    charts = [Chart(f"chart {k}", "years", "people", (Line("a", (1.0, 2.0), (3.0, 4.0)),)) for k in range(6)]
    write_picture(one_page(charts), tmp_path / "six.html")
    tab = opened(browser, tmp_path / "six.html", viewport={"width": 360, "height": 740}, color_scheme="dark")
    tab.wait_for_selector("#figure-5.drawn", timeout=20_000)
    last = tab.locator("#figure-5 .live svg.marks")
    assert last.evaluate("place => place.getBoundingClientRect().width / place.viewBox.baseVal.width") >= 0.99
    menu = tab.locator("#figure-5 summary")
    assert "invert" in menu.evaluate("place => getComputedStyle(place).filter")
    assert float(menu.evaluate("place => getComputedStyle(place).opacity")) >= 0.5, "seen without a mouse over it"
    assert menu.locator("svg").evaluate("place => getComputedStyle(place).filter") == "none", "dots on their disc"
    tab.context.close()


def test_no_title_of_a_chart_or_legend_is_cut_on_a_phone(browser, tmp_path):
    words = "(b) average loss, a arrives a third as often"
    axis = "repayment rate of people in the larger group"
    legend = "share of the regret saved (negative: lost; colours end at 1)"
    pictures = [
        Chart(words, axis, "average loss", (Line("a", (1.0, 2.0), (3.0, 4.0)),)),
        Heatmap("Agents", "epsilon", "noise", legend, (1.0, 2.0), (3.0, 4.0), ((-1.0, 1.0), (0.5, 2.0))),
    ]
    file = write_report([Section("p/1", "Figure", pictures=pictures)], tmp_path / "index.html", title="Report")
    tab = opened(browser, file, viewport={"width": 360, "height": 740})
    tab.wait_for_selector("#figure-0-1.drawn", timeout=20_000)
    for key, role, said in (
        ("figure-0-0", "title", words),
        ("figure-0-0", "axis-title", axis),
        ("figure-0-1", "legend-title", legend),
    ):
        place = tab.locator(f"#{key} .live svg.marks")
        right = place.evaluate("place => place.getBoundingClientRect().right")
        pieces = place.locator(f".role-{role}-text tspan, .role-{role} tspan")
        assert " ".join(dict.fromkeys(pieces.all_text_contents())) == said
        assert max(pieces.evaluate_all("found => found.map(one => one.getBoundingClientRect().right)")) <= right
    tab.context.close()


def test_on_paper_a_verdict_has_its_mark_and_no_heading_is_torn(browser, tmp_path):
    claims = [Claim.exact("a is below b", "section 1", -1.0)]
    file = write_report([Section("p/1", "Figure", claims=claims)], tmp_path / "index.html", title="Report")
    tab = opened(browser, file, viewport=PAPER)
    tab.emulate_media(media="print")
    mark = tab.locator("td .light")
    assert mark.evaluate("one => getComputedStyle(one).printColorAdjust") == "exact"
    assert tab.locator("td.verdict").evaluate("one => getComputedStyle(one).whiteSpace") == "nowrap"
    assert tab.locator("h2").evaluate("one => getComputedStyle(one).breakInside") == "avoid"
    tab.context.close()


@pytest.fixture(scope="module")
def handed_over(tmp_path_factory):
    head = (
        "option",
        "given to",
        "share",
        "answered and published",
        "answered, waiting",
        "no answer yet",
        "never answered",
    )
    wide = TextGrid(head, (("usual care", "171", "100.0%", "108", "22", "41", "0"),))
    budget = TextGrid(
        ("contributions", "budget", "how sure"), (("10", "epsilon 10, delta 1e-05", "practically certain"),)
    )
    shares = tuple(f"0.{k}94 (0.{k}72 to 0.{k}16)" for k in range(1, 5))
    rates = TextGrid(
        ("group", "people", "accepted", "wrong", "accepted of those with the positive label", "of the others"),
        (("f", "3,041", *shares),),
    )
    paid = TextGrid(("paid for", "on", "charge"), (("stream", "2026-11-18", "mu^2 0.04568282351, delta 2.03e-16"),))
    bars = Bars("means", (("usual care", 0.1, 0.0, 0.9),))
    lines = BandedLines("chance", "people", (("named", (1.0, 10.0), (0.2, 0.4), (0.1, 0.3), (0.3, 0.5)),))
    sections = [
        DocumentSection("Decided", grids=[wide, rates, paid], drawings=[bars, lines]),
        DocumentSection("Promised", ["Hidden up to epsilon = 1, delta 1e-07. Read that line:"], [budget]),
    ]
    document = Document("A report", "About.", figures=[("promise", "epsilon 5, delta 1e-05")], sections=sections)
    return write_document(document, tmp_path_factory.mktemp("handed") / "report.html")


def test_on_paper_no_table_leaves_its_column_or_its_sentence(handed_over, browser):
    tab = opened(browser, handed_over, viewport=PAPER)
    tab.emulate_media(media="print")
    for place in tab.locator(".scroll").all():
        assert place.evaluate("place => place.firstElementChild.offsetWidth <= place.clientWidth")
        assert place.evaluate("place => getComputedStyle(place).breakInside") == "avoid"
    sentence = tab.locator("p", has_text="Read that line")
    assert sentence.evaluate("place => getComputedStyle(place).breakAfter") == "avoid"
    tab.context.close()


@pytest.mark.parametrize("width", [360, 320])
def test_no_line_ends_inside_a_number_or_a_budget(handed_over, browser, width):
    tab = opened(browser, handed_over, viewport={"width": width, "height": 740})
    kept = tab.locator(".whole")
    words = kept.all_inner_texts()
    assert words[:2] == ["epsilon 5", "delta 1e-05"]
    assert "epsilon = 1" in words
    assert kept.evaluate_all("found => found.every(one => one.getClientRects().length === 1)")
    tab.context.close()


def test_no_table_is_moved_sideways_on_a_phone(handed_over, browser):
    tab = opened(browser, handed_over, viewport={"width": 360, "height": 740})
    wider = tab.locator(".scroll").evaluate_all("found => found.map(one => one.scrollWidth - one.clientWidth)")
    assert wider == [0] * 4
    tab.context.close()


def test_in_the_dark_a_line_is_lighter_than_its_band_and_no_grid_strikes_a_name_through(handed_over, browser):
    tab = opened(browser, handed_over, viewport={"width": 360, "height": 740}, color_scheme="dark")
    lifted = tab.locator("svg:visible .curve").evaluate_all("found => found.map(one => getComputedStyle(one).filter)")
    assert set(lifted) == {"brightness(1.7)"}
    name = tab.locator("svg:visible text", has_text="usual care")
    assert name.evaluate("one => getComputedStyle(one).paintOrder").startswith("stroke")
    ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert name.evaluate("one => getComputedStyle(one).stroke") == ground
    tab.context.close()
