-- Version 1 of the tables of jobq for SQLite 3.37 and later. docs/outbox.md describes each column.
-- Times are milliseconds since 1970.

-- Jobs and events that were enqueued inside a transaction. A relay sends and deletes them.
CREATE TABLE jobq_outbox (
    -- Numbers ascend even after the last row was deleted.
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

-- Steps that jobs have done.
CREATE TABLE jobq_inbox (
    namespace TEXT NOT NULL,
    queue     TEXT NOT NULL,
    name      TEXT NOT NULL,
    job_id    TEXT NOT NULL,
    step      TEXT NOT NULL,
    done_at   INTEGER NOT NULL
              DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    PRIMARY KEY (namespace, queue, name, job_id, step)
) STRICT;
CREATE INDEX jobq_inbox_done_at ON jobq_inbox (done_at);

-- The relay that works, of each namespace. A file has no connections that the end of a process closes.
CREATE TABLE jobq_relay (
    namespace  TEXT PRIMARY KEY,
    holder     TEXT NOT NULL,
    takes      INTEGER NOT NULL,
    held_until INTEGER NOT NULL
) STRICT;
