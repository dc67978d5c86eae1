ALTER TABLE appearances ADD COLUMN places INTEGER;
CREATE INDEX trail_by_action ON trail (action, target, seq)
