ALTER TABLE events ADD COLUMN erased TEXT;
ALTER TABLE events ADD COLUMN room BLOB;
ALTER TABLE loops ADD COLUMN released INTEGER NOT NULL DEFAULT 0;
ALTER TABLE loops ADD COLUMN aged INTEGER NOT NULL DEFAULT 0;
ALTER TABLE loops DROP COLUMN forgotten;
CREATE INDEX events_by_time ON events (loop, decided) WHERE decided IS NOT NULL;
CREATE INDEX appearances_by_event ON appearances (loop, event);
UPDATE loops SET released = coalesce((SELECT max(stop) FROM blocks WHERE blocks.loop = loops.id), erased);
UPDATE loops SET erased = 0;
UPDATE events SET erased = 'all' WHERE decided IS NULL;
UPDATE events SET room = zeroblob(40) WHERE context IS NOT NULL OR reward IS NOT NULL;
INSERT INTO meta (key, value) VALUES ('packed', '0')
