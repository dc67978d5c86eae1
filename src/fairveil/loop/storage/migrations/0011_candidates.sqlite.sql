ALTER TABLE place_appearances ADD COLUMN places INTEGER
