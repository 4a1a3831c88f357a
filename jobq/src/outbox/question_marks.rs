//! What databases have in common whose parameters are question marks.

/// Inserts a row.
pub(super) const INSERT: &str = "\
INSERT INTO jobq_outbox (version, namespace, queue, topic, name, job_id, enqueued_at, due_at, expires_at, \
retry_wait, content_encoding, enqueued_by, headers, payload) \
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
