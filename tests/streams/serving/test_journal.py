"""A stream on disk: bound to its options, one process, starts counted."""

import pytest

from fairveil.errors import LedgerError, PrivacyError
from fairveil.ledger import Ledger
from fairveil.streams import BaselineLaplace, Stream


def test_starts_that_were_paid_for_run_out(place):
    more = ["--neighbours", "add-remove", "--starts", 2]
    for size in (5, 10):
        place.release(place.rows(range(size)), *more)
    with pytest.raises(PrivacyError, match="starts"):
        place.release(place.rows(range(15)), *more)
    assert len(place.lines()) == 10


@pytest.mark.parametrize(
    "change",
    [
        {"budget": ("--epsilon", 2, "--delta", 1e-6)},
        {"more": ["--seasons", "7"]},
        {"header": "n,extra"},
        {"horizon": 41},
    ],
    ids=["budget", "seasons", "header", "horizon"],
)
def test_other_options_on_an_old_ledger_are_refused(place, change):
    place.release(place.rows(range(10)))
    before = place.out.read_bytes()
    rows = range(12) if "header" not in change else [f"{n},1" for n in range(12)]
    file = place.rows(rows, header=change.get("header", "n"))
    keys = {key: change[key] for key in ("budget", "horizon") if key in change}
    with pytest.raises(LedgerError, match="other options"):
        place.release(file, *change.get("more", []), **keys)
    assert place.out.read_bytes() == before


def test_the_ledger_of_another_stream_is_refused(place):
    place.release(place.rows(range(6)))
    place.out = place.folder / "other.csv"
    with pytest.raises(LedgerError, match="other options"):
        place.release(place.rows(range(6), header="m"), column="m")
    assert not place.out.exists()


def test_one_of_two_processes_is_refused(place):
    from fairveil.streams.columns import exact_limit

    releaser = BaselineLaplace(epsilon=1.0, horizon=5)
    with Ledger.create(place.ledger, limit=exact_limit(releaser)) as ledger:
        stream = Stream(releaser, ledger)
        stream.release(1.0)
        with pytest.raises(LedgerError, match="another process"):
            Stream(releaser, ledger)
        stream.close()
        again = Stream(releaser, ledger)
        assert again.step == 1
