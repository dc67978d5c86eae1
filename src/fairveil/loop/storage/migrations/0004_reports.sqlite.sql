CREATE TABLE places (
  loop INTEGER NOT NULL, place INTEGER NOT NULL, event BLOB NOT NULL, decided INTEGER NOT NULL, until INTEGER NOT NULL,
  action INTEGER NOT NULL, propensity REAL NOT NULL, mode TEXT NOT NULL, content BLOB NOT NULL,
  PRIMARY KEY (loop, place)
) WITHOUT ROWID;
CREATE UNIQUE INDEX places_by_event ON places (loop, event);
CREATE TABLE place_people (
  loop INTEGER NOT NULL, key BLOB NOT NULL, places INTEGER NOT NULL, PRIMARY KEY (loop, key)
) WITHOUT ROWID;
CREATE TABLE place_appearances (
  loop INTEGER NOT NULL, subject BLOB NOT NULL, place INTEGER NOT NULL, PRIMARY KEY (loop, subject, place)
) WITHOUT ROWID;
CREATE INDEX place_appearances_by_place ON place_appearances (loop, place);
CREATE TABLE reporting (
  loop INTEGER PRIMARY KEY, place INTEGER NOT NULL, settled INTEGER NOT NULL, first INTEGER NOT NULL,
  erased INTEGER NOT NULL, limited INTEGER NOT NULL, sticky INTEGER NOT NULL, shadow INTEGER NOT NULL
);
CREATE TABLE reports (
  loop INTEGER NOT NULL, kind TEXT NOT NULL, first INTEGER NOT NULL, stop INTEGER NOT NULL, epoch INTEGER NOT NULL,
  status TEXT NOT NULL, scheduled INTEGER NOT NULL, settings TEXT NOT NULL, request TEXT, created INTEGER NOT NULL,
  PRIMARY KEY (loop, kind, first, stop)
) WITHOUT ROWID;
