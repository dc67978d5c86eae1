"""Lines that were printed: never changed, checked when a stream goes on."""

import pytest

from fairveil.errors import InputError, LedgerError


def test_last_digits_of_another_processor_do_not_stop_a_stream(place):
    place.release(place.rows(range(10)))
    lines = place.out.read_text().splitlines()
    step, value, *rest = lines[4].split(",")
    near = ",".join([step, repr(float(value) * (1 + 1e-13)), *rest])
    place.out.write_text("\n".join([*lines[:4], near, *lines[5:]]) + "\n")
    place.release(place.rows(range(12)))
    assert place.out.read_text().splitlines()[4] == near
    assert len(place.lines()) == 12
    far = ",".join([step, repr(float(value) + 1.5), *rest])
    place.out.write_text("\n".join([*lines[:4], far, *lines[5:]]) + "\n")
    with pytest.raises(LedgerError, match="not written by this stream"):
        place.release(place.rows(range(12)))


def test_changed_pasts_foreign_ledgers_and_missing_ledgers_are_refused(place, tmp_path):
    timed = ["--time", "ts"]
    place.release(place.rows([f"t{n},{n}" for n in range(6)], header="ts,n"), *timed)
    with pytest.raises(LedgerError, match="times of the input"):
        place.release(place.rows([f"u{n},{n}" for n in range(9)], header="ts,n"), *timed)
    with pytest.raises(InputError, match="shorter"):
        place.release(place.rows([f"t{n},{n}" for n in range(3)], header="ts,n"), *timed)
    before = place.out.read_bytes()
    moved = place.folder / "moved.db"
    place.ledger.rename(moved)
    with pytest.raises(LedgerError, match="ledger"):
        place.release(place.rows([f"t{n},{n}" for n in range(9)], header="ts,n"), *timed)
    assert place.out.read_bytes() == before
    assert not place.ledger.exists()
    moved.rename(place.ledger)
    place.out.write_bytes(before + b"t9,1.0,2.0,3.0,released\n")
    with pytest.raises(LedgerError, match="more lines"):
        place.release(place.rows([f"t{n},{n}" for n in range(9)], header="ts,n"), *timed)
