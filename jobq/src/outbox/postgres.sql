-- Version 1 of the tables of jobq for PostgreSQL 12 and later. docs/outbox.md describes each column.

-- Jobs and events that were enqueued inside a transaction. A relay sends and deletes them.
CREATE TABLE jobq_outbox (
    seq              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    version          smallint NOT NULL DEFAULT 1,
    namespace        text NOT NULL DEFAULT 'jobq',
    queue            text,
    topic            text,
    name             text,
    job_id           uuid NOT NULL,
    enqueued_at      timestamptz NOT NULL DEFAULT now(),
    due_at           timestamptz,
    expires_at       timestamptz,
    retry_wait       bigint,
    content_encoding text,
    enqueued_by      text,
    headers          json NOT NULL DEFAULT '{}',
    payload          bytea NOT NULL,
    tries            integer NOT NULL DEFAULT 0,
    retry_at         timestamptz,
    error            text
);

-- Steps that jobs have done.
CREATE TABLE jobq_inbox (
    namespace text NOT NULL,
    queue     text NOT NULL,
    name      text NOT NULL,
    job_id    uuid NOT NULL,
    step      text NOT NULL,
    done_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, queue, name, job_id, step)
);
CREATE INDEX jobq_inbox_done_at ON jobq_inbox USING brin (done_at);
