-- Jobs and events that a program has written in transactions of its own, and steps that jobs have done
-- there. docs/outbox.md describes each column. A program may have made the tables before.
CREATE TABLE IF NOT EXISTS jobq_outbox (
    seq              INTEGER PRIMARY KEY AUTOINCREMENT,
    version          INTEGER NOT NULL DEFAULT 1,
    namespace        TEXT NOT NULL DEFAULT 'jobq',
    queue            TEXT,
    topic            TEXT,
    name             TEXT,
    job_id           TEXT NOT NULL,
    enqueued_at      INTEGER NOT NULL
                     DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    due_at           INTEGER,
    expires_at       INTEGER,
    retry_wait       INTEGER,
    content_encoding TEXT,
    enqueued_by      TEXT,
    headers          TEXT NOT NULL DEFAULT '{}',
    payload          BLOB NOT NULL,
    tries            INTEGER NOT NULL DEFAULT 0,
    retry_at         INTEGER,
    error            TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS jobq_outbox_retry_at ON jobq_outbox (namespace, retry_at);

CREATE TABLE IF NOT EXISTS jobq_inbox (
    namespace TEXT NOT NULL,
    queue     TEXT NOT NULL,
    name      TEXT NOT NULL,
    job_id    TEXT NOT NULL,
    step      TEXT NOT NULL,
    done_at   INTEGER NOT NULL
              DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    PRIMARY KEY (namespace, queue, name, job_id, step)
) STRICT;
CREATE INDEX IF NOT EXISTS jobq_inbox_done_at ON jobq_inbox (done_at);
