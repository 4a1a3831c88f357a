use super::expect::{Record, Recorded};

/// The value of a future, and what was enqueued and published while it was awaited: see
/// [`Jobs::during`](super::Jobs::during). The assertions take it in place of
/// [`Jobs`](super::Jobs).
#[derive(Debug, Clone)]
pub struct During<T> {
    /// The value of the future.
    pub value: T,
    pub(super) record: Record,
}

impl<T> Recorded for During<T> {
    fn record(&self) -> Record {
        self.record.clone()
    }
}
