"""The page about a classifier: accuracy, gaps with the groups named, rates with intervals, and whose they are."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import fairveil
from fairveil import Ledger
from fairveil.classify.estimator import PrivateLogisticRegression
from fairveil.classify.fair.estimator import PrivateFairClassifier
from fairveil.errors import InputError, SpecError
from fairveil.lab.handover import report_on_classifier, report_on_ledger, report_on_result, write_document
from fairveil.lab.handover.classifiers import asked_and_kept, gap_between
from fairveil.lab.handover.write import to_markdown
from fairveil.privacy.limits import Limit

SPEC = {
    "task": "classify",
    "learner": {"name": "private-fair", "epsilon": 2.0, "rounds": 20},
    "data": {"name": "synthetic-adult", "sensitive": ["sex"], "rows": 3000},
}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    group = rng.choice(["f", "m"], 4000)
    x = np.stack([rng.normal(size=4000), group == "f"], axis=1)
    return x, np.where(x[:, 0] + 0.5 * x[:, 1] + rng.normal(size=4000) > 0.5, "yes", "no"), group


def fair(**options):
    given = {"epsilon": 2.0, "norm_bound": 2.0, "groups": ("f", "m"), "classes": ("no", "yes"), "rounds": 20}
    return PrivateFairClassifier(**given | options)


def section(document, words):
    return next(one for one in document.sections if words in one.title)


def test_a_result_says_accuracy_gaps_and_rates_and_whose_they_are():
    result = fairveil.run(SPEC)
    document = report_on_result(result)
    assert "invented" in document.banner
    decides, rates = section(document, "Known because"), section(document, "Rates")
    assert "Lab numbers" in decides.marked
    assert f"{result['metrics']['accuracy']:.1%}" in decides.text[0]
    [asked] = [row for row in decides.grids[0].rows if "asked for" in row[0]]
    assert asked[0].startswith("equal opportunity")
    assert set(asked[3:]) == {"Female", "Male"}
    assert [row[0] for row in rates.grids[0].rows] == ["Female", "Male"]
    assert " to " in rates.grids[0].rows[0][2]
    said = section(document, "about itself")
    assert "Private" in said.text[0]
    assert f"{1 - result['metrics']['estimated']['error']:.1%}" in said.text[1]


@pytest.mark.parametrize(
    ("slack", "low", "high", "verdict"),
    [
        (0.1, 0.0, 0.079, "Met: the gap is between 0 and 0.079"),
        (0.05, 0.0, 0.079, "Neither met nor missed for sure"),
        (0.05, 0.06, 0.079, "Not met: the gap is between 0.06 and 0.079"),
        (0.0, 0.0015, 0.079, "Not met exactly: the gap is between 0.0015 and 0.079 (95% interval), so there is one"),
        (0.0, 0.0, 0.079, "Neither met nor missed for sure"),
    ],
)
def test_a_page_says_what_was_asked_and_whether_it_is_met(slack, low, high, verdict):
    asked, said = asked_and_kept("equal-opportunity", slack, (0.07, low, high, "f", "m"))
    assert said.startswith(verdict)
    assert f"at most {slack:g}" in asked if slack else "slack 0" in asked
    assert "does not promise" in asked


def test_what_was_asked_stands_beside_its_gap_and_people_are_whole(people):
    x, y, group = people
    model = fair(slack=0.5).fit(x, y, sensitive_features=group)
    document = report_on_classifier(model)
    text = section(document, "How well").text
    assert any(words.startswith("Asked for: equal opportunity, with a gap of at most 0.5") for words in text)
    assert any(words.startswith("Met: ") for words in text)
    assert all("." not in row[1] for row in section(document, "Rates").grids[0].rows)


def test_held_out_people_who_are_recorded_stay_out_of_a_report_with_a_promise():
    result = fairveil.run(SPEC)
    recorded = {**result, "spec": {**result["spec"], "data": {**result["spec"]["data"], "name": "adult"}}}
    recorded["metrics"] = {**result["metrics"], "accuracy": 0.123456, "error": 0.876544}
    document = report_on_result(recorded)
    assert "Do not hand this out" in document.banner
    assert "12.3%" not in to_markdown(document)
    assert section(document, "Rates").withheld
    bare = to_markdown(report_on_result({**recorded, "guarantee": None}))
    assert "Raw: counted on people as they are" in bare
    assert "12.3%" in bare


def test_a_fitted_pipeline_is_written_as_a_page_in_one_line(people, tmp_path):
    x, y, group = people
    model = make_pipeline(FunctionTransformer(), fair())
    model[-1].fit(x, y, sensitive_features=group)
    page = write_document(report_on_classifier(model), str(tmp_path / "model.html")).read_text()
    assert "<svg" in page
    document = report_on_classifier(model)
    assert document.banner == ""
    text, report = to_markdown(document), model[-1].report_
    assert f"accuracy: **{1 - report['error']:.1%}**" in text
    assert "yes (positive: accepted), no" in text
    assert "Protected is one person's row" in text
    for row, notion in zip(section(document, "How well").grids[0].rows, report["discrimination"], strict=True):
        assert float(row[1]) == pytest.approx(report["discrimination"][notion], rel=0.01)


def test_seeded_fits_and_fits_without_rates_say_so(people):
    x, y, group = people
    seeded = fair(random_state=0).fit(x, y, sensitive_features=group)
    assert "protects nobody" in report_on_classifier(seeded).banner
    assert seeded.report_.kind == "simulated"
    plain = report_on_classifier(PrivateLogisticRegression(epsilon=1.0, norm_bound=2.0).fit(x, y))
    assert section(plain, "How well").withheld
    with pytest.raises(SpecError, match="fit it first"):
        report_on_classifier(fair())


def test_the_chart_of_a_report_says_epsilon_and_the_unit(people):
    x, y, group = people
    title = fair().fit(x, y, sensitive_features=group).report_.plot().to_dict()["title"]
    assert "eps = 2" in title
    assert "one person's row" in title


def test_labels_that_are_words_are_refused_with_what_to_write(people):
    x, y, group = people
    with pytest.raises(InputError, match=r'positive one second: classes=\("no", "yes"\)'):
        fair(classes=(0, 1)).fit(x, y, sensitive_features=group)


def test_a_ledger_of_fits_speaks_of_fits(people, tmp_path):
    x, y, group = people
    with Ledger.create(tmp_path / "loans.db", limit=Limit.approximate(4.0, 1e-3, currency="epsilon")) as ledger:
        fair(ledger=ledger).fit(x, y, sensitive_features=group)
        PrivateLogisticRegression(epsilon=0.5, norm_bound=2.0, ledger=ledger, retrainings=2).fit(x, y)
    document = report_on_ledger(tmp_path / "loans.db")
    text = to_markdown(document)
    for word in ("--policy", "round", "treatment", "Protected is the unit"):
        assert word not in text
    assert "2 fits" in text
    assert [row[1:] for row in section(document, "What was fitted").grids[0].rows] == [
        ("one fit", "epsilon 2, delta 0.00001"),
        ("a plan of 2 fits", "epsilon 0.5, delta 0.00001"),
        ("one fit", "paid by its plan"),
    ]
    assert "Protected is one person's row" in text


def test_limits_of_a_gap_hold_the_true_gap():
    """Two rates 0.1 apart, measured with normal error: both limits together miss in about 5 of 100 cases."""
    rng, held, trials = np.random.default_rng(1), 0, 2000
    for a, b in zip(rng.normal(0.5, 0.03, trials), rng.normal(0.4, 0.02, trials), strict=True):
        rates = {
            name: {"r": rate, "r_low": rate - 1.96 * std, "r_high": rate + 1.96 * std}
            for name, rate, std in (("a", a, 0.03), ("b", b, 0.02))
        }
        _, low, high, _, _ = gap_between(rates, ("r",))
        held += low <= 0.1 <= high
    assert 0.94 <= held / trials <= 0.985


def test_a_gap_needs_two_known_groups():
    known = {"r": 0.5, "r_low": 0.4, "r_high": 0.6}
    assert gap_between({"a": known, "b": {"r": None, "r_low": 0.0, "r_high": 1.0}}, ("r",)) is None
