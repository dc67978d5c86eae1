CREATE TABLE places (
  loop BIGINT NOT NULL, place BIGINT NOT NULL, event BYTEA NOT NULL, decided BIGINT NOT NULL, until BIGINT NOT NULL,
  action BIGINT NOT NULL, propensity DOUBLE PRECISION NOT NULL, mode TEXT NOT NULL, content BYTEA NOT NULL,
  PRIMARY KEY (loop, place)
);
CREATE UNIQUE INDEX places_by_event ON places (loop, event);
CREATE TABLE place_people (
  loop BIGINT NOT NULL, key BYTEA NOT NULL, places BIGINT NOT NULL, PRIMARY KEY (loop, key)
);
CREATE TABLE place_appearances (
  loop BIGINT NOT NULL, subject BYTEA NOT NULL, place BIGINT NOT NULL, PRIMARY KEY (loop, subject, place)
);
CREATE INDEX place_appearances_by_place ON place_appearances (loop, place);
CREATE TABLE reporting (
  loop BIGINT PRIMARY KEY, place BIGINT NOT NULL, settled BIGINT NOT NULL, first BIGINT NOT NULL,
  erased BIGINT NOT NULL, limited BIGINT NOT NULL, sticky BIGINT NOT NULL, shadow BIGINT NOT NULL
);
CREATE TABLE reports (
  loop BIGINT NOT NULL, kind TEXT NOT NULL, first BIGINT NOT NULL, stop BIGINT NOT NULL, epoch BIGINT NOT NULL,
  status TEXT NOT NULL, scheduled BIGINT NOT NULL, settings TEXT NOT NULL, request TEXT, created BIGINT NOT NULL,
  PRIMARY KEY (loop, kind, first, stop)
);
