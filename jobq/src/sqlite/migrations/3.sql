-- `crashes`: how many owners of the job died. `solo`: set where it is to be run alone; how
-- often it was started so.
ALTER TABLE jobs ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN solo INTEGER;

DROP INDEX jobs_due;
CREATE INDEX jobs_due ON jobs (queue, due) WHERE owner IS NULL AND solo IS NULL;
CREATE INDEX jobs_solo ON jobs (queue, due) WHERE solo IS NOT NULL;
