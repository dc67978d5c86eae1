"""Keys of released events, kept beside the ledger: a copy of a store that is put back does not learn them again.

A store that is put back has forgotten what came after the copy was made, and nothing in it says that an event was
released. So every block leaves a page with the keys of its events in a store of its own beside the ledger, on disk
before the block's value is stored, and the value carries the page's digest. Only where the epoch of a loop is above 0,
which is after a store was put back, the pages are asked: an event that stands in one is decided and not learned. Where
a page is missing or is another one than the ledger names, an event may be learned once more, and learning waits until
an operator accepts that (`fairveil store accept`).

Keys are keyed hashes of event ids; they name events, never people. The digest is keyed too: without the key of the
store it tells nothing about the events of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fairveil.loop.keys import SIZE, Keys
from fairveil.loop.storage import Driver, Transaction

DIGEST = "events"
"""The name under which a released value carries the digest of its page."""
_BYTES = {"sqlite": "BLOB", "postgresql": "BYTEA"}
_TABLES = (
    "CREATE TABLE IF NOT EXISTS released_pages (block TEXT PRIMARY KEY, loop TEXT NOT NULL, digest TEXT NOT NULL, "
    "keys {bytes} NOT NULL, listed BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS released_events (loop TEXT NOT NULL, key {bytes} NOT NULL, PRIMARY KEY (loop, key))",
    "CREATE TABLE IF NOT EXISTS accepted_epochs (loop TEXT NOT NULL, epoch BIGINT NOT NULL, PRIMARY KEY (loop, epoch))",
)


class Pages:
    """The pages of one loop. Cost: one durable commit for all blocks that are released together."""

    def __init__(self, driver: Driver, ledger: str, loop: str, keys: Callable[[], Keys]) -> None:
        """``keys``: asked when a page is written or checked; a store for upkeep has none."""
        self.loop, self.keys = loop, keys
        self._store, self._driver = driver, driver.beside(ledger)
        self._there = False

    def write(self, blocks: Mapping[str, Sequence[bytes]]) -> dict[str, str]:
        """Store the keys of blocks that are drawn now, durably; the digest of each. A page is written once."""
        keys = self.keys()
        digests = {block: keys.page(block, events) for block, events in blocks.items()}
        with self._ready().writing() as tx:
            tx.many(
                "INSERT INTO released_pages (block, loop, digest, keys, listed) VALUES (?, ?, ?, ?, 0) "
                "ON CONFLICT (block) DO NOTHING",
                [(block, self.loop, digests[block], b"".join(events)) for block, events in blocks.items()],
            )
        return digests

    def missing(self, digests: Mapping[str, str | None]) -> list[str]:
        """Blocks that the ledger has published and whose page is not there, or is another one."""
        with self._ready().reading() as tx:
            rows = tx.execute("SELECT block, digest, keys FROM released_pages WHERE loop = ?", (self.loop,))
        found = {
            block: digest
            for block, digest, keys in rows
            if any(one.page(block, _split(keys)) == digest for one in self.keys())
        }
        return sorted(block for block, digest in digests.items() if digest is None or found.get(block) != digest)

    def list_events(self) -> None:
        """Make all pages so far answer `among`."""
        with self._ready().writing() as tx:
            query = "SELECT block, keys FROM released_pages WHERE loop = ? AND listed = 0"
            for block, keys in tx.execute(query, (self.loop,)):
                tx.many(
                    "INSERT INTO released_events (loop, key) VALUES (?, ?) ON CONFLICT (loop, key) DO NOTHING",
                    [(self.loop, key) for key in _split(keys)],
                )
                tx.execute("UPDATE released_pages SET listed = 1 WHERE block = ?", (block,))

    def among(self, tx: Transaction, keys: Iterable[bytes]) -> frozenset[bytes]:
        """Which of these events were released. ``tx``: of the loop's own store, used where the pages are in it."""
        if self._driver is self._store:
            return self._listed(tx, keys)
        with self._ready().reading() as beside:
            return self._listed(beside, keys)

    def accept(self, epoch: int) -> None:
        """Remember beside the ledger that an operator took an epoch as it is."""
        with self._ready().writing() as tx:
            statement = "INSERT INTO accepted_epochs (loop, epoch) VALUES (?, ?) ON CONFLICT (loop, epoch) DO NOTHING"
            tx.execute(statement, (self.loop, epoch))

    def accepted(self) -> frozenset[int]:
        """Epochs that began without all pages."""
        with self._ready().reading() as tx:
            rows = tx.execute("SELECT epoch FROM accepted_epochs WHERE loop = ?", (self.loop,))
        return frozenset(int(epoch) for (epoch,) in rows)

    def close(self) -> None:
        """Let go of the file; who asks again opens it again."""
        if self._driver is not self._store:
            self._driver.close()

    def _listed(self, tx: Transaction, keys: Iterable[bytes]) -> frozenset[bytes]:
        query = "SELECT 1 FROM released_events WHERE loop = ? AND key = ?"
        return frozenset(key for key in keys if tx.execute(query, (self.loop, key)))

    def _ready(self) -> Driver:
        """The pages' own store, made when it is first needed."""
        if not self._there:
            if self._driver is not self._store:
                self._driver.prepare()
            with self._driver.writing() as tx:
                if self._driver.dialect == "postgresql":
                    tx.execute("SELECT pg_advisory_xact_lock(hashtext('fairveil released_pages'))")
                for statement in _TABLES:
                    tx.execute(statement.format(bytes=_BYTES[self._driver.dialect]))
            self._there = True
        return self._driver


def _split(keys: Any) -> list[bytes]:
    whole = bytes(keys)
    return [whole[start : start + SIZE] for start in range(0, len(whole), SIZE)]


def without_page(value: Any) -> Any:
    """The numbers of a released value."""
    return {name: part for name, part in value.items() if name != DIGEST} if isinstance(value, dict) else value


def digest_of(value: Any) -> str | None:
    """The digest of the page of a released value, None where it has none (versions before 0.2.0)."""
    found = value.get(DIGEST) if isinstance(value, dict) else None
    return None if found is None else str(found)
