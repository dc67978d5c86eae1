"""Backups that are put back, parties that lie, plans and ledgers of others: what a federation does not fall for."""

import json
import resource
import shutil

import pytest
from federations import host_of, keys, plan_of, run

from fairveil.errors import InputError, LedgerTampered, PrivacyError, SpecError
from fairveil.federated import Coordinator, Inline, Member, Message, Plan, drive
from fairveil.federated.coordinator import note_retired
from fairveil.federated.journal import StatementLog, read_statements
from fairveil.federated.wire import CLOSE, HELLO, LOST, MASKED, MESSAGE, READY, RETIRE, Answer, LogPart, Statement
from fairveil.privacy.noise import SeededNoise

KINDS = [(kind, sums) for kind in ("exposure", "consensus") for sums in ("own", "secure")]


def draws(folder):
    """Blocks that a party has drawn, as its ledger knows them."""
    from fairveil.ledger import Ledger

    with Ledger.open(folder / "ledger.db", simulated=True) as ledger:
        return sum(entry["kind"] == "publish" for entry in ledger.entries())


class Restored:
    """Three parties of which the last is put back to a copy of its folder."""

    def __init__(self, folder, **facts):
        self.plan, self.folder = plan_of(**facts), folder
        self.hosts = [host_of(self.plan, index, folder) for index in range(3)]
        self.coordinator = Coordinator(self.plan, folder / "coordinator")

    def turn(self, parties=(0, 1, 2)):
        for party in parties:
            self.coordinator.take(party, self.hosts[party].answer(self.coordinator.ask(party)), 0.0)

    def turns_until(self, sync):
        while self.coordinator.sync < sync:
            self.turn()

    def back_up(self):
        self.hosts[2].close()
        shutil.copytree(self.folder / "south", self.folder / "backup")
        self.hosts[2] = host_of(self.plan, 2, self.folder)

    def restore(self):
        self.hosts[2].close()
        shutil.rmtree(self.folder / "south")
        shutil.copytree(self.folder / "backup", self.folder / "south")
        self.hosts[2] = host_of(self.plan, 2, self.folder)

    def close(self):
        for one in (*self.hosts, self.coordinator):
            one.close()


@pytest.mark.parametrize("earlier", [0, 1])
@pytest.mark.parametrize("kind, sums", KINDS)
def test_a_party_from_a_backup_draws_nothing_again_for_what_it_has_sent(kind, sums, earlier, tmp_path):
    made = Restored(tmp_path, kind=kind, sums=sums)
    made.turn()
    made.turns_until(earlier)
    made.back_up()
    before = draws(tmp_path / "backup")
    made.turns_until(earlier + 1)
    made.restore()
    words = []
    for _ in range(4):
        answer = made.hosts[2].answer(made.coordinator.ask(2))
        made.coordinator.take(2, answer, 0.0)
        words.append(Answer.from_bytes(answer).word)
    assert words[-1] == "refused: privacy"
    assert "its ledger does not know" in made.hosts[2].last_refusal
    made.close()
    assert draws(tmp_path / "south") == before
    places = [entry.place for entry in made.coordinator.journal.entries]
    assert len(places) == len(set(places))


@pytest.mark.parametrize("sums", ["own", "secure"])
def test_a_close_without_the_party_from_a_backup_does_not_put_its_rows_into_a_second_message(sums, tmp_path):
    """The coordinator leaves the restored party's numbers out, so that nothing of them need be in its ledger."""
    made = Restored(tmp_path, sums=sums, quorum=2)
    made.turn()
    made.back_up()
    made.turns_until(1)
    said = [entry for entry in made.coordinator.journal.entries if entry.purpose not in (CLOSE, "union")]
    lie = Statement(CLOSE, -1, 0, json.dumps({"present": [0, 1]}).encode())
    made.restore()
    host = made.hosts[2]
    log = (*[entry for entry in said if entry.sync == 0], lie)[host.position :]
    part = LogPart(made.plan.fingerprint(), host.position, host.position + len(log), log)
    answer = Answer.from_bytes(host.answer(part.to_bytes()))
    assert answer.word == "refused: privacy"
    assert answer.says == ()
    made.close()
    assert draws(tmp_path / "south") == 0


@pytest.mark.parametrize("kind, sums", KINDS)
def test_an_anchor_refuses_the_backup_whatever_the_coordinator_says(kind, sums, tmp_path):
    """Without the log nobody knows that a block was sent; a mark outside of the backup does."""
    made = Restored(tmp_path, kind=kind, sums=sums)
    made.hosts[2].close()
    shutil.rmtree(tmp_path / "south")
    anchor = tmp_path / "elsewhere" / "south.anchor"
    anchor.parent.mkdir()
    made.hosts[2] = host_of(made.plan, 2, tmp_path, anchor=anchor)
    made.turn()
    made.hosts[2].close()
    shutil.copytree(tmp_path / "south", tmp_path / "backup")
    made.hosts[2] = host_of(made.plan, 2, tmp_path, anchor=anchor)
    made.turns_until(1)
    made.hosts[2].close()
    shutil.rmtree(tmp_path / "south")
    shutil.copytree(tmp_path / "backup", tmp_path / "south")
    with pytest.raises(LedgerTampered):
        host_of(made.plan, 2, tmp_path, anchor=anchor)
    made.close()


def test_a_log_that_was_cut_off_makes_nobody_draw_again(tmp_path):
    plan = plan_of(sums="secure")
    coordinator, _ = run(plan, tmp_path)
    file, count = tmp_path / "coordinator" / "log", len(coordinator.journal.entries)
    before = [draws(tmp_path / name) for name in ("north", "east", "south")]
    place = 0
    content = file.read_bytes()
    for _ in range(count // 2):
        place += 36 + int.from_bytes(content[place : place + 4], "big")
    file.write_bytes(content[:place])
    cut = Coordinator(plan, tmp_path / "coordinator")
    hosts = [host_of(plan, index, tmp_path) for index in range(3)]
    for _ in range(3):
        for host in hosts:
            assert "another log" in cut.take(host.index, host.answer(cut.ask(host.index)), 0.0).reason
    assert len(cut.journal.entries) == count // 2
    assert "another log" in cut.status()["refused"]
    for one in (*hosts, cut):
        one.close()
    assert [draws(tmp_path / name) for name in ("north", "east", "south")] == before


# Copies --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("kind, sums", KINDS)
def test_of_two_copies_of_a_party_one_counts_and_the_other_ends(kind, sums, later, tmp_path):
    """A folder that runs on two machines: what the first said is in the log, and the second refuses to go on."""
    made = Restored(tmp_path, kind=kind, sums=sums)
    made.turn()
    if later:
        made.turn()  # with secure sums both copies hold the key of the ready that counts
    made.back_up()
    (tmp_path / "second").mkdir()
    shutil.copytree(tmp_path / "backup", tmp_path / "second" / "south")
    second = host_of(made.plan, 2, tmp_path / "second")
    second.noise_of = lambda sync: SeededNoise(8, "another draw", sync)
    copies, words = [second, made.hosts[2]], ["", ""]
    while not made.coordinator.complete:
        for place, copy in enumerate(copies):
            for _ in range(2):  # the first time it says how much of the log it has
                answer = copy.answer(made.coordinator.ask(2))
                words[place] = Answer.from_bytes(answer).word
                made.coordinator.take(2, answer, 0.0)
        made.turn((0, 1))
    assert sorted(words) == ["", "refused: privacy"]
    refused = copies[words.index("refused: privacy")]
    assert "its ledger does not know" in refused.last_refusal
    places = [entry.place for entry in made.coordinator.journal.entries]
    assert len(places) == len(set(places))
    made.close()
    second.close()
    assert draws(refused.folder) <= 1


def test_two_coordinators_have_two_folders(tmp_path):
    plan = plan_of()
    first = Coordinator(plan, tmp_path / "coordinator")
    with pytest.raises(InputError, match="in use"):
        Coordinator(plan, tmp_path / "coordinator")
    first.close()


@pytest.mark.parametrize("kind, sums", KINDS)
def test_two_coordinators_with_copies_of_one_log_make_nobody_draw_twice(kind, sums, tmp_path):
    """Both ask the same parties in turn: one of them gets on, or none; no block is in two sums."""
    plan = plan_of(kind, sums=sums, quorum=2)
    hosts = [host_of(plan, index, tmp_path) for index in range(3)]
    first = Coordinator(plan, tmp_path / "coordinator")
    for host in hosts:
        first.take(host.index, host.answer(first.ask(host.index)), 0.0)
    first.close()
    shutil.copytree(tmp_path / "coordinator", tmp_path / "copy")
    both = [Coordinator(plan, tmp_path / name) for name in ("coordinator", "copy")]
    for turn in range(40):
        for place, coordinator in enumerate(both):
            for host in hosts[place:] if turn % 2 else reversed(hosts):
                coordinator.take(host.index, host.answer(coordinator.ask(host.index)), float(turn))
            coordinator.tick(plan.timeout * turn)
    numbers = {(entry.place, entry.content) for one in both for entry in one.journal.entries if entry.by >= 0}
    assert len({place for place, _ in numbers}) == len(numbers)  # nobody said two things
    for one in (*hosts, *both):
        one.close()
    assert all(draws(tmp_path / name) <= plan.made.syncs for name in ("north", "east", "south"))


@pytest.mark.parametrize("fresh", [False, True])
def test_a_ready_of_another_run_under_the_same_plan_gives_the_coordinator_nothing(fresh, tmp_path):
    """Everybody began anew under the same plan, which nobody should; the coordinator kept what was said before."""
    plan = plan_of(sums="secure")
    known, _ = run(plan, tmp_path / "first")
    hosts = [host_of(plan, index, tmp_path / "second") for index in range(3)]
    coordinator = Coordinator(plan, tmp_path / "second" / "coordinator")
    for host in hosts:
        coordinator.take(host.index, host.answer(coordinator.ask(host.index)), 0.0)
    if fresh:  # the party has said its own ready, and is shown the old one instead
        hosts[1].answer(coordinator.ask(1))
    old = next(entry for entry in known.journal.entries if entry.purpose == READY and entry.by == 1)
    assert coordinator.take(1, Answer(plan.fingerprint(), 3, (old,)).to_bytes(), 0.0)
    for _ in range(6):
        for host in hosts:
            coordinator.take(host.index, host.answer(coordinator.ask(host.index)), 0.0)
    ends = [entry.purpose for entry in coordinator.journal.entries if entry.sync == 0 and entry.by == -1]
    assert ends == (["union"] if fresh else ["union", "void"])  # it refuses, or says that its key is gone
    spoke = {entry.by for entry in coordinator.journal.entries if entry.purpose == MASKED and entry.sync == 0}
    assert 1 not in spoke
    for one in (*hosts, coordinator):
        one.close()
    assert draws(tmp_path / "second" / "east") <= (0 if fresh else plan.made.syncs - 1)


def test_a_plan_is_what_it_says_and_not_how_it_is_written(tmp_path):
    """Comments, blank lines, order of keys and spelling of numbers are nobody's business; order of parties is."""
    from fairveil.cli.federate import read_plan

    lines = [
        'run = "trial"', 'kind = "exposure"', "timeout = 600.0",
        'policy = {name = "batched-priv-fairx", dimension = 2, horizon = 24, epsilon = 2.0, delta = 1e-3}',
    ]  # fmt: skip
    parties = [f'[[party]]\nname = "{name}"\nsigning_key = "{key.public}"' for name, key in zip("ab", keys(2))]

    def fingerprint(*parts):
        (tmp_path / "plan.toml").write_text("\n".join(parts) + "\n")
        return read_plan(tmp_path / "plan.toml").fingerprint()

    first = fingerprint(*lines, *parties)
    assert fingerprint("# agreed on Monday", *reversed(lines), "", *parties, "# epsilon = 200.0") == first
    assert fingerprint(*lines[:3], lines[3].replace("1e-3", "0.001"), *parties) == first
    assert fingerprint(*lines, *reversed(parties)) != first
    assert fingerprint(*lines[:3], lines[3].replace("2.0", "2.5"), *parties) != first


# Disks and clocks ----------------------------------------------------------------------------------------------------


def test_a_log_that_could_not_be_written_stays_whole(tmp_path):
    """Half of a record is on disk when it is full; the next one does not come after that half."""
    said = [Statement(HELLO, party, 0, b"").signed(key, "plan") for party, key in enumerate(keys(3))]
    log = StatementLog(tmp_path / "log")
    log.append(said[0])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "log").stat().st_size + 20, limits[1]))
    try:
        with pytest.raises(OSError, match="large"):
            log.append(said[1])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert log.entries == said[:1]
    log.append(said[2])
    log.close()
    assert read_statements(tmp_path / "log") == [said[0], said[2]]


def test_a_quorum_is_not_kept_waiting_by_a_clock_that_was_set_back(tmp_path):
    plan = plan_of(quorum=2)
    hosts = [host_of(plan, index, tmp_path) for index in range(3)]
    coordinator = Coordinator(plan, tmp_path / "coordinator")
    for _ in range(2):
        for host in hosts[:2]:
            coordinator.take(host.index, host.answer(coordinator.ask(host.index)), 10_000.0)
    coordinator.tick(6_400.0)
    coordinator.tick(6_400.0 + plan.timeout - 1.0)
    assert coordinator.sync == 0
    coordinator.tick(6_400.0 + plan.timeout)
    assert coordinator.sync == 1
    for one in (*hosts, coordinator):
        one.close()


# Plans and ledgers of others -----------------------------------------------------------------------------------------


def test_two_parties_have_two_keys():
    plan = plan_of()
    twice = tuple(Member(name, signing_key=keys(1)[0].public) for name in ("north", "east"))
    with pytest.raises(SpecError, match="one signing key"):
        Plan("trial", "exposure", twice, policy=plan.policy)


@pytest.mark.parametrize("sums", ["own", "secure"])
def test_nothing_said_under_one_plan_counts_under_another(sums, tmp_path):
    plan, other = plan_of(sums=sums), plan_of(sums=sums, run="another")
    known, _ = run(plan, tmp_path / "first")
    hosts = [host_of(other, index, tmp_path / "second") for index in range(3)]
    coordinator = Coordinator(other, tmp_path / "second" / "coordinator")
    for entry in known.journal.entries:
        if entry.by >= 0:
            again = Answer(other.fingerprint(), 0, (entry,)).to_bytes()
            assert coordinator.take(entry.by, again, 0.0).reason == "not signed by its sender"
            part = LogPart(other.fingerprint(), 0, 1, (entry,)).to_bytes()
            assert Answer.from_bytes(hosts[0].answer(part)).word == "refused: privacy"
    assert coordinator.journal.entries == []
    for one in (*hosts, coordinator):
        one.close()
    assert draws(tmp_path / "second" / "north") == 0


@pytest.mark.parametrize("kind, sums", KINDS)
def test_a_ledger_of_another_run_is_no_ledger_of_this_one(kind, sums, tmp_path):
    run(plan_of(kind, sums=sums), tmp_path / "first")
    other = plan_of(kind, sums=sums, timeout=300.0)
    (tmp_path / "north").mkdir()
    shutil.copy(tmp_path / "first" / "north" / "ledger.db", tmp_path / "north")
    with pytest.raises(PrivacyError, match="ledger of another run"):
        host_of(other, 0, tmp_path)


@pytest.mark.parametrize("name", ["../north", "a/b", "..", ".", "", "a\0b", "a b", "-x", "north\n", "n" * 64])
def test_names_are_no_paths(name, tmp_path):
    members = (Member("east"), Member("west"))
    with pytest.raises(SpecError):
        Member(name)
    with pytest.raises(SpecError):
        Plan(name, "exposure", members, policy=plan_of().policy)
    Coordinator(plan_of(), tmp_path / "coordinator").close()
    with pytest.raises(InputError, match="no party of this name"):
        note_retired(tmp_path / "coordinator", name)


# Parties that lie ----------------------------------------------------------------------------------------------------


@pytest.fixture
def met(tmp_path):
    """A coordinator that has met three parties; the last of them lies."""
    made = []

    def make(**facts):
        plan = plan_of(**facts)
        hosts = [host_of(plan, index, tmp_path) for index in range(3)]
        coordinator = Coordinator(plan, tmp_path / "coordinator")
        for host in hosts:
            coordinator.take(host.index, host.answer(coordinator.ask(host.index)), 0.0)
        made.extend((*hosts, coordinator))
        return coordinator, hosts

    yield make
    for one in made:
        one.close()


def said_by_a_liar(coordinator, purpose, content, sync=0, union=""):
    statement = Statement(purpose, 2, sync, content, union).signed(keys(3)[2], coordinator.plan.fingerprint())
    return coordinator.take(2, Answer(coordinator.plan.fingerprint(), 3, (statement,)).to_bytes(), 0.0)


@pytest.mark.parametrize(
    "sums, purpose, content, sync, union",
    [
        ("own", HELLO, b"", 5, ""),
        ("own", RETIRE, b"x" * 1000, 0, ""),
        ("own", RETIRE, b"", 0, "u" * 1000),
        ("own", RETIRE, b"", 7, ""),
        ("secure", READY, bytes(64), 0, "u" * 1000),
        ("secure", LOST, b"x" * 1000, 0, ""),
    ],
)
def test_a_party_cannot_fill_the_log(sums, purpose, content, sync, union, met):
    coordinator, _ = met(sums=sums)
    assert not said_by_a_liar(coordinator, purpose, content, sync, union).accepted
    assert len(coordinator.journal.entries) == 3


def test_a_lost_block_is_said_without_words(met):
    coordinator, hosts = met(sums="secure")
    for host in hosts:
        coordinator.take(host.index, host.answer(coordinator.ask(host.index)), 0.0)
    assert coordinator.union == [0, 1, 2]
    refused = said_by_a_liar(coordinator, LOST, b"x" * 1000, union=coordinator._digest())
    assert refused.reason == "of the wrong shape"


def test_a_message_has_one_spelling(met):
    """Blanks in it would be as valid, and as long as the liar likes: nobody could fetch a log with them."""
    coordinator, hosts = met()
    found = Answer.from_bytes(hosts[2].answer(coordinator.ask(2))).says[0]
    assert Message.from_bytes(found.content).to_bytes() == found.content
    for content in (found.content + b" " * 100, b" " + found.content):
        assert said_by_a_liar(coordinator, MESSAGE, content).reason == "of the wrong shape"
    assert said_by_a_liar(coordinator, MESSAGE, found.content, union="u" * 1000).reason == "of the wrong shape"
    assert said_by_a_liar(coordinator, MESSAGE, found.content).accepted


@pytest.mark.parametrize(
    "change",
    [
        {"have": "x"},
        {"have": None},
        {"have": 1e300},
        {"have": -1},
        {"progress": 5},
        {"progress": [1]},
        {"progress": {"a": "x" * 5000}},
        {"word": "x" * 100_000},
        {"extra": 1},
        {"version": 99},
    ],
)
def test_no_answer_ends_the_coordinator(change, met):
    coordinator, hosts = met()
    table = {"version": 1, "plan": coordinator.plan.fingerprint(), "have": 3, "word": "", "progress": {}, **change}
    header = json.dumps(table).encode()
    coordinator.take(2, len(header).to_bytes(4, "big") + header, 0.0)
    assert len(json.dumps(coordinator.status())) < 5000
    for _ in range(8):
        for host in hosts:
            coordinator.take(host.index, host.answer(coordinator.ask(host.index)), 0.0)
    assert coordinator.complete


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xff\xff\xff{}",
        b"\x00\x00\x00\x02{}" + b"\xff\xff\xff\xff",
        (10**5).to_bytes(4, "big") + b"[" * 10**5,
        (5000).to_bytes(4, "big") + b"9" * 5000,
        b"\x00\x00\x00\x04null",
    ],
)
def test_frames_that_are_none_are_refused_on_both_sides(data, met):
    coordinator, hosts = met()
    assert "cannot be read" in coordinator.take(2, data, 0.0).reason
    assert Answer.from_bytes(hosts[0].answer(data)).word == "refused: input"
    for first, total in (("x", 0), (None, 0), (0, "x")):
        header = {"version": 1, "plan": coordinator.plan.fingerprint(), "first": first, "total": total}
        frame = json.dumps(header).encode()
        answer = hosts[0].answer(len(frame).to_bytes(4, "big") + frame)
        assert Answer.from_bytes(answer).word == "refused: input"


# A carrier that loses things -----------------------------------------------------------------------------------------


class Losing(Inline):
    """Every third request is lost without a word."""

    def __init__(self, parties):
        super().__init__(parties)
        self.asked = 0

    def ask(self, party, request):
        self.asked += 1
        if self.asked % 3:
            super().ask(party, request)


def test_a_request_that_is_lost_without_a_word_is_asked_again_long_before_the_timeout(tmp_path):
    plan, now = plan_of(sums="secure"), iter(range(0, 10**6, 5))
    hosts = [host_of(plan, index, tmp_path) for index in range(3)]
    coordinator = Coordinator(plan, tmp_path / "coordinator")
    carrier, times = Losing({host.index: host.answer for host in hosts}), []

    def clock():
        times.append(next(now))
        return times[-1]

    drive(coordinator, carrier, clock=clock, patience=10_000.0)
    assert coordinator.complete
    assert times[-1] < 45 * carrier.asked / 3 + 5 * len(times)
    for one in (*hosts, coordinator):
        one.close()


class Slow(Inline):
    """A party answers its requests in order, one a while; the last of three is away at the beginning."""

    def __init__(self, parties, clock):
        super().__init__(parties)
        self.clock, self.asked = clock, dict.fromkeys(parties, 0)
        self.queue = {party: [] for party in parties}
        self.free = {**dict.fromkeys(parties, 0.0), 2: 100.0}

    def ask(self, party, request):
        self.asked[party] += 1
        self.queue[party].append(request)

    def answers(self):
        found = []
        for party, waiting in self.queue.items():
            if waiting and self.clock[0] >= self.free[party]:
                found.append((party, self.parties[party](waiting.pop(0))))
                self.free[party] = self.clock[0] + 10.0
        return found

    def pause(self):
        self.clock[0] += 1.0


def test_a_request_that_was_repeated_once_is_not_repeated_for_ever(tmp_path):
    plan, now = plan_of(sums="secure"), [0.0]
    hosts = [host_of(plan, index, tmp_path) for index in range(3)]
    coordinator = Coordinator(plan, tmp_path / "coordinator")
    carrier = Slow({host.index: host.answer for host in hosts}, now)
    drive(coordinator, carrier, clock=lambda: now[0], patience=600.0)
    assert coordinator.complete
    assert carrier.asked[2] <= carrier.asked[0] + 1
    for one in (*hosts, coordinator):
        one.close()


def test_a_clock_that_is_set_back_an_hour_keeps_nobody_waiting(tmp_path):
    plan = plan_of(sums="secure")
    hosts = [host_of(plan, index, tmp_path) for index in range(3)]
    coordinator = Coordinator(plan, tmp_path / "coordinator")
    carrier, ticks = Losing({host.index: host.answer for host in hosts}), iter(range(10**6))

    def clock():
        tick = next(ticks)
        return 10_000.0 + tick - (3600.0 if tick > 20 else 0.0)

    drive(coordinator, carrier, clock=clock, patience=10_000.0)
    assert coordinator.complete
    assert next(ticks) < 1000
    for one in (*hosts, coordinator):
        one.close()
