-- The program that enqueued the job and the crate of its payload type.
ALTER TABLE jobs ADD COLUMN enqueued_by TEXT;
ALTER TABLE failed ADD COLUMN enqueued_by TEXT;
ALTER TABLE events ADD COLUMN enqueued_by TEXT;
