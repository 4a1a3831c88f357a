-- Priorities: 1 is high, 0 normal and -1 low. A queue has consumers for all of them or for the normal
-- jobs alone.
ALTER TABLE queues ADD COLUMN priorities INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;

DROP INDEX jobs_due;
CREATE INDEX jobs_due ON jobs (queue, priority, due) WHERE owner IS NULL AND solo IS NULL;

-- Programs that kept the schema before have written priorities into the headers alone.
UPDATE jobs SET priority = 1 WHERE headers LIKE '%"jobq-priority":"high"%';
UPDATE jobs SET priority = -1 WHERE headers LIKE '%"jobq-priority":"low"%';
UPDATE queues SET priorities = 1 WHERE id IN (SELECT queue FROM jobs WHERE priority <> 0);
