ALTER TABLE loops ADD COLUMN beside INTEGER NOT NULL DEFAULT 0;
UPDATE loops SET beside = (SELECT count(*) FROM events WHERE events.loop = loops.id)
  - (SELECT count(*) FROM events WHERE events.loop = loops.id AND events.round IS NOT NULL)
