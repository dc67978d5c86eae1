"""Events as both databases take and give them: every value back as it went in, whatever many there are at once."""

from __future__ import annotations

import pytest

from fairveil.loop.events import Event

HOSTILE = ["NULL", 'a"b', "back\\slash", "{curly,comma}", "", " ", "'; DROP TABLE events; --", "ä\n☃"]


def event(loop, number, **more):
    key = bytes([number, 0, 92, 34, 255, *range(11)])
    made = Event(loop, key, b"\\x00\"'", number, 5, 2**62, 1, 1 / 3, 0, "online", "pending", None, None, None)
    return made._replace(queue=0, **more)


@pytest.mark.parametrize("count", [1, 15, 16, 17, 40])
def test_values_come_back_as_they_went_in(loop, store, count):
    rows = [event(loop.facts.id, number, reason=HOSTILE[number % len(HOSTILE)]) for number in range(count)]
    rows[0] = rows[0]._replace(context=bytes(range(256)), body=None, activated=0, propensity=5e-324, learn="never")
    with store.writing() as tx:
        tx.insert_events(rows)
        known = tx.events(loop.facts.id, [row.key for row in rows[::-1]] + [b"nobody"])
        assert known == {row.key: tuple(row) for row in rows}
        assert tx.events(loop.facts.id, []) == tx.events(loop.facts.id + 1, [rows[0].key]) == {}


def test_rewards_and_seats_of_many(loop, store):
    rows = [event(loop.facts.id, number) for number in range(20)]
    rewards = [
        (row.key, None if row.round % 3 else 0.1 + row.round, 7, None if row.round % 2 else row.round) for row in rows
    ]
    with store.writing() as tx:
        tx.insert_events(rows)
        tx.set_rewards(loop.facts.id, rewards)
        tx.set_seats(loop.facts.id, [(row.key, row.round) for row in rows if row.round % 2])
        found = tx.events(loop.facts.id, [row.key for row in rows])
    for row, (_, value, time, _) in zip(rows, rewards, strict=True):
        made = Event(*found[row.key])
        assert (made.reward, made.rewarded, made.seat) == (value, time, row.round)
