CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE loops (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, config TEXT NOT NULL, mode TEXT NOT NULL,
  round INTEGER NOT NULL, settled INTEGER NOT NULL, version INTEGER NOT NULL, revision INTEGER NOT NULL,
  epoch INTEGER NOT NULL, clock INTEGER NOT NULL, erased INTEGER NOT NULL, forgotten INTEGER NOT NULL,
  ledger_sequence INTEGER NOT NULL, stopped TEXT, state BLOB NOT NULL, created INTEGER NOT NULL, closed INTEGER
);
CREATE TABLE blocks (
  loop INTEGER NOT NULL, epoch INTEGER NOT NULL, name TEXT NOT NULL, first INTEGER NOT NULL, stop INTEGER NOT NULL,
  status TEXT NOT NULL, released_at INTEGER, PRIMARY KEY (loop, epoch, name)
) WITHOUT ROWID;
CREATE TABLE events (
  seq INTEGER PRIMARY KEY, loop INTEGER NOT NULL, key BLOB NOT NULL, body BLOB, round INTEGER, decided INTEGER,
  until INTEGER, action INTEGER, propensity REAL, version INTEGER, mode TEXT, learn TEXT, reason TEXT,
  activated INTEGER, own INTEGER, reward REAL, rewarded INTEGER, context BLOB
);
CREATE UNIQUE INDEX events_by_key ON events (loop, key);
CREATE INDEX events_by_round ON events (loop, round) WHERE round IS NOT NULL;
CREATE TABLE subjects (
  loop INTEGER NOT NULL, key BLOB NOT NULL, events INTEGER NOT NULL, action INTEGER, propensity REAL,
  PRIMARY KEY (loop, key)
) WITHOUT ROWID;
CREATE TABLE appearances (
  loop INTEGER NOT NULL, subject BLOB NOT NULL, event BLOB NOT NULL, PRIMARY KEY (loop, subject, event)
) WITHOUT ROWID;
CREATE TABLE releases (
  loop INTEGER NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, first INTEGER, stop INTEGER, settings TEXT NOT NULL,
  block TEXT, value TEXT NOT NULL, created INTEGER NOT NULL, PRIMARY KEY (loop, id)
) WITHOUT ROWID;
CREATE TABLE tokens (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, roles TEXT NOT NULL, loop TEXT, hash BLOB NOT NULL, created INTEGER NOT NULL,
  expires INTEGER, revoked INTEGER
) WITHOUT ROWID;
CREATE TABLE trail (
  seq INTEGER PRIMARY KEY, time INTEGER NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL, target TEXT NOT NULL,
  facts TEXT NOT NULL, hash TEXT NOT NULL
);
