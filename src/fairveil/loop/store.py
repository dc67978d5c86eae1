"""A store: loops, their events and tokens in one database, and the ledgers that pay for them."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from fairveil.configuration import describe
from fairveil.errors import LedgerError, SpecError
from fairveil.loop import trail
from fairveil.loop.accept import policy_of
from fairveil.loop.batch import Status
from fairveil.loop.blocks import abandon
from fairveil.loop.clock import SECOND, Clock, SystemClock
from fairveil.loop.config import LoopSpec, read_spec
from fairveil.loop.due import Due
from fairveil.loop.facts import Facts
from fairveil.loop.keys import Keys, secret_beside, secret_from_environment
from fairveil.loop.loop import Loop
from fairveil.loop.problems import NameTaken, StorageFailed, UnknownLoop
from fairveil.loop.spelled import spec_table
from fairveil.loop.storage import Driver, Transaction, driver_of
from fairveil.loop.storage.driver import STATUS
from fairveil.loop.storage.schema import bring_up_to_date
from fairveil.loop.warm import warm
from fairveil.loop.writer import coins
from fairveil.privacy.events import NothingEvent
from fairveil.privacy.ledger import Ledger, Limit
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.state import State, load_state, save_state

TIDY_EVERY = 30 * SECOND


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

    def __init__(self, driver: Driver, keys: Keys, clock: Clock, anchors: Path | None) -> None:
        self.driver, self.keys, self.clock, self.anchors = driver, keys, clock, anchors
        self.started = clock.now()
        self.due = Due()
        self.noise: Noise | None = None
        self.rng: Generator | None = None
        self.erased = True
        self.last_problem: str | None = None
        self._tidied = 0
        self._loops: dict[str, Loop] = {}
        self._ledgers: dict[str, Ledger] = {}
        self._guard = threading.RLock()

    @classmethod
    def open(
        cls,
        url: str,
        *,
        clock: Clock | None = None,
        key: bytes | None = None,
        new_key: bool = False,
        anchors: str | os.PathLike[str] | None = None,
        migrate: bool = False,
    ) -> Store:
        """Open a store, or make one. ``url``: ``sqlite:///folder/store.db`` or ``postgresql://user@host/database``.

        ``key``: the secret of keyed ids (else ``FAIRVEIL_KEY``, else a file beside an SQLite store). ``new_key``: go on
        although the old secret is lost; old ids are then unknown. ``anchors``: a folder in a second place with a mark
        for every ledger. ``migrate``: upgrade an older store.
        """
        driver = driver_of(url)
        time = clock or SystemClock()
        try:
            if anchors is not None:
                Path(anchors).mkdir(parents=True, exist_ok=True)
            driver.prepare()
            bring_up_to_date(driver, migrate=migrate)
            keys = Keys(key or secret_from_environment() or _secret(driver))
            with driver.writing() as tx:
                _check_key(tx, keys, new_key, time.now())
        except driver.failures as problem:
            raise driver.explain(problem) from problem
        return cls(driver, keys, time, None if anchors is None else Path(anchors))

    # Loops -----------------------------------------------------------------------------------------------------------

    def create(self, name: str, *, actor: str = "local", **table: Any) -> Loop:
        """A new loop, charged to its ledger at once or refused: it never collects what it cannot pay to learn from."""
        spec = read_spec({"name": name, **table})
        policy = policy_of(spec)
        self._check_free(spec.name)
        warm(Facts(0, spec, policy, 0))
        state, round = self._start(spec, policy)
        event = policy.event()
        limit = _limit(spec, event)
        ledger = self.ledger(spec.budget.ledger or spec.name, spec.simulated, limit, unit=_unit(policy))
        ledger.spend(spec.name, event, releases=None)
        now = self.clock.now()
        values = (spec.name, json.dumps(spec_table(spec, describe(policy))), spec.mode, round, round, now, now, round)
        with self.writing() as tx:
            if tx.execute("SELECT 1 FROM loops WHERE name = ?", (spec.name,)):
                raise _taken(spec.name)
            tx.execute(
                "INSERT INTO loops (name, config, mode, round, settled, clock, created, erased, version, revision, "
                "epoch, forgotten, ledger_sequence, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, ?, ?)",
                (*values, ledger.sequence, save_state(state)),
            )
            trail.note(tx, now, actor, "create", spec.name, {"policy": policy.name, "mode": spec.mode})
        return self.loop(spec.name)

    def loop(self, name: str) -> Loop:
        with self._guard:
            found = self._loops.get(name)
            if found is None:
                found = self._loops[name] = self._load(name)
            return found

    def names(self) -> list[str]:
        with self.reading() as tx:
            return [row[0] for row in tx.execute("SELECT name FROM loops ORDER BY name")]

    def loops(self) -> list[Loop]:
        return [self.loop(name) for name in self.names()]

    def _load(self, name: str) -> Loop:
        with self.reading() as tx:
            found = tx.execute("SELECT id, config, created FROM loops WHERE name = ?", (name,))
        if not found:
            raise UnknownLoop("there is no loop of this name", path="loop", fix="see GET /v1/loops")
        id, config, created = found[0]
        spec = read_spec(json.loads(config))
        return Loop(self, Facts(id, spec, policy_of(spec), created))

    def _check_free(self, name: str) -> None:
        with self.reading() as tx:
            if tx.execute("SELECT 1 FROM loops WHERE name = ?", (name,)):
                raise _taken(name)

    def _start(self, spec: LoopSpec, policy: Any) -> tuple[State, int]:
        """The first state: a fresh one, or what another loop of the same shape has published."""
        fresh: State = policy.start()
        if spec.start_from is None:
            return fresh, 0
        other = self.loop(spec.start_from)
        status = other.status()
        shapes = {name: (array.shape, array.dtype) for name, array in other.facts.policy.start().items()}
        fits = other.facts.policy.name == policy.name and shapes == {
            name: (array.shape, array.dtype) for name, array in fresh.items()
        }
        if not fits:
            raise SpecError("the other loop has another shape", path="start_from", given=spec.start_from)
        facts = Facts(0, spec, policy, 0)
        state, _, round = abandon(facts, status.state, status.round, coins())
        return state, round

    # Time ------------------------------------------------------------------------------------------------------------

    def tick(self, only: Collection[str] | None = None) -> int:
        """Settle, release, erase and forget, for every loop or for some. Gives the number of releases.

        A loop whose tick fails does not keep the others from theirs; the first error is raised at the end.
        """
        made, failed = 0, list[Exception]()
        for loop in self.loops() if only is None else map(self.loop, only):
            try:
                made += loop.tick()
            except Exception as problem:  # whatever it is, the other loops need their tick
                failed.append(problem)
        if failed:
            raise failed[0]
        now = self.clock.now()
        if self.erased and now - self._tidied >= TIDY_EVERY:
            self._tidied, self.erased = now, False
            with contextlib.suppress(*self.driver.failures):
                self.driver.tidy()
        return made

    def report(self, problem: Exception) -> None:
        """Remember why learning stopped, for whoever operates the store."""
        self.last_problem = str(problem)

    # Ledgers ---------------------------------------------------------------------------------------------------------

    def ledger(self, name: str, simulated: bool = False, limit: Limit | None = None, unit: str = "") -> Ledger:
        """The ledger of this name, opened once; made when a limit is given and there is none."""
        with self._guard:
            found = self._ledgers.get(name)
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
                anchor = None if self.anchors is None else self.anchors / f"{name}.anchor"
                if limit is None:
                    found = Ledger.open(path, ledger=inside, anchor=anchor, simulated=simulated)
                else:
                    found = Ledger.create(
                        path, ledger=inside, limit=limit, anchor=anchor, simulated=simulated, unit=unit
                    )
                self._ledgers[name] = found
            return found

    # Transactions ----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def writing(self) -> Iterator[Transaction]:
        try:
            with self.driver.writing() as tx:
                yield tx
        except self.driver.failures as problem:
            raise self.driver.explain(problem) from problem

    @contextlib.contextmanager
    def reading(self) -> Iterator[Transaction]:
        try:
            with self.driver.reading() as tx:
                yield tx
        except self.driver.failures as problem:
            raise self.driver.explain(problem) from problem

    def status_of(self, tx: Transaction, facts: Facts) -> Status:
        found = tx.execute(f"SELECT {STATUS}, state FROM loops WHERE id = ?", (facts.id,))
        if not found:
            raise UnknownLoop("this loop is gone", path="loop", given=facts.spec.name)
        *values, state = found[0]
        return Status(load_state(bytes(state)), *values)

    def close(self) -> None:
        with self._guard:
            for ledger in self._ledgers.values():
                ledger.close()
            self._ledgers.clear()
            self._loops.clear()
            self.driver.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


def _limit(spec: LoopSpec, event: Any) -> Limit | None:
    """The limit of the ledger that is to be made, None when it must exist already."""
    budget = spec.budget
    if budget.epsilon is not None:
        return Limit.pure(budget.epsilon) if budget.delta is None else Limit.approximate(budget.epsilon, budget.delta)
    if budget.ledger is not None:
        return None
    return Limit.pure(1e-6) if isinstance(event, NothingEvent) else Limit.covering(event)


def _unit(policy: Any) -> str:
    guarantee = policy.guarantee()
    return "" if guarantee is None else str(guarantee.unit)


def _taken(name: str) -> NameTaken:
    return NameTaken("there is a loop of this name", path="name", given=name, fix="names are never used again")


def _secret(driver: Driver) -> bytes:
    path = getattr(driver, "path", None)
    if path is None:
        raise SpecError(
            "a store on a server needs the key of its ids",
            path="FAIRVEIL_KEY",
            fix="set it to 64 hexadecimal digits, the same in every process, and keep a copy",
        )
    return secret_beside(path.with_name(path.name + ".key"))


def _check_key(tx: Transaction, keys: Keys, new_key: bool, now: int) -> None:
    """Another secret than before is a mistake unless it is said aloud."""
    found = tx.execute("SELECT value FROM meta WHERE key = 'key'")
    if not found:
        tx.execute("INSERT INTO meta (key, value) VALUES ('store', ?)", (secrets.token_hex(16),))
        tx.execute("INSERT INTO meta (key, value) VALUES ('key', ?)", (keys.name,))
    elif found[0][0] != keys.name:
        if not new_key:
            raise StorageFailed(
                "the key of this store is another one",
                path="FAIRVEIL_KEY",
                fix="restore the key file; with a new one (--new-key) old ids are unknown for ever",
            )
        tx.execute("UPDATE meta SET value = ? WHERE key = 'key'", (keys.name,))
        trail.note(tx, now, "fairveil", "new-key", "store")
