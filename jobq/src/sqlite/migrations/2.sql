-- Who gets which events.
CREATE TABLE subscriptions (
    queue INTEGER NOT NULL,
    pattern TEXT NOT NULL,
    PRIMARY KEY (queue, pattern)
) STRICT, WITHOUT ROWID;

-- Events that wait. When they are due, each subscriber that there is then gets a job.
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    due INTEGER NOT NULL,
    job_id BLOB NOT NULL CHECK (length(job_id) = 16),
    published_at INTEGER NOT NULL,
    expires_at INTEGER,
    topic TEXT NOT NULL,
    payload BLOB NOT NULL
) STRICT;

CREATE INDEX events_due ON events (namespace, due);
