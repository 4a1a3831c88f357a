use serde::Serialize;

/// A file of jobs that was brought to the schema of this version of jobq, by
/// [`ClientBuilder::migrate`](crate::ClientBuilder::migrate).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Migrated {
    /// The schema that it had; 0 for an empty file.
    pub from: u64,
    /// The schema that it has.
    pub to: u64,
    /// Whether it got the clock of this process in place of one of another time namespace.
    pub clock_replaced: bool,
}
