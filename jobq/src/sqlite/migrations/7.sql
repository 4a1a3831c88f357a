-- Paused queues; a queue may be paused before it is declared.
CREATE TABLE pauses (
    namespace TEXT NOT NULL,
    queue TEXT NOT NULL,
    since INTEGER,
    paused_by TEXT,
    why TEXT,
    PRIMARY KEY (namespace, queue)
) STRICT, WITHOUT ROWID;

-- `deleted`: set until it is declared again.
ALTER TABLE queues ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0;

-- `lists`: whether the owner lists its pools and consumers in the tables below. Earlier versions of
-- jobq do not.
ALTER TABLE owners ADD COLUMN lists INTEGER NOT NULL DEFAULT 0;

-- The pools that answer questions.
CREATE TABLE pools (
    id TEXT PRIMARY KEY,
    owner INTEGER NOT NULL,
    namespace TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The consumers that take jobs, and the pools that they belong to. Those of paused queues are not
-- listed.
CREATE TABLE consumers (
    name TEXT PRIMARY KEY,
    owner INTEGER NOT NULL,
    queue INTEGER NOT NULL,
    pool TEXT
) STRICT, WITHOUT ROWID;

-- Questions and orders to pools, a row for each pool that is asked, and its answer: both JSON.
-- Whoever asks deletes them, or does so for another when they have ended.
CREATE TABLE questions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    ends INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    pool TEXT NOT NULL,
    question TEXT NOT NULL,
    answer TEXT
) STRICT;
