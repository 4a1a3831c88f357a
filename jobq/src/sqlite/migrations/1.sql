-- Times are milliseconds since 1970.

CREATE TABLE queues (
    id INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (namespace, name)
) STRICT;

-- The engines that take jobs. An id is never given twice: it tells the deliveries of
-- an engine that has lost its lease from those of its successor.
CREATE TABLE owners (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    until INTEGER NOT NULL
) STRICT;

-- Jobs that run, or will. `owner` has the job in hand; `attempts` are used up.
CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    due INTEGER NOT NULL,
    owner INTEGER,
    attempts INTEGER NOT NULL,
    job_id BLOB NOT NULL CHECK (length(job_id) = 16),
    enqueued_at INTEGER NOT NULL,
    retry_wait INTEGER,
    expires_at INTEGER,
    name TEXT,
    topic TEXT,
    payload BLOB NOT NULL
) STRICT;

CREATE INDEX jobs_due ON jobs (queue, due) WHERE owner IS NULL;
CREATE INDEX jobs_in_hand ON jobs (owner) WHERE owner IS NOT NULL;

-- Jobs that failed for good, in the order in which they did.
CREATE TABLE failed (
    seq INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    failed_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    reason TEXT NOT NULL,
    error TEXT NOT NULL,
    job_id BLOB NOT NULL CHECK (length(job_id) = 16),
    enqueued_at INTEGER NOT NULL,
    retry_wait INTEGER,
    name TEXT,
    topic TEXT,
    payload BLOB NOT NULL
) STRICT;

CREATE INDEX failed_oldest ON failed (queue);
CREATE INDEX failed_by_id ON failed (queue, job_id);
