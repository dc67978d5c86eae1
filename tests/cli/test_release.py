"""`fairveil release`: options, quote and picture."""

import json
from datetime import datetime, timedelta

import pytest
from release_place import Place, run

from fairveil.errors import FairveilError, InputError, LedgerError, SpecError
from fairveil.lab.handover import stream_ledgers
from fairveil.lab.handover.stream_ledgers import StreamRecord, called, courses, stream_of
from fairveil.lab.streams import stream_chart
from fairveil.ledger.verify import releases
from fairveil.streams.columns import Columns
from fairveil.streams.serving.release_run import ReleaseRun

BAD_OPTIONS = {
    "epsilon 0": (["--epsilon", 0, "--delta", 1e-6], "epsilon"),
    "epsilon negative": (["--epsilon", -1, "--delta", 1e-6], "epsilon"),
    "epsilon nan": (["--epsilon", "nan", "--delta", 1e-6], "epsilon"),
    "epsilon inf": (["--epsilon", "inf", "--delta", 1e-6], "epsilon"),
    "epsilon subnormal": (["--epsilon", 1e-310, "--delta", 1e-6], "epsilon"),
    "delta 0": (["--epsilon", 1, "--delta", 0], "delta"),
    "no delta": (["--epsilon", 1], "delta"),
    "no horizon": (["--epsilon", 1, "--delta", 1e-6, "--endless"], "horizon"),
    "window without w": (["--epsilon", 1, "--delta", 1e-6, "--unit", "window"], "window"),
    "participation": (["--epsilon", 1, "--delta", 1e-6, "--participation", 50], "participation"),
    "memory with sequence": (["--epsilon", 1, "--delta", 1e-6, "--memory", 0.5], "memory"),
    "period 1": (["--epsilon", 1, "--delta", 1e-6, "--seasons", "1"], "seasons"),
    "period text": (["--epsilon", 1, "--delta", 1e-6, "--seasons", "2.5"], "seasons"),
    "three periods": (["--epsilon", 1, "--delta", 1e-6, "--seasons", "7,12,24"], "seasons"),
    "phases": (["--epsilon", 1, "--delta", 1e-6, "--seasons", "20000"], "seasons"),
    "range": (["--epsilon", 1, "--delta", 1e-6, "--range", "5,5"], "range"),
    "seed": (["--epsilon", 1, "--delta", 1e-6, "--seed", 3], "seed"),
    "seed 0": (["--epsilon", 1, "--delta", 1e-6, "--seed", 0], "seed"),
    "step without time": (["--epsilon", 1, "--delta", 1e-6, "--step", "1h"], "step"),
    "range and sensitivity": (["--epsilon", 1, "--delta", 1e-6, "--range", "9,0", "--sensitivity", 2], "range"),
    "offline": (["--epsilon", 1, "--releaser", "dft"], "releaser"),
    "no such releaser": (["--epsilon", 1, "--releaser", "magic"], "releaser"),
}


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_json_lines_quote_and_picture(place, capsys):
    run("release", "--column", "n", "--epsilon", 1, "--delta", 1e-6, "--horizon", 9, "--quote", "--json")
    assert json.loads(capsys.readouterr().out)["columns"]["n"]["noise_std"] > 0
    place.release(place.rows(range(9)), "--json", "--plot", place.folder / "picture.svg")
    assert [json.loads(line)["step"] for line in place.out.read_text().splitlines()] == [str(n) for n in range(9)]
    assert (place.folder / "picture.svg").stat().st_size > 1000


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_bad_options_charge_and_write_nothing(place, case):
    budget, path = BAD_OPTIONS[case]
    with pytest.raises(FairveilError) as caught:
        place.release(place.rows(range(5)), budget=tuple(budget))
    assert path in caught.value.path
    assert place.untouched()


def test_a_picture_needs_an_output(place):
    with pytest.raises(SpecError, match="output file"):
        run("release", "--in", place.rows([1]), "--column", "n", "--epsilon", 1, "--delta", 1e-6, "--horizon", 3,
            "--plot", place.folder / "p.svg")  # fmt: skip


def test_a_person_column_needs_a_public_clock():
    with pytest.raises(SpecError) as caught:
        run("release", "--person", "id", "--epsilon", 1, "--delta", 1e-6, "--horizon", 3)
    assert caught.value.path == "time"


def lines(place):
    return place.out.read_text().splitlines()[1:]


def test_an_outlier_inside_a_declared_range_is_clipped_and_its_step_released(place, capsys):
    """1e308 among fives: clipped to the range, released, and ten steps later the line is back at five."""
    values = [5.0] * 30 + [1e308] + [5.0] * 10
    budget = ("--epsilon", 5, "--delta", 1e-6, "--range", "0,10")
    place.release(place.rows(values), "--unit", "event", budget=budget, horizon=50)
    shown = [line.split(",") for line in lines(place)]
    assert len(shown) == len(values)
    assert shown[30][-1] == "released"
    assert abs(float(shown[40][1]) - 5.0) < 10.0  # the noise of a step has standard deviation 9.1
    told = capsys.readouterr().err
    assert "RAW, for you alone: 1 values" in told
    beside = [file.read_bytes() for file in place.folder.iterdir() if file.suffix in (".csv", ".json", ".db")]
    assert not any(b"clipped to it; this" in data for data in beside)


def test_without_a_range_what_the_grid_cannot_carry_is_refused_and_the_steps_before_it_are_there(place):
    values = [5.0] * 30 + [1e308] + [5.0] * 10
    with pytest.raises(InputError, match="larger than the grid"):
        place.release(place.rows(values), horizon=50)
    assert place.untouched()  # a stream that begins with it is not charged
    place.release(place.rows(values[:30]), horizon=50)
    with pytest.raises(InputError) as caught:
        place.release(place.rows(values), horizon=50)
    assert "larger than the grid can carry" in str(caught.value)
    assert "1e+308" not in str(caught.value)
    assert len(lines(place)) == 30
    place.release(place.rows([5.0] * 30 + [""] + [5.0] * 10), horizon=50)  # the cell is emptied: it goes on
    shown = [line.split(",") for line in lines(place)]
    assert shown[30][-1] == "missing"
    reach = float(shown[40][3]) - float(shown[40][2])
    assert abs(float(shown[40][1]) - 5.0) < 3 * reach


def test_whole_numbers_are_printed_as_such(place):
    place.release(place.rows(range(5)), "--round")
    assert all(cell.lstrip("-").isdigit() for line in lines(place) for cell in line.split(",")[1:4])


def test_the_end_says_how_many_lines_where_and_what_it_costs(place, capsys):
    place.release(place.rows(range(5)))
    told = capsys.readouterr().err
    assert "5 lines in" in told
    assert "0 lost" in told
    assert "each number is within" in told
    assert "epsilon" in told.splitlines()[-1]


@pytest.mark.parametrize("moment", ["ledger", "output", "before", "stored", "printed"])
def test_ctrl_c_finishes_what_is_charged_and_loses_nothing(place, moment, monkeypatch):
    """An interrupt between charge and line is heard after the line; the same command goes on without a lost step."""
    heard = []

    def interrupt(run, name):
        if name == moment and not heard:
            heard.append(name)
            run.interrupt()

    made = ReleaseRun.__post_init__

    def with_hook(self):
        made(self)
        self.hook = lambda name: interrupt(self, name)

    monkeypatch.setattr(ReleaseRun, "__post_init__", with_hook)
    place.release(place.rows(range(5)))  # the command line turns the interrupt into its exit code
    assert heard
    ready = lines(place)
    assert len(ready) == (5 if moment in ("before", "stored", "printed") else 0)
    place.release(place.rows(range(8)))
    assert lines(place)[: len(ready)] == ready
    assert all(line.endswith("released") for line in lines(place))
    assert len(lines(place)) == 8


def test_the_picture_has_dates_and_two_scales(tmp_path):
    start = datetime(2024, 1, 1)
    rows = [
        {"when": (start + timedelta(hours=i)).isoformat(), "n": str(i % 24), "n_low": "-5", "n_high": "30"}
        for i in range(2_000)
    ]
    chart = stream_chart(rows, "when", ["n"]).to_dict()
    large, small = chart["vconcat"]
    assert large["layer"][0]["encoding"]["x"]["type"] == "temporal"
    assert large["title"].startswith("private: n")
    assert len(small["layer"][0]["data"]["values"] if "data" in small["layer"][0] else small["data"]["values"]) <= 180
    assert "in whole days" in small["title"]
    drawn = small["layer"][0]["data"]["values"] if "data" in small["layer"][0] else small["data"]["values"]
    assert {row["y"] for row in drawn} == {11.5}, "a mean over a day shows no wave of its own"
    few = stream_chart(rows[:20], "when", ["n"]).to_dict()
    assert "vconcat" not in few


def test_the_sensitivity_of_people_is_computed_and_no_other_is_taken():
    clock = ("--time", "t", "--start", "2024-01-01")
    with pytest.raises(SpecError, match="computed") as caught:
        run("release", "--person", "id", *clock, "--epsilon", 1, "--delta", 1e-6, "--horizon", 3, "--sensitivity", 0.5)
    assert caught.value.path == "sensitivity"


def facts_beside(place):
    return json.loads((place.folder / "private.csv.guarantee.json").read_text())


def test_with_a_declared_sensitivity_a_range_only_guards(place, capsys):
    """The width of the range took the place of the declared number: noise of 400 for counts that move by 1."""
    values, event = [100.0] * 30 + [1e308] + [100.0] * 10, ("--unit", "event")
    budget = ("--epsilon", 1, "--delta", 1e-6, "--sensitivity", 1)
    place.release(place.rows(values), *event, "--range", "0,400", budget=budget, horizon=50)
    told, facts = capsys.readouterr().err, facts_beside(place)
    assert "RAW, for you alone: 1 values" in told
    assert any("declared" in note for note in facts["notes"])
    assert "clipped to [0, 400]" in facts["sensitivity"]
    shown = place.lines()
    assert len(shown) == len(values)
    assert all(row["status"] == "released" for row in shown)
    assert all(abs(float(row["n"]) - 100.0) < 60 for row in shown[:30])  # 11 standard deviations of the plain release
    bare = Place(place.folder / "bare")
    bare.folder.mkdir()
    bare.release(bare.rows(values[:30]), *event, budget=budget, horizon=50)
    assert facts["words"] == facts_beside(bare)["words"]
    with pytest.raises(LedgerError, match="other options") as caught:  # the guard is one of the stream's options
        place.release(place.rows(values), *event, "--range", "0,300", budget=budget, horizon=50)
    assert "guard" in caught.value.path


def test_a_range_narrower_than_the_declared_sensitivity_is_the_bound(place):
    place.release(place.rows(range(5)), budget=("--epsilon", 1, "--delta", 1e-6, "--range", "0,9", "--sensitivity", 20))
    with_both = facts_beside(place)
    assert "clipped" in with_both["notes"][0]
    bare = Place(place.folder / "bare")
    bare.folder.mkdir()
    bare.release(bare.rows(range(5)), budget=("--epsilon", 1, "--delta", 1e-6, "--range", "0,9"))
    assert with_both["words"] == facts_beside(bare)["words"]


PEOPLE = ("--person", "id", "--time", "ts", "--start", "2024-01-01", "--horizon", 3, "--epsilon", 1, "--delta", 1e-6)


def test_a_range_would_clip_the_count_of_all_people_and_is_refused(place):
    file = place.rows([f"2024-01-01T00:05,p{who}" for who in range(100)], header="ts,id")
    with pytest.raises(SpecError, match="count of all people") as caught:
        run("release", "--in", file, *PEOPLE, "--range", "0,3", "--out", place.out, "--ledger", place.ledger)
    assert caught.value.path == "range"
    assert place.untouched()


def test_a_column_that_would_be_left_out_of_a_count_of_people_is_refused(place):
    file = place.rows(["2024-01-01T00:05,ann,abc"], header="ts,id,n")
    places = ("--out", place.out, "--ledger", place.ledger)
    with pytest.raises(SpecError, match="no column is summed") as caught:
        run("release", "--in", file, *PEOPLE, "--column", "n", *places)
    assert caught.value.path == "column"
    assert place.untouched()
    run("release", "--in", file, *PEOPLE, "--column", "visits", *places)  # a name for the count
    assert len(place.lines()) == 3
    assert "visits" in place.lines()[0]


class KilledError(Exception):
    pass


def killed_at_the_second_batch(place, monkeypatch, values, *more):
    """Steps that are charged and never stored: the process stops while it draws."""
    seen = []

    def dying(self, states, rows, noise):
        seen.append(len(rows))
        if len(seen) == 2:
            raise KilledError
        return advance(self, states, rows, noise)

    advance = Columns.advance
    with monkeypatch.context() as patch:
        patch.setattr(Columns, "advance", dying)
        with pytest.raises(KilledError):
            place.release(place.rows(values), *more)
    return seen


def test_lost_steps_are_told_again_by_every_run_and_a_refused_one_tells_nothing_of_the_file(place, monkeypatch, capsys):
    assert killed_at_the_second_batch(place, monkeypatch, range(20), "--batch", 4) == [4, 4]
    for _ in range(2):
        capsys.readouterr()
        place.release(place.rows(range(20)), "--batch", 4)
        assert "20 lines in" in (told := capsys.readouterr().err)
        assert ", 4 lost;" in told
    before = place.out.read_bytes()
    with pytest.raises(LedgerError, match="other options"):
        place.release(place.rows(range(20)), budget=("--epsilon", 2, "--delta", 1e-6))
    told = capsys.readouterr().err
    assert "nothing was released" in told
    assert "stays as it was" in told
    assert "0 lines" not in told
    assert "epsilon 2" not in told
    assert place.out.read_bytes() == before


def test_a_kill_loses_at_most_a_batch_and_the_batch_may_differ_from_run_to_run(place, monkeypatch):
    killed_at_the_second_batch(place, monkeypatch, range(20), "--batch", 1)
    place.release(place.rows(range(20)))
    assert [row["status"] for row in place.lines()].count("lost") == 1


def test_lost_steps_are_not_drawn_like_released_ones():
    kinds = ["released"] * 5 + ["lost"] * 3 + ["released"] * 4
    rows = [{"step": i, "n": "7", "n_low": "1", "n_high": "9", "status": kind} for i, kind in enumerate(kinds)]
    chart = stream_chart(rows, "step", ["n"]).to_dict()
    marked = [layer for layer in chart["layer"] if layer["mark"]["type"] == "point"]
    assert [row["x"] for row in marked[0]["data"]["values"]] == [5, 6, 7]
    assert "rule" in [layer["mark"]["type"] for layer in chart["layer"]], "grey ground from top to bottom"
    assert "lost" in chart["title"]
    lines = [layer for layer in chart["layer"] if layer["mark"]["type"] in ("line", "area")]
    assert len(lines) == 2
    for layer in lines:
        drawn = layer["data"]["values"] if "data" in layer else chart["data"]["values"]
        assert [row["x"] for row in drawn] == [0, 1, 2, 3, 4, 8, 9, 10, 11]
        assert layer["encoding"]["detail"]["field"] == "part"  # nothing joins the steps around lost ones
    assert len({row["part"] for row in drawn}) == 2
    whole = stream_chart([{**row, "status": "released"} for row in rows], "step", ["n"]).to_dict()
    assert "lost" not in whole["title"]


def test_a_report_on_a_stream_says_steps_and_the_promise_in_words(place, monkeypatch):
    hours = ["1", "", "3", "4", "", "6", "7", "8", "9", "10"]  # the second batch of four is lost, less its empty cell
    killed_at_the_second_batch(place, monkeypatch, hours, "--batch", 4, "--participation", 3)
    place.release(place.rows(hours), "--participation", 3)
    statuses = [row["status"] for row in place.lines()]
    assert [statuses.count(kind) for kind in ("released", "lost", "missing")] == [5, 3, 2]
    run("report", place.ledger, "--out", place.folder / "report.md")
    page = (place.folder / "report.md").read_text()
    assert "5 released, 3 lost, 2 missing" in page
    assert "What one person's rows in at most 3 steps change is hidden up to epsilon 1, delta 1e-06" in page
    assert "at most 73% sure" in page
    assert not [word for word in ("policy", "was decided", "decision", "treatment", "rounds") if word in page.lower()]
    assert "- hidden up to: **epsilon 1, delta 1e-06**" in page, "before mu"
    assert "mu^2" not in page.partition("##")[0]


def test_the_picture_in_a_report_on_a_stream_shows_the_lines_of_the_output(place, monkeypatch):
    hours = [str(40 + n) for n in range(30)]
    monkeypatch.setattr(stream_ledgers, "RECENT", 20)
    options = ("--batch", 4, "--participation", 3)
    killed_at_the_second_batch(place, monkeypatch, hours, *options)
    place.release(place.rows(hours), *options)
    stream = stream_of("stream", releases(place.ledger, "stream"))
    shown = {point["x"]: (point["y"], point["low"], point["high"], point["lost"]) for point in stream.shown}
    for step, row in enumerate(place.lines()):
        numbers = tuple(float(row[name]) for name in ("n", "n_low", "n_high"))
        assert shown[step][:3] == pytest.approx(numbers, rel=1e-6)
        assert shown[step][3] == (row["status"] == "lost")
    large, small = courses(stream)
    assert "the last 20 steps" in large.title
    assert "all 30 steps" in small.title
    assert (len(large.lost), len(small.lost)) == (0, 4)
    run("report", place.ledger, "--out", place.folder / "report.html")
    page = (place.folder / "report.html").read_text()
    assert page.count("<svg") == 4  # two pictures, each for a screen and for a phone
    assert page.count('class="ground"') == 2 * 4
    assert "batches of steps, each charged and stored at once" in page


def test_the_whole_of_a_stream_is_drawn_in_days_or_cycles_or_says_what_it_is():
    point = {"name": "n", "low": 0.0, "high": 30.0, "lost": False}
    rows = [{**point, "x": x, "step": x, "y": float((x + 6) % 24)} for x in range(1000)]
    keys = {"columns": ["n"], "step": "1h", "start": "2026-01-01 06:00", "releasers": [{"participation": 3}]}
    stream = StreamRecord("stream", keys, dict.fromkeys(range(3), 0), rows)
    days = courses(stream)[1]
    assert "all 1,000 hours, in whole days" in days.title
    [(_, places, means, *_)] = days.stretches
    assert places[0] == 18, "the first midnight"
    assert set(means) == {11.5}
    cycles = {**keys, "start": None, "releasers": [{"seasons": [24, 168]}]}
    assert "in whole cycles of 24 hours" in courses(stream._replace(keys=cycles))[1].title
    assert "6 hours at a time" in courses(stream._replace(keys={**keys, "start": None}))[1].title


def test_dates_stand_below_a_stream_whose_clock_is_public():
    keys = {"columns": ["n"], "step": "1h", "start": "2026-01-01", "releasers": [{"participation": 3}]}
    point = {"name": "n", "y": 1.0, "low": 0.0, "high": 2.0, "lost": False}
    stream = StreamRecord("stream", keys, dict.fromkeys(range(3), 0), [{**point, "x": x} for x in range(24 * 14)])
    [large] = courses(stream)
    assert [words for _, words in large.ticks][:2] == ["01 Jan", "03 Jan"]
    assert courses(stream._replace(keys={**keys, "start": None}))[0].x_label == "hours since the first"


def test_a_report_on_hours_says_hours():
    stream = StreamRecord(
        "stream", {"columns": ["n"], "step": "1h", "releasers": [{"participation": 3}]}, dict.fromkeys(range(3), 2), []
    )
    assert called([stream]) == "hours"
    assert stream.whose == "what one person's rows in at most 3 hours change"
    assert called([stream, stream._replace(keys={**stream.keys, "step": "15m"})]) == "steps"
