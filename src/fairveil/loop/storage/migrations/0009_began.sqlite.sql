ALTER TABLE loops ADD COLUMN began TEXT NOT NULL DEFAULT '[]';
UPDATE loops SET began = '[' || coalesce((SELECT min(round) FROM events WHERE events.loop = loops.id), round) || ']'
  WHERE config LIKE '%"start_from": "%'
