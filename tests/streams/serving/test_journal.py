"""A stream on disk: bound to its options, one process, starts counted."""

import numpy as np
import pytest

from fairveil.errors import LedgerError, PrivacyError
from fairveil.ledger import Ledger
from fairveil.ledger.account import release_once
from fairveil.privacy.noise import SeededNoise
from fairveil.streams import BaselineLaplace, Stream
from fairveil.streams.columns import Columns, exact_limit
from fairveil.streams.protocol import LOST, MISSING
from fairveil.streams.serving.journal import Journal


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
    with pytest.raises(LedgerError, match="other options") as refused:
        place.release(file, *change.get("more", []), **keys)
    assert {"budget": "epsilon = 1.0, not 2.0", "horizon": "horizon = 40, not 41"}.get(next(iter(change)), "") in str(
        refused.value
    )
    assert place.out.read_bytes() == before


def test_the_ledger_of_another_stream_is_refused(place):
    place.release(place.rows(range(6)))
    place.out = place.folder / "other.csv"
    with pytest.raises(LedgerError, match="other options"):
        place.release(place.rows(range(6), header="m"), column="m")
    assert not place.out.exists()


def test_one_of_two_processes_is_refused(place):
    releaser = BaselineLaplace(epsilon=1.0, horizon=5)
    with Ledger.create(place.ledger, limit=exact_limit(releaser)) as ledger:
        stream = Stream(releaser, ledger)
        stream.release(1.0)
        with pytest.raises(LedgerError, match="another process"):
            Stream(releaser, ledger)
        stream.close()
        again = Stream(releaser, ledger)
        assert again.step == 1


def test_steps_that_are_stored_but_were_not_drawn_here_are_not_shown_as_ones_own(place):
    releaser = BaselineLaplace(epsilon=1.0, horizon=5)
    with Ledger.create(place.ledger, limit=exact_limit(releaser)) as ledger:
        stream = Stream(releaser, ledger)
        journal = stream._journal
        stolen = np.zeros((2, 1, 1), np.int64)
        release_once(journal.payer, journal._name(np.array([[1.0]])), lambda noise: stolen, journal.noise)
        with pytest.raises(LedgerError, match="another process took these steps"):
            stream.release(1.0)
        with pytest.raises(LedgerError, match="stopped at an error"):
            stream.release(1.0)


def test_what_was_missing_in_a_lost_block_stays_missing(place):
    columns = Columns.build({"name": "baseline-gaussian", "epsilon": 1.0, "delta": 1e-6, "horizon": 5}, ["n"])
    values = np.array([[1.0], [np.nan], [2.0]])
    with Ledger.create(place.ledger, limit=exact_limit(columns), simulated=True) as ledger:
        journal = Journal(columns, ledger, noise=SeededNoise(1))

        def fails(noise):
            raise RuntimeError("the process ends between charge and draw")

        with pytest.raises(RuntimeError):
            release_once(journal.payer, journal._name(values), fails, journal.noise)
        journal.close()
    with Ledger.open(place.ledger, simulated=True) as ledger:
        again = Journal(columns, ledger, noise=SeededNoise(1))
        assert again.blocks[0].status.ravel().tolist() == [LOST, MISSING, LOST]
        again.close()
