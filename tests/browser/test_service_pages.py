"""The pages of the service in Chromium: one test a sentence of what people do there, with script and without."""

from __future__ import annotations

import contextlib
import json

import pytest
from running_service import listening

from fairveil.loop import ManualClock, Store, tokens
from fairveil.service.app import Service
from fairveil.service.pages.making import JOBS
from fairveil.service.settings import Settings

pytestmark = pytest.mark.browser
WIDE, NARROW = 1280, 360
HOSTILE = "<script>alert(1)</script> with a very long name indeed"
PATIENT = 30_000
SCRIPT = pytest.mark.parametrize("script", [True, False], ids=["script", "no-script"])


class Place:
    """A service on loopback with a clock that is moved by hand."""

    def __init__(self, folder):
        self.clock = ManualClock()
        self.store = Store.open(f"sqlite:///{folder}/store.db", clock=self.clock)
        self.url = ""

    def token(self, *roles):
        with self.store.writing() as tx:
            return tokens.add(tx, " and ".join(roles), list(roles), self.clock.now())

    def trial(self, name, **more):
        policy = {"name": "private-nash", "arms": 2, "epsilon": 1.0}
        table = {"policy": policy, "actions": ["inhaler A", HOSTILE], "reward": {"wait": "7d"}, **more}
        return self.store.create(name, **table)

    def queue(self, name):
        features = [{"name": word, "low": -1.0, "high": 1.0} for word in ("score", "years")]
        policy = {"name": "batched-private-fair-greedy", "epsilon": 5.0, "delta": 1e-6, "first_batch": 20}
        return self.store.create(
            name, policy=policy, groups=["north", HOSTILE], features=features, reward={"wait": "60s"}
        )

    def reported(self, name):
        """Guard rails, a closed option, series, an audit, a report of each kind with a group that means harm."""
        loop = self.trial(
            name, groups=["north", HOSTILE], reports={"spare": 6.0}, targets=[{"name": "uniform"}],
            allocation={"floor": 0.2, "holdout": "inhaler A", "holdout_share": 0.1, "fallback": "inhaler A"},
        )  # fmt: skip
        for index in range(400):
            loop.decide(f"r-{index}", group=["north", HOSTILE][index % 2])
            loop.reward(f"r-{index}", float(index % 3 == 0))
            if index % 100 == 99:
                self.settle()
        loop.release("fairness", first=0, stop=300, epsilon=2.0)
        loop.release("evaluation", first=0, stop=300, epsilon=2.0)
        loop.close_action(HOSTILE)
        claimed = {"epsilon": 1.0, "delta": 0.0}
        found = {"verdict": "consistent", "epsilon_lower": 0.7, "claimed": claimed, "confidence": 0.95, "pair": "a",
                 "statistic": "sums", "hits": [5, 1], "trials": [10, 10]}  # fmt: skip
        with self.store.writing() as tx:
            row = (loop.facts.id, "a-1", '{"target": {"name": "private-nash"}}', "done", json.dumps(found), 0, 1)
            tx.execute("INSERT INTO audits VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        return loop

    def stream(self, folder):
        """As `fairveil release` leaves one, with a column that means harm."""
        rows = [f"{day},{n},{n - 20},{n + 30},released\n" for day in range(30) for n in [300 + 100 * (day % 4)]]
        name = HOSTILE.replace(",", " ")
        (folder / "visits.csv").write_text("".join([f"day,{name},{name}_low,{name}_high,status\n", *rows]))
        promise = {"unit": "one person's window of 7 steps", "epsilon": 1.0, "delta": 1e-6, "notes": ["declared"]}
        (folder / "visits.csv.guarantee.json").write_text(json.dumps({**promise, "words": ["each within 3"]}))
        return str(folder)

    def decide(self, loop, count, start=0):
        for index in range(start, start + count):
            if loop.facts.spec.groups:
                people = [{"group": "north", "features": [0.1 * k, 0.2]} for k in range(3)]
                loop.decide(f"e-{index}", candidates=people)
            else:
                loop.decide(f"e-{index}")
            loop.reward(f"e-{index}", float(index % 3 == 0))

    def settle(self, days=8):
        self.clock.advance(days * 86400)
        self.store.tick()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Open to this machine: no token."""
    made = Place(tmp_path_factory.mktemp("open"))
    done = made.trial("done")
    made.decide(done, 60)
    made.settle()
    done.release("summary")
    made.decide(made.queue("queue"), 30)
    made.settle()
    made.reported("reported")
    made.trial("empty", simulated=True)
    made.trial("over").close()
    streams = made.stream(tmp_path_factory.mktemp("streams"))
    with listening(Service(made.store, Settings(streams=streams))) as url:
        made.url = url
        yield made
    made.store.close()


@pytest.fixture(scope="module")
def shut(tmp_path_factory):
    """With tokens for each role."""
    made = Place(tmp_path_factory.mktemp("shut"))
    made.decide(made.trial("trial"), 30)
    made.settle()
    made.tokens = {role: made.token(role) for role in ("decide", "operate", "audit")}
    with listening(Service(made.store, Settings())) as url:
        made.url = url
        yield made
    made.store.close()


@contextlib.contextmanager
def tab(browser, url, script=True, width=WIDE, theme="light", refusals=False):
    """A page that notes everything it should not do: console messages, errors, requests to elsewhere."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, java_script_enabled=script
    )
    context.set_default_timeout(PATIENT)
    page, wrong = context.new_page(), []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(url + "/") else wrong.append(request.url))
    page.set_default_navigation_timeout(PATIENT)
    yield page
    kept = [words for words in wrong if not (refusals and "the server responded with a status of 4" in words)]
    context.close()
    assert not kept


BEYOND = """width => [...document.querySelectorAll("html, .scroll, .plot text")]
    .filter((one) => (one instanceof HTMLElement && one.scrollWidth > one.clientWidth + 1)
        || one.getBoundingClientRect().right > width + 1)
    .map((one) => one.outerHTML.slice(0, 80))"""


def beyond(page, width):
    """What is moved sideways: the page, a table in it, a name in a chart."""
    return page.evaluate(BEYOND, width)


def log_in(page, url, token, onward="/"):
    page.goto(f"{url}/login?next={onward}")
    page.fill("#token", token)
    page.click("#log-in")


# What people do ------------------------------------------------------------------------------------------------------


@SCRIPT
@pytest.mark.parametrize("job", JOBS)
def test_create_a_loop_with_each_jobs_form_and_see_the_quote_move(place, browser, job, script):
    name = f"made-{job}-{script}".lower()
    with tab(browser, place.url, script) as page:
        page.goto(f"{place.url}/loops/new")
        page.click(f"#job-{job}")
        before = page.text_content("#cost")
        page.fill("#epsilon", "3")
        if not script:
            page.click("#show-price")
        if script:
            page.wait_for_function("before => document.getElementById('cost').textContent !== before", arg=before)
        assert page.text_content("#cost") != before
        assert page.input_value("#epsilon") == "3"
        page.fill("#name", name)
        page.click("#create")
        page.wait_for_url(f"**/loops/{name}")
        assert "Nothing is published yet" in page.text_content("#verdict")
    assert place.store.loop(name).facts.policy.epsilon == 3.0


@SCRIPT
def test_watch_decisions_settlement_and_a_release(place, browser, script):
    loop = place.trial(f"watched-{script}".lower())
    with tab(browser, place.url, script) as page:
        page.goto(f"{place.url}/loops/{loop.name}")
        assert page.text_content("#decided") == "0"

        def seen(id, words):
            if script:
                same = "([id, words]) => document.getElementById(id).textContent === words"
                page.wait_for_function(same, arg=[id, words])
            else:
                page.reload()
            assert page.text_content(f"#{id}") == words

        def drawn(why, charts):
            if script:
                done = "count => document.querySelectorAll('figure.chart.drawn svg').length === count"
                page.wait_for_function(done, arg=charts)
            assert page.locator("figure.chart.drawn svg").count() == (charts if script else 0), why

        place.decide(loop, 50)
        seen("decided", "50")
        assert page.text_content("#open") == "50"
        place.settle()
        seen("open", "0")
        assert int(page.text_content("#version")) >= 1
        assert "looks best" in page.text_content("#verdict") or "is best" in page.text_content("#verdict")
        drawn("one of the last release: nothing is drawn over a single round", 1)
        place.decide(loop, 50, start=50)
        seen("decided", "100")
        place.settle()
        seen("open", "0")
        drawn("and three over rounds", 4)
        assert page.locator("table tbody tr").first.is_visible()
        assert page.locator("figcaption").first.is_visible() == script, "captions stand beside charts alone"


@SCRIPT
def test_release_with_its_price(place, browser, script):
    loop = place.trial(f"released-{script}".lower())
    with tab(browser, place.url, script) as page:
        page.goto(f"{place.url}/loops/{loop.name}")
        assert "Price: nothing" in page.text_content(".operate")
        page.click("#release-summary")
        page.wait_for_url("**/releases/summary-0-0")
        assert "nothing: it is made of published numbers" in page.text_content("main")
        with page.expect_download() as csv:
            page.click("#as-csv")
        assert csv.value.suggested_filename == f"{loop.name}-summary-0-0.csv"


def reports(place, name, spare):
    """A trial with 60 settled places and so much kept for reports by hand."""
    loop = place.trial(name, groups=["north", "south"], reports={"spare": spare})
    for index in range(60):
        loop.decide(f"s-{index}", group=["north", "south"][index % 2])
        loop.reward(f"s-{index}", 1.0)
    place.settle()
    return f"{place.url}/loops/{name}"


def ask(page, first, stop, amount, button):
    for field, value in (("#first", first), ("#stop", stop), ("#amount", amount)):
        page.fill(field, value)
    page.click(button)


@SCRIPT
def test_make_a_report(place, browser, script):
    url = reports(place, f"told-{'with' if script else 'without'}", 2.0)
    with tab(browser, place.url, script=script) as page:
        page.goto(url)
        assert "1 report with every rate within" in " ".join(page.inner_text("#live-budget").split())
        ask(page, "0", "40", "1.5", "#price-report")
        page.wait_for_selector("#price")
        assert page.inner_text("#price").startswith("Half-width at a rate of .5: north")
        assert "It costs epsilon 1.5" in page.inner_text("#price")
        page.click("#release-report")
        page.wait_for_url("**/releases/report-fairness-0-40")
        assert "epsilon 1.5" in page.inner_text("dl.facts")
        page.goto(url)
        assert page.locator("#fairness a").get_attribute("href").endswith("report-fairness-0-40")


@SCRIPT
def test_exhaust_spare_and_see_the_refusal(place, browser, script):
    """2 are kept: 1.5 fits once, 1 more does not, and nothing is charged for asking."""
    url = reports(place, f"spare-{'with' if script else 'without'}", 2.0)
    with tab(browser, place.url, script=script, refusals=True) as page:
        page.goto(url)
        ask(page, "0", "40", "1.5", "#release-report")
        page.wait_for_url("**/releases/report-fairness-0-40")
        page.goto(url)
        ask(page, "40", "60", "1", "#release-report")
        page.wait_for_selector("#problem")
        assert "budget" in page.inner_text("#problem").lower()
        assert len(page.query_selector_all("#live-releases a")) == 1
        ask(page, "40", "60", "0.5", "#release-report")
        page.wait_for_url("**/releases/report-fairness-40-60")
        page.goto(url)
        assert "no release by hand is left" in page.inner_text("#left")


@SCRIPT
def test_pause_close_an_option_and_see_the_shares(place, browser, script):
    name = f"rails-{'with' if script else 'without'}"
    loop = place.trial(name, allocation={"floor": 0.2, "fallback": "inhaler A"})
    for index in range(20):
        loop.decide(f"p-{index}")
    with tab(browser, place.url, script=script) as page:
        page.goto(f"{place.url}/loops/{name}")
        assert page.inner_text("#shares-fit") == "They fit."
        page.click("#other-modes summary")
        page.click("#mode-paused")
        page.wait_for_selector("#thaw")
        assert loop.decide("in-pause").action_id == "inhaler A"
        page.select_option("#action", HOSTILE)
        page.click("#close-action")
        page.wait_for_selector(".state.closed")
        assert loop.status().mode == "paused"


@SCRIPT
def test_freeze_and_thaw(place, browser, script):
    loop = place.trial(f"frozen-{script}".lower())
    with tab(browser, place.url, script) as page:
        page.goto(f"{place.url}/loops/{loop.name}")
        page.click("#freeze")
        page.wait_for_selector("#thaw")
        assert loop.status().mode == "frozen"
        assert page.locator("#live-state").inner_text() == "frozen"
        page.click("#thaw")
        page.wait_for_selector("#freeze")
        assert loop.status().mode == "online"


@SCRIPT
@pytest.mark.parametrize("role", ["decide", "operate", "audit"])
def test_log_in_and_out_with_each_role(shut, browser, role, script):
    with tab(browser, shut.url, script, refusals=True) as page:
        page.goto(f"{shut.url}/")
        assert page.title().startswith("Log in")
        page.fill("#token", "fv_wrong")
        page.click("#log-in")
        assert "No valid token" in page.text_content("#problem")
        page.fill("#token", shut.tokens[role])
        page.click("#log-in")
        links = page.locator("nav[aria-label=pages] a").all_inner_texts()
        if role == "decide":
            assert "for a program" in page.text_content("#problem")
        else:
            assert page.locator("h1").inner_text() == "Loops"
            assert ("New loop" in links, "Ledgers" in links) == (role == "operate", role == "audit")
        page.click("#log-out")
        page.wait_for_url("**/login")
        page.goto(f"{shut.url}/loops/trial")
        assert page.title().startswith("Log in")


@SCRIPT
def test_a_session_that_ends_keeps_the_form(shut, browser, script):
    text = shut.token("operate")
    with tab(browser, shut.url, script, refusals=True) as page:
        log_in(page, shut.url, text, "/loops/new?job=trial")
        page.fill("#name", "written-long-ago")
        with shut.store.writing() as tx:
            tokens.revoke(tx, text.split("_")[1], shut.clock.now())
        page.click("#create")
        page.wait_for_selector("#kept")
        page.fill("#token", shut.tokens["operate"])
        page.click("#log-in")
        assert "Nothing was sent" in page.text_content("#notice")
        assert page.input_value("#name") == "written-long-ago"
        if script:
            return
        page.click("#create")
        page.wait_for_url("**/loops/written-long-ago")


def test_keyboard_only(place, browser):
    """From the list to a new loop and its freezing: tabulator, enter and space."""
    with tab(browser, place.url) as page:
        page.goto(f"{place.url}/")

        def reach(id):
            for _ in range(60):
                page.keyboard.press("Tab")
                if page.evaluate("document.activeElement.id") == id:
                    return
            raise AssertionError(f"{id} cannot be reached")

        reach("new-loop")
        page.keyboard.press("Enter")
        page.wait_for_selector("#job-trial")
        reach("job-trial")
        page.keyboard.press("Enter")
        page.wait_for_selector("#name")
        reach("name")
        page.keyboard.type("by-keyboard")
        reach("create")
        page.keyboard.press("Space")
        page.wait_for_selector("#freeze")
        reach("freeze")
        page.keyboard.press("Enter")
        page.wait_for_selector("#thaw")
    assert place.store.loop("by-keyboard").status().mode == "frozen"


def test_fragments_keep_focus_and_open_disclosures(place, browser):
    loop = place.trial("focused")
    with tab(browser, place.url) as page:
        page.goto(f"{place.url}/loops/focused")
        page.click("#ledger-details summary")
        page.fill("#subject", "half written")
        place.decide(loop, 5)
        page.wait_for_function("() => document.getElementById('decided').textContent === '5'")
        assert page.evaluate("document.getElementById('ledger-details').open")
        assert page.input_value("#subject") == "half written"
        assert page.evaluate("document.activeElement.id") == "subject"


# How it looks --------------------------------------------------------------------------------------------------------

PATHS = [
    "/", "/?state=closed", "/loops/done", "/loops/queue", "/loops/empty", "/loops/over", "/loops/reported",
    "/loops/new", "/loops/reported/releases/report-fairness-0-300",
    "/loops/reported/releases/report-evaluation-0-300", "/loops/reported/audits/a-1", "/loops/new?job=trial",
    "/loops/new?job=screening", "/loops/new?job=recommender", "/ledgers", "/ledgers/done", "/trail",
    "/tokens", "/status", "/docs/kept", "/login", "/loops/none", "/nowhere", "/streams", "/streams/visits.csv",
]  # fmt: skip


def release_path(place):
    return f"/loops/done/releases/{place.store.loop('done').release('summary')['id']}"


def serious(page):
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]


LOOKS = pytest.mark.parametrize(("theme", "width"), [("light", WIDE), ("dark", WIDE), ("light", NARROW)])


def look(page, what, width):
    """Axe finds nothing serious, with every disclosure open, and nothing is cut off."""
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    found = serious(page)
    assert not found, (what, found)
    assert not beyond(page, width), (what, width)


@LOOKS
def test_axe_finds_nothing_serious_and_nothing_is_cut_off(place, browser, theme, width):
    """Every page of an open service; empty and simulated loops among them."""
    with tab(browser, place.url, width=width, theme=theme, refusals=True) as page:
        for path in [*PATHS, release_path(place)]:
            page.goto(place.url + path)
            look(page, path, width)


@LOOKS
@pytest.mark.parametrize("role", ["decide", "operate", "audit"])
def test_axe_in_every_role_and_when_refused(shut, browser, role, theme, width):
    """Pages of each role, the 403 of the others, a form that is refused."""
    with tab(browser, shut.url, width=width, theme=theme, refusals=True) as page:
        log_in(page, shut.url, shut.tokens[role])
        for path in ("/", "/loops/trial", "/loops/new", "/ledgers", "/ledgers/trial", "/trail", "/tokens", "/status"):
            page.goto(shut.url + path)
            look(page, (role, path), width)
        if role == "operate":
            page.goto(f"{shut.url}/loops/new?job=trial")
            page.fill("#epsilon", "much")
            page.click("#create")
            page.wait_for_selector("#epsilon-wrong")
            look(page, "a refused form", width)


@LOOKS
def test_axe_when_a_loop_was_closed_meanwhile_and_when_nothing_is_there(place, shut, browser, tmp_path, theme, width):
    """The page of a refused release (409), of a loop that is closed (410), of a service without a loop."""
    loop = place.trial(f"gone-{theme}-{width}", groups=["north", "south"], reports={"spare": 0.5})
    with tab(browser, place.url, width=width, theme=theme, refusals=True) as page:
        page.goto(f"{place.url}/loops/{loop.name}")
        ask(page, "0", "40", "1.5", "#release-report")
        page.wait_for_selector("#problem")
        look(page, "a refused release", width)
        loop.close()
        with page.expect_navigation() as seen:
            page.click("#freeze")
        assert seen.value.status == 410
        look(page, "410", width)
    bare = Place(tmp_path)
    with listening(Service(bare.store, Settings())) as url, tab(browser, url, width=width, theme=theme) as page:
        for path in ("/", "/ledgers", "/trail"):
            page.goto(url + path)
            look(page, f"empty {path}", width)
    bare.store.close()


def test_no_request_leaves_the_origin_and_no_console_message(place, browser):
    """`tab` notes both; here on every page that is no refusal."""
    with tab(browser, place.url) as page:
        for path in [*PATHS, release_path(place)]:
            if path not in ("/loops/none", "/nowhere"):
                page.goto(place.url + path)


def test_every_figure_is_drawn_and_series_have_a_line_at_each_release(place, browser):
    with tab(browser, place.url) as page:
        for kind in ("fairness", "evaluation"):
            page.goto(f"{place.url}/loops/reported/releases/report-{kind}-0-300")
            page.wait_for_selector("#chart-release.drawn svg")
        page.goto(f"{place.url}/loops/reported")
        page.wait_for_selector("#chart-series-3.drawn svg")
        lines = page.eval_on_selector_all("#chart-series-1 svg [stroke-opacity='0.25'] line", "all => all.length")
        told = json.loads(page.get_attribute("#chart-series-1", "data-figure"))
        assert lines == len(told["releases"]) >= 4
        assert len(page.query_selector_all("figure.chart")) == len(page.query_selector_all("figure.chart.drawn"))


def test_the_axis_of_a_chart_has_the_numbers_of_its_data(place, browser):
    with tab(browser, place.url) as page:
        page.goto(f"{place.url}/streams/visits.csv")
        page.wait_for_selector("#chart-stream.drawn svg")
        ticks = page.eval_on_selector_all(
            "#chart-stream [aria-label='y-axis tick label'] text", "all => all.map(one => one.textContent)"
        )
        assert {"300", "400", "500", "600"} <= set(ticks)


def test_csp_without_unsafe_inline(place, browser):
    with tab(browser, place.url, refusals=True) as page:
        for path in PATHS:
            policy = page.goto(place.url + path).headers["content-security-policy"]
            assert "unsafe" not in policy, path
            assert "default-src 'self'" in policy
        page.goto(f"{place.url}/loops/done")
        page.wait_for_selector("figure.chart.drawn svg")


def test_print_shows_the_numbers_and_no_controls(place, browser):
    with tab(browser, place.url) as page:
        page.goto(f"{place.url}/loops/done")
        page.wait_for_selector("figure.chart.drawn svg")
        page.emulate_media(media="print")
        assert not page.locator(".operate").is_visible()
        assert not page.locator("nav[aria-label=pages]").is_visible()
        assert page.locator("table").first.is_visible()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_tables_stand_when_the_chart_script_does_not_load(place, browser):
    with tab(browser, place.url, refusals=True) as page:
        page.route("**/plot.js*", lambda route: route.fulfill(status=404, body=""))
        page.goto(f"{place.url}/loops/done")
        page.wait_for_load_state("networkidle")
        assert page.locator("figure.chart.drawn").count() == 0
        assert page.locator("table tbody tr").first.is_visible()
