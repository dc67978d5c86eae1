"""The report in Chromium: no requests, no script errors, nothing wider than the screen, figures drawn, both themes."""

import re

import pytest

from fairveil.lab.artefact import Chart, Claim, Heatmap, Line, Table
from fairveil.lab.plots import draw, one_page, write_picture
from fairveil.lab.report import Section, write_report

pytestmark = pytest.mark.browser
FITS = "place => place.getBoundingClientRect().right <= document.documentElement.clientWidth"
"""Nothing has to be moved sideways to be seen."""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    points = tuple(float(10**i) for i in range(6))
    pictures = [
        Chart(
            "Regret",
            "round",
            "regret",
            (Line("a", points, points, points, points), Line("b", points, points)),
            log_x=True,
        ),
        Heatmap("Map", "eps", "m", "gap", (1.0, 2.0), (3.0, 4.0), ((-1.0, 1.0), (0.5, 2.0))),
        Table("Wide", tuple(f"column {i}" for i in range(14)), (tuple(0.123456 * i for i in range(14)),) * 3),
    ]
    claims = [Claim.exact("a is below b", "section 1", 1.0), Claim.exact("b is below c", "section 2", -1.0)]
    sections = [Section(f"p/{i}", f"Figure {i}", "p", pictures=pictures, claims=claims) for i in range(3)]
    return write_report(sections, tmp_path_factory.mktemp("report") / "index.html", title="A report")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_report_in_a_browser(page, browser, width, theme):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
    tab = context.new_page()
    requests, errors = [], []
    tab.on("request", lambda request: requests.append(request.url))
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    tab.goto(page.as_uri())
    tab.wait_for_selector(".figure.drawn", timeout=20_000)
    for key in ("figure-1-0", "figure-2-1"):
        tab.evaluate(f"document.getElementById('{key}').scrollIntoView()")
        tab.wait_for_selector(f"#{key}.drawn", timeout=20_000)
    assert requests == [page.as_uri()], "the file needs no network"
    assert not errors
    wide = tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, "nothing is wider than the screen"
    background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (theme == "light")
    assert tab.locator(".claims .verdict.holds").count() == 3
    assert tab.locator(".claims .verdict.does-not-hold").count() == 3
    context.close()


def test_without_script_and_in_print_the_static_figures_show(page, browser):
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(page.as_uri())
    assert tab.locator("#figure-0-0 .still svg").is_visible()
    context.close()
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(page.as_uri())
    tab.wait_for_selector("#figure-0-0.drawn", timeout=20_000)
    assert not tab.locator("#figure-0-0 .still svg").is_visible()
    tab.emulate_media(media="print")
    assert tab.locator("#figure-0-0 .still svg").is_visible()
    assert not tab.locator("#figure-0-0 .live").is_visible(), "each figure is printed once"
    context.close()


def test_on_paper_no_table_is_cut(page, browser):
    context = browser.new_context(viewport={"width": 660, "height": 900})
    tab = context.new_page()
    tab.emulate_media(media="print")
    tab.goto(page.as_uri())
    right = "all => Math.max(...all.map(one => one.getBoundingClientRect().right))"
    assert tab.eval_on_selector_all("table", right) <= 660
    context.close()


def test_figures_speak_and_wide_tables_are_reached_by_keyboard(page, browser):
    context = browser.new_context(viewport={"width": 768, "height": 900})
    tab = context.new_page()
    tab.goto(page.as_uri())
    tab.wait_for_selector("#figure-0-0.drawn", timeout=20_000)
    still = tab.locator("#figure-0-0 .still")
    assert still.get_attribute("role") == "img"
    assert still.get_attribute("aria-label") == "Regret: regret against round. Last values: a 100,000, b 100,000."
    assert "map of gap over eps and m, from \u22121 to 2" in tab.locator("#figure-0-1").get_attribute("aria-label")
    wide = tab.locator(".scroll").first
    wide.focus()
    assert wide.evaluate("place => place === document.activeElement")
    before = wide.evaluate("place => place.scrollLeft")
    tab.keyboard.press("ArrowRight")
    tab.wait_for_function("document.activeElement.scrollLeft > 0")
    assert before == 0
    context.close()


@pytest.mark.parametrize("width", [390, 360])
def test_tables_of_a_phone_are_a_block_a_row_and_nothing_moves_sideways(browser, tmp_path, width):
    columns = ("run", "nash_regret", "epsilon", "minus the first", "95 % band", "p")
    title = "nash_regret at the end, mean over runs; each p alone: all 2 together at 5 % need p below 0.025"
    tables = [
        Table(title, columns, (("kl-ucb", 0.009, None, 0.002, "[-0.003801, 0.007819]", 0.4264),)),
        Table("all specs have", ("key", "value"), (("environment.means_seed", str([1, 2, 4, 6, 9] * 20)),)),
    ]
    file = write_report([Section("compare", "Runs", pictures=tables)], tmp_path / "index.html", title="Comparison")
    context = browser.new_context(viewport={"width": width, "height": 900})
    tab = context.new_page()
    tab.goto(file.as_uri())
    for place in tab.locator(".scroll").all():
        assert place.evaluate("place => place.scrollWidth - place.clientWidth") <= 0
    assert not tab.locator("thead").first.is_visible()
    band = tab.locator("td[data-name='95 % band']")
    assert band.evaluate("place => getComputedStyle(place, '::before').content") == '"95 % band"'
    assert band.evaluate(FITS)
    tab.set_viewport_size({"width": 1000, "height": 900})
    assert tab.locator("thead").first.is_visible()
    context.close()


def test_on_paper_no_name_of_a_legend_touches_the_next_mark_and_no_axis_its_title(browser, tmp_path):
    """What lays out the still figures measures a narrower font than a reader may have."""
    names = ("fairness=none", "fairness=simple", "fairness=demographic-parity", "fairness=eqloss")
    lines = tuple(Line(name, (1.0, 2.0), (100_000.0, 400_000.0 + k)) for k, name in enumerate(names))
    chart = Chart("people", "years", "people of group a", lines)
    rates = (0.526, 0.549, 0.584)
    shares = Heatmap("shares", "rate of group b", "rate of group a", "share", rates, rates, ((0.5,) * 3,) * 3)
    file = write_report([Section("compare", "Runs", pictures=[chart, shares])], tmp_path / "index.html", title="Both")
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(file.as_uri())
    tab.emulate_media(media="print")
    tab.wait_for_selector(".still svg")
    labels = boxes(tab, ".still .role-legend-label text")
    marks = boxes(tab, ".still .role-legend-symbol path")
    assert len(marks) == len(names)
    labels = [label for label in labels if label["bottom"] < max(mark["bottom"] for mark in marks) + 5]
    assert len(labels) == len(names)
    for label in labels:
        beside = [mark["left"] for mark in marks if mark["left"] > label["left"] and mark["top"] < label["bottom"]
                  and mark["bottom"] > label["top"]]  # fmt: skip
        assert all(left - label["right"] >= 4 for left in beside)
    upright = [box for box in boxes(tab, ".still .role-axis-title text") if box["bottom"] - box["top"] > 60]
    assert len(upright) == 2
    for title in upright:
        numbers = [box for box in boxes(tab, ".still .role-axis-label text") if box["left"] > title["left"]
                   and title["top"] < box["bottom"] and box["top"] < title["bottom"]]  # fmt: skip
        assert min(box["left"] for box in numbers) - title["right"] >= 2
    context.close()


def boxes(tab, selector):
    """Where these stand on the page."""
    return tab.locator(selector).evaluate_all("found => found.map(one => one.getBoundingClientRect().toJSON())")


def test_many_figures_stand_two_by_two_and_narrow_maps_drop_their_numbers(browser, tmp_path):
    axis = tuple(float(k) for k in range(8))
    maps = [Heatmap(f"Map {k}", "x", "y", "share", axis, axis, ((0.123,) * 8,) * 8, (0.0, 1.0)) for k in range(4)]
    file = write_report([Section("p/1", "Maps", "A paper", pictures=maps)], tmp_path / "maps.html", title="Maps")
    for width, columns, numbers in ((1280, 2, True), (390, 1, False)):
        context = browser.new_context(viewport={"width": width, "height": 900})
        tab = context.new_page()
        tab.goto(file.as_uri())
        tab.wait_for_selector("#figure-0-0.drawn", timeout=20_000)
        places = [tab.locator(f"#figure-0-{k}").bounding_box() for k in range(2)]
        assert (places[0]["y"] == places[1]["y"]) == (columns == 2)
        assert ("0.12" in tab.locator("#figure-0-0 .live svg.marks").text_content()) == numbers
        assert tab.locator(".paper").inner_text() == "A paper"
        context.close()


@pytest.fixture(scope="module")
def handed_over(tmp_path_factory):
    """A report with everything that can be drawn."""
    from fairveil.lab.handover.document import Bars, Curves, Document, DocumentSection, TextGrid

    bars = Bars("means", (("a treatment with a very long name indeed", 0.4, 0.1, 0.7), ("b", 0.6, 0.5, 0.7)))
    scores = tuple(0.1 * i for i in range(-20, 21))
    ranks = tuple(i / 40 for i in range(41))
    curves = Curves("ranks", tuple((f"group {g}", scores, ranks, 0.02) for g in range(6)))
    grid = TextGrid(tuple(f"column {i}" for i in range(9)), (("some words",) * 9,))
    sections = [
        DocumentSection("Known", ["A sentence."], [grid], [bars, curves], ["A point."], ["Counts."], ["fairveil run x"])
    ]
    document = Document("A report", "About a study.", "Simulated.", [("epsilon", "1")], sections, "made")
    from fairveil.lab.handover.write import write_document

    return write_document(document, tmp_path_factory.mktemp("handover") / "report.html")


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (360, "dark")])
def test_a_report_to_hand_over_fits_screens_and_paper_without_network_or_script(handed_over, browser, width, theme):
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, java_script_enabled=True
    )
    tab = context.new_page()
    requests = []
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(handed_over.as_uri())
    assert requests == [handed_over.as_uri()]
    assert tab.locator("script").count() == 0
    wide = tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, "nothing is wider than the screen"
    assert tab.locator("svg:visible").count() == 2
    assert all(one.evaluate(FITS) for one in tab.locator("svg:visible, table:visible").all())
    background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (theme == "light")
    tab.emulate_media(media="print")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.locator(".banner").is_visible()
    context.close()


def test_the_report_on_a_loop_is_one_page_in_print_and_its_drawing_is_readable_on_a_phone(browser, tmp_path):
    """A recommender's, from its store: the longest promise of all, and its ledger checked."""
    from fairveil.lab.handover import report_on_store
    from fairveil.lab.handover.write import write_document
    from fairveil.loop import ManualClock, Store

    clock = ManualClock()
    with Store.open(f"sqlite:///{tmp_path}/store.db", clock=clock) as store:
        loop = store.create(
            name="window",
            policy={"name": "batched-priv-fairx", "epsilon": 5.0, "delta": 1e-5, "horizon": 10_000},
            features=[{"name": name, "low": -1, "high": 1} for name in ("price", "newness", "match")],
            reward={"low": 0, "high": 1, "wait": "1s", "missing": "public"},
        )
        for number in range(64):
            loop.decide(f"e-{number}", candidates=[{"features": [0.1 * k, 0.5, 0.2]} for k in range(3)])
            loop.reward(f"e-{number}", 1.0)
        clock.advance(120)
        loop.tick()
        document = report_on_store(store, "window")
    file = write_document(document, tmp_path / "window.html")
    context = browser.new_context(viewport={"width": 360, "height": 800})
    tab = context.new_page()
    tab.goto(file.as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    drawing = tab.locator("svg:visible").first
    assert drawing.evaluate(FITS)
    assert drawing.evaluate("place => 13 * place.getBoundingClientRect().width / place.viewBox.baseVal.width") >= 9
    printed = tab.pdf(prefer_css_page_size=True)
    context.close()
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 1
    assert "rho 0.6286" in dict(document.figures)["budget in all"]


def test_a_picture_fits_a_phone_and_is_not_covered_by_its_own_menu(browser, tmp_path):
    chart = Chart("Regret", "round", "regret", (Line("a", (1.0, 2.0), (3.0, 4.0)),))
    write_picture(draw(chart), tmp_path / "one.html")
    context = browser.new_context(viewport={"width": 360, "height": 800}, color_scheme="dark")
    tab = context.new_page()
    tab.goto((tmp_path / "one.html").as_uri())
    tab.locator(".vega-embed .marks").wait_for()
    assert tab.locator("summary svg").evaluate("place => place.getBoundingClientRect().width") < 40
    assert tab.locator(".vega-embed .marks").evaluate(FITS)
    assert tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    assert "invert" in tab.locator(".vega-embed .marks").evaluate("place => getComputedStyle(place).filter")
    context.close()


def test_no_chart_of_a_result_is_cut_across_pages(browser, tmp_path):
    names = [f"series {k}" for k in range(5)]
    charts = [Chart(name, "round", "regret", (Line("a", (1.0, 2.0), (3.0, 4.0)),)) for name in names]
    write_picture(one_page(charts).properties(title="Result of a run"), tmp_path / "five.html")
    context = browser.new_context()
    tab = context.new_page()
    tab.goto((tmp_path / "five.html").as_uri())
    tab.emulate_media(media="print")
    for figure in tab.locator(".figure").all():
        assert figure.evaluate("place => getComputedStyle(place).breakInside") == "avoid"
        assert figure.bounding_box()["height"] < 360  # three fit on a page
    pages = len(re.findall(rb"/Type\s*/Page\b", tab.pdf(prefer_css_page_size=True)))
    assert pages == 2
    assert tab.locator("h1").inner_text() == "Result of a run"
    context.close()
