-- Which process an owner is, where its system tells: see `process.rs`.
ALTER TABLE owners ADD COLUMN process TEXT;

-- The clock by which jobs are due, one row: see `clock.rs`. `boot` names the start of the
-- machine, `ahead` is from there to the clock, and `last` is a time that was.
CREATE TABLE clock (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    boot TEXT NOT NULL,
    ahead INTEGER NOT NULL,
    last INTEGER NOT NULL
) STRICT;
