ALTER TABLE loops ADD COLUMN due BIGINT NOT NULL DEFAULT 0;
ALTER TABLE loops ADD COLUMN ledger TEXT;
UPDATE loops SET ledger = coalesce(config::json #>> '{budget,ledger}', name);
CREATE INDEX loops_by_due ON loops (due);
CREATE INDEX loops_by_ledger ON loops (ledger);
CREATE INDEX loops_stopped ON loops (stopped) WHERE stopped IS NOT NULL;
CREATE INDEX releases_by_time ON releases (loop, created);
CREATE TABLE budgets (ledger TEXT PRIMARY KEY, sequence BIGINT NOT NULL, words TEXT NOT NULL);
