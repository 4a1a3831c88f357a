-- Version 1 of the tables of jobq for MariaDB 10.6 and MySQL 8.0 and later. docs/outbox.md describes each
-- column. Times are milliseconds since 1970: a datetime would mean another time in each session's time
-- zone.
--
-- Each statement commits by itself, so a migration may stop between two of them: run it again then.

-- Jobs and events that were enqueued inside a transaction. A relay sends and deletes them.
CREATE TABLE IF NOT EXISTS jobq_outbox (
    seq              bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    version          smallint NOT NULL DEFAULT 1,
    namespace        varchar(32) NOT NULL DEFAULT 'jobq',
    queue            varchar(255),
    topic            varchar(255),
    name             varchar(255),
    job_id           char(36) NOT NULL,
    enqueued_at      bigint NOT NULL
                     DEFAULT (timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(3)) DIV 1000),
    due_at           bigint,
    expires_at       bigint,
    retry_wait       bigint,
    content_encoding varchar(255),
    enqueued_by      varchar(255),
    headers          mediumtext NOT NULL DEFAULT ('{}'),
    payload          longblob NOT NULL,
    tries            int NOT NULL DEFAULT 0,
    retry_at         bigint,
    error            mediumtext
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Steps that jobs have done. In a text, a space at the end would not count.
CREATE TABLE IF NOT EXISTS jobq_inbox (
    namespace varchar(32) NOT NULL,
    queue     varchar(255) NOT NULL,
    name      varchar(255) NOT NULL,
    job_id    char(36) NOT NULL,
    step      varbinary(120) NOT NULL,
    done_at   bigint NOT NULL
              DEFAULT (timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(3)) DIV 1000),
    PRIMARY KEY (namespace, queue, name, job_id, step),
    KEY jobq_inbox_done_at (done_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
