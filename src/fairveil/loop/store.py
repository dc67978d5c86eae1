"""A store: loops, their events and tokens in one database, and the ledgers that pay for them."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from time import monotonic
from typing import Any

from fairveil.bandits.nash.closing import carried
from fairveil.configuration import describe
from fairveil.errors import LedgerError, SpecError
from fairveil.ledger import Account, Ledger, Limit, RunCost
from fairveil.loop import trail
from fairveil.loop.accept import check_kin, closed_actions, policy_of
from fairveil.loop.asked import scheduled_events
from fairveil.loop.blocks import abandon, begun_again
from fairveil.loop.clock import SECOND, Clock, SystemClock, Time, seconds_of
from fairveil.loop.config import new_spec, read_spec, spec_table
from fairveil.loop.facts import Facts, Status, first_tally
from fairveil.loop.keys import Keys, check_key, find_secret, key_beside
from fairveil.loop.loop import Loop
from fairveil.loop.memory import LoopMemory, Ticks
from fairveil.loop.paying import check_accounts, check_newest, check_room, limit_of, write_budget
from fairveil.loop.play import warm
from fairveil.loop.problems import NameTaken, StorageFailed, UnknownLoop
from fairveil.loop.settle import LONGEST_REST
from fairveil.loop.storage import Driver, Transaction, adding, bring_up_to_date, driver_of, latest_moment, noted
from fairveil.loop.storage.driver import STATUS, Row
from fairveil.loop.waiting import first_rounds
from fairveil.loop.writer import Due, coins
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.state import State, load_state, save_state

CLOCK_GAP = "7d"
_FIRST = (
    "name, config, mode, round, settled, released, erased, clock, created, version, revision, epoch, aged, "
    "ledger_sequence, state, tally, ledger, due, began"
)
TIDY_EVERY = 20
"""Seconds from one emptying of the log to the next, while content is erased: what is erased is gone within a minute."""
SOON = 5
"""Seconds after which a service that starts does what upkeep is left from before."""


class Store:
    """All loops of one database.

    >>> import tempfile
    >>> from fairveil.loop import ManualClock, Reward
    >>> folder, clock = tempfile.TemporaryDirectory(), ManualClock()
    >>> store = Store.open(f"sqlite:///{folder.name}/store.db", clock=clock)
    >>> trial = store.create("trial", policy={"name": "private-nash", "arms": 2, "epsilon": 1.0},
    ...                      reward=Reward(0, 1, wait="90s"))
    >>> choice = trial.decide("e-1")
    >>> trial.decide("e-1")._replace(replayed=False) == choice, trial.reward("e-1", 0.8).learned
    (True, 'pending')
    >>> store.close(); folder.cleanup()
    """

    def __init__(self, driver: Driver, keys: Keys | None, clock: Time, anchors: Path | None) -> None:
        self.driver, self.clock, self.anchors = driver, clock, anchors
        self._keys = keys
        self.started, self.key_place = clock.now(), "given"
        self._serious = -1, False
        self.due = Due()
        self.noise: Noise | None = None
        self.rng: Generator | None = None
        self.last_problem: str | None = None
        self._untidy, self._tidied = True, (0.0, 0)
        self.upkeep_from = 0
        self.memory, self.ticks = LoopMemory(), Ticks(self)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        clock: Clock | None = None,
        key: bytes | None = None,
        key_file: str | os.PathLike[str] | None = None,
        keyless: bool = False,
        new_key: bool = False,
        anchors: str | os.PathLike[str] | None = None,
        migrate: bool = False,
        clock_gap: str = CLOCK_GAP,
    ) -> Store:
        """Open a store, or make one. ``url``: ``sqlite:///folder/store.db`` or ``postgresql://user@host/database``.

        ``key``: the secret of keyed ids (else ``key_file``, else where `find_secret` looks; beside an SQLite store at
        last). ``keyless``: for upkeep, which looks at no id. ``new_key``: go on although the old secret is lost; old
        ids are then unknown. ``anchors``: a folder in a second place with a mark for every ledger. ``migrate``: upgrade
        an older store. ``clock_gap``: how far the clock may be ahead of the last moment that is stored; beyond that no
        window closes until `fairveil store clock`.
        """
        driver = driver_of(url)
        gap = seconds_of(clock_gap, "--clock-gap") * SECOND
        with driver.explained():
            if anchors is not None:
                Path(anchors).mkdir(parents=True, exist_ok=True)
            driver.prepare()
            bring_up_to_date(driver, migrate=migrate)
            with driver.writing() as tx:
                server = driver.time(tx) if clock is None else None
                time = Time(clock or SystemClock(), latest_moment(tx), gap, server)
                fresh, file = new_key or noted(tx, "key") is None, None if key_file is None else Path(key_file)
                keys, place = None, "not needed"
                if not keyless:
                    held, place = ([key], "given") if key else find_secret(key_beside(driver), file, fresh)
                    keys = Keys(*held)
                    check_key(tx, keys, new_key, time.now())
                confirmed = noted(tx, "clock")
        made = cls(driver, keys, time, None if anchors is None else Path(anchors))
        made.key_place, made.ticks.confirmed = place, confirmed
        return made

    @property
    def keys(self) -> Keys:
        """The keyed hashes of its ids."""
        if self._keys is None:
            raise SpecError("this store was opened without its key", path="keyless", fix="open it with the key")
        return self._keys

    # Loops -----------------------------------------------------------------------------------------------------------

    def create(self, name: str, *, actor: str = "local", **table: Any) -> Loop:
        """A new loop, charged to its ledger at once or refused: it never collects what it cannot pay to learn from."""
        spec = new_spec({"name": name, **table})
        policy = policy_of(spec, new=True)
        facts = Facts(0, spec, policy, 0)
        self._check_free(spec.name)
        facts.check_mode(spec.mode)
        warm(facts)
        state, round = self._start(facts)
        event, promise, paying = policy.event(), policy.promise, spec.budget.ledger or spec.name
        scheduled = scheduled_events(facts)
        limit = limit_of(spec, event, list(scheduled.values()))
        ledger = self.ledger(paying, spec.simulated, limit, unit="" if promise is None else promise.unit)
        with self.reading() as tx:
            check_newest(tx, paying, ledger)
        check_room(ledger, [event, *scheduled.values()])
        holder = f"reports of {spec.name}"
        check_accounts(ledger, {spec.name: "", **dict.fromkeys(scheduled, holder)})
        Account(ledger, spec.name, RunCost(event)).pay()
        for account, one in scheduled.items():
            Account(ledger, account, one, holder).pay()
        now = self.clock.now()
        values = (spec.name, json.dumps(spec_table(spec, describe(policy))), spec.mode, *[round] * 4, now, now)
        began = () if spec.start_from is None else first_rounds(facts, state, round)
        tally = first_tally(facts, state)
        with self.writing() as tx:
            if tx.execute("SELECT 1 FROM loops WHERE name = ?", (spec.name,)):
                raise _taken(spec.name)
            tx.execute(
                adding("loops", _FIRST),
                (*values, 0, 0, 0, 0, ledger.sequence, save_state(state), tally, paying, now + LONGEST_REST,
                 json.dumps(began)),
            )  # fmt: skip
            write_budget(tx, paying, ledger)
            [(id,)] = tx.execute("SELECT id FROM loops WHERE name = ?", (spec.name,))
            trail.note(tx, now, actor, "create", spec.name, {"policy": policy.name, "mode": spec.mode})
        with self.memory.guard:
            self.memory.checked.add(spec.name)
            return self.memory.keep(Loop(self, Facts(id, spec, policy, now, began), ledger))

    def loop(self, name: str) -> Loop:
        return self.memory.find(name, self._load)

    def kinds(self) -> list[str]:
        """One loop of each policy."""
        policy = self.driver.json("config", "policy", "name")
        return [name for (name,) in self.read(f"SELECT min(name) FROM loops GROUP BY {policy}")]

    def names(self) -> list[str]:
        return [row[0] for row in self.read("SELECT name FROM loops ORDER BY name")]

    def loops(self) -> list[Loop]:
        return [self.loop(name) for name in self.names()]

    def _load(self, name: str) -> Loop:
        found = self.read("SELECT id, config, created, began FROM loops WHERE name = ?", (name,))
        if not found:
            raise UnknownLoop("there is no loop of this name", path="loop", fix="see GET /v1/loops")
        id, config, created, began = found[0]
        spec = read_spec(json.loads(config))
        return Loop(self, Facts(id, spec, policy_of(spec), created, tuple(json.loads(began))))

    def _check_free(self, name: str) -> None:
        if self.read("SELECT 1 FROM loops WHERE name = ?", (name,)):
            raise _taken(name)

    def _start(self, facts: Facts) -> tuple[State, int]:
        """The first state: a fresh one, or what another loop of the same shape has published."""
        fresh = facts.policy.start()
        if facts.spec.start_from is None:
            return fresh, 0
        other = self.loop(facts.spec.start_from)
        status = other.status()
        check_kin(facts, other.facts, closed_actions(other.facts, status.state))
        if other.facts.by_seat:
            state, round = begun_again(other.facts, status.state, status.round), status.round
        else:
            state, _, round = abandon(other.facts, status.state, status.round, coins())
        if facts.policy.closes_arms:
            known = other.facts.arm_names
            state = carried(fresh, state, [known.index(a) if a in known else None for a in facts.arm_names])
        return state, round

    # Time ------------------------------------------------------------------------------------------------------------

    def tick(self, only: Collection[str] | None = None) -> int:
        """Settle, release, erase and forget, for every loop that has something to do, or for some of them.

        Gives the number of releases. Ledgers that were not looked at since the start follow, a few at a time, and loops
        that nobody uses leave memory. A loop whose tick fails does not keep the others from theirs; the first error is
        raised at the end.
        """
        made = self.ticks.run(only)
        self.tidy()
        return made

    @property
    def unchecked(self) -> int:
        """Loops whose ledger was not looked at since the start."""
        return self.ticks.unchecked

    @property
    def anchoring(self) -> str:
        """Whether anybody would notice that store and ledgers were put back together.

        ``kept``; ``beside the store``: the marks are in its own folder, and who copies that copies them; ``none``;
        ``not needed``: all loops are simulated.
        """
        last, serious = self._serious
        if not serious:
            with self.reading() as tx:
                [(newest,)] = tx.execute("SELECT coalesce(max(id), 0) FROM loops")
                if newest != last:
                    query = "SELECT 1 FROM loops WHERE config NOT LIKE ? LIMIT 1"
                    serious = bool(tx.execute(query, ('%"simulated": true%',)))
                    self._serious = newest, serious
            if newest and not serious:
                return "not needed"
        if self.anchors is None:
            return "none"
        path = self.driver.path
        inside = path is not None and self.anchors.resolve().is_relative_to(path.resolve().parent)
        return "beside the store" if inside else "kept"

    def serve_first(self) -> None:
        """What a busy minute before a start has left to pack and to forget has a few seconds: others wait to be served.

        Without this a start costs more the more events came just before it."""
        real, self.upkeep_from = monotonic(), self.clock.now() + SOON * SECOND
        self._tidied = real + SOON - TIDY_EVERY, self.upkeep_from - TIDY_EVERY * SECOND

    def erased(self) -> None:
        """Say that content was erased: it is to leave the log of the database too."""
        self._untidy = True

    def tidy(self, at_once: bool = False) -> None:
        """Take what was erased out of the log, now or when it is time; tried again until it is done."""
        real, now = monotonic(), self.clock.now()
        passed = real - self._tidied[0] >= TIDY_EVERY or abs(now - self._tidied[1]) >= TIDY_EVERY * SECOND
        if not self._untidy or not (passed or at_once):
            return
        self._untidy, done = False, False
        with contextlib.suppress(StorageFailed):
            done = self.driver.tidy()
        if done:
            self._tidied = real, now
        else:
            self._untidy = True

    def report(self, problem: Exception) -> None:
        """Remember why learning stopped, for whoever operates the store."""
        self.last_problem = str(problem)

    # Ledgers ---------------------------------------------------------------------------------------------------------

    def ledger(self, name: str, simulated: bool = False, limit: Limit | None = None, unit: str = "") -> Ledger:
        """The ledger of this name, opened once; made when a limit is given and there is none."""
        with self.memory.guard:
            found = self.memory.ledgers.get(name)
            if found is not None and limit is not None and not limit.same(found.limit):
                raise LedgerError(
                    "this ledger exists with another limit",
                    path="budget",
                    given=name,
                    allowed=found.limit.words(found.limit.total),
                    fix="leave the limit out, or name another ledger",
                )
            if found is None:
                path, inside = self.driver.ledger(name)
                anchor = self.anchor_of(name)
                if limit is None:
                    known = self.memory.entries.get(name)
                    found = Ledger.open(path, ledger=inside, anchor=anchor, simulated=simulated, known=known)
                else:
                    found = Ledger.create(
                        path, ledger=inside, limit=limit, anchor=anchor, simulated=simulated, unit=unit
                    )
                self.memory.ledgers[name] = found
            return found

    def anchor_of(self, name: str) -> Path | None:
        """Where the mark of a ledger is, None where there are no anchors."""
        return None if self.anchors is None else self.anchors / f"{name}.anchor"

    # Transactions ----------------------------------------------------------------------------------------------------

    def writing(self) -> AbstractContextManager[Transaction]:
        """A transaction that is durable when it ends without an error."""
        return self.driver.writing()

    def reading(self) -> AbstractContextManager[Transaction]:
        """A transaction that sees one moment and writes nothing."""
        return self.driver.reading()

    def read(self, query: str, values: Sequence[Any] = ()) -> list[Row]:
        """The rows of one query, as they are stored now."""
        with self.reading() as tx:
            return tx.execute(query, values)

    def status_of(self, tx: Transaction, facts: Facts) -> Status:
        found = tx.execute(f"SELECT {STATUS}, state FROM loops WHERE id = ?", (facts.id,))
        if not found:
            raise UnknownLoop("this loop is gone", path="loop", given=facts.spec.name)
        *values, state = found[0]
        return facts.present(Status(load_state(bytes(state)), *values))

    def close(self) -> None:
        with self.memory.guard:
            self.memory.close()
            self.tidy(at_once=True)
            self.driver.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


def _taken(name: str) -> NameTaken:
    return NameTaken(
        "there is a loop of this name", path="name", given=name, fix="choose another name; names are never used again"
    )
