"""What parties have in common: messages that are values, inboxes that take each once, releases that are drawn once."""

import numpy as np
import pytest

from fairveil.errors import BudgetError, FairveilError, InputError
from fairveil.federated import Form, Inbox, Message, Party, Receipt, exchange
from fairveil.ledger import Account, Ledger, Limit, release_once
from fairveil.privacy.events import ParallelEvent, PureEvent
from fairveil.privacy.noise import SeededNoise

PROMISE = {"epsilon": 1.0}
FORM = Form(3, {"sum": (2,), "rows": ()}, {"sum": 50.0, "rows": 9.0}, PROMISE, counts=("rows",))
EVENT = ParallelEvent(PureEvent(1.0))


def message(sender=1, sync=0, round=4, promise=PROMISE, **arrays):
    payload = {"sum": np.array([1.0, 2.0]), "rows": np.asarray(4.0), **arrays}
    return Message(sender, sync, round, payload, promise)


def test_counts_are_whole_numbers():
    assert FORM.problem_with(message()) == ""
    for wrong in (2.5, -1.0):
        assert "count" in FORM.problem_with(message(rows=np.asarray(wrong)))
    assert "too large" in FORM.problem_with(message(rows=np.asarray(10.0)))
    assert "wrong shape" in FORM.problem_with(message(rows=4.0))


def test_messages_survive_bytes_and_the_arrays_they_were_made_from():
    array = np.array([1.0, 2.0])
    made = message(sum=array)
    array[:] = 7.0
    there = Message.from_bytes(made.to_bytes())
    assert np.array_equal(there.payload["sum"], [1.0, 2.0])
    assert (there.sender, there.sync, there.round, there.lost, there.guarantee) == (1, 0, 4, False, PROMISE)
    with pytest.raises(TypeError):
        there.payload["sum"] = array
    with pytest.raises(InputError, match="not a message"):
        Message.from_bytes(made.to_bytes().replace(b'"version",2', b'"version",1'))


def test_an_inbox_takes_each_message_once_and_in_order():
    inbox = Inbox(0, 3)

    def take(one):
        return inbox.take(one, FORM, 0, 4, 5)

    assert take(message()).accepted
    assert take(message()) == Receipt(False, "replayed")
    assert take(message(sender=0)).reason == "from this party itself"
    assert take(message(sync=2)).reason == "out of order"
    assert take(message(sender=2, round=3)).reason == "not in the schedule"
    assert inbox.refused == ["replayed", "from this party itself", "out of order", "not in the schedule"]
    assert inbox.complete(0) is None
    inbox.put(message(sender=0))
    assert take(message(sender=2)).accepted
    assert [one.sender for one in inbox.complete(0)] == [0, 1, 2]
    assert inbox.complete(0) is None


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "ledger.db", limit=Limit.covering(EVENT), simulated=True) as opened:
        yield opened


def test_a_release_is_drawn_stored_or_lost(ledger):
    def fails(noise):
        raise RuntimeError("died")

    noise, account = SeededNoise(1), Account(ledger, "node", EVENT, "one policy")
    first = release_once(account, "a", lambda source: int(source.laplace(4.0)[0]), noise)
    again = release_once(account, "a", fails, noise)
    assert (first.fate, again.fate, again.value) == ("drawn", "stored", first.value)
    with pytest.raises(RuntimeError):
        release_once(account, "b", fails, noise)
    assert release_once(account, "b", lambda source: 1, noise).fate == "lost"
    with pytest.raises(BudgetError):
        release_once(Account(ledger, "other", EVENT), "a", lambda source: 1, noise)
    with pytest.raises(FairveilError, match="node"):
        release_once(Account(ledger, "node", EVENT, "another policy"), "c", lambda source: 1, noise)


class Counter(Party):
    """The smallest party: it sends a number and keeps what it gets."""

    def __init__(self, index):
        self.index, self.taken, self.sent = index, [], 0

    def due(self):
        return self.sent == 0

    def send(self, noise=None):
        self.sent += 1
        return message(sender=self.index)

    def receive(self, given):
        self.taken.append(given.sender)
        return Receipt(True)

    def save(self):
        return bytes([self.sent])

    def load(self, data):
        self.sent = data[0]


def test_answering_is_receiving_and_then_sending_what_is_due():
    party = Counter(0)
    assert party.answer([message(), message(sender=2)]).sender == 0
    assert party.taken == [1, 2]
    assert party.answer([]) is None


def test_in_an_exchange_everybody_hears_everybody_else():
    parties = [Counter(i) for i in range(3)]
    assert [one.sender for one in exchange(parties, [None] * 3)] == [0, 1, 2]
    assert [party.taken for party in parties] == [[1, 2], [0, 2], [0, 1]]
