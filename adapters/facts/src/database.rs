use jobq::relay::Source;
use jobq::{Client, RunningPool};

use crate::{Effects, pool};

/// A private database, in which the facts run. It ends with the test.
pub trait Database: Send + Sync + Sized + 'static {
    /// The source of its relay.
    type Outbox: Source;

    /// Starts it, with the tables of jobq in it.
    fn start() -> Self;

    /// The URL for its owner.
    fn url(&self) -> String;

    /// The source of its relay, which is there.
    fn outbox(&self) -> impl Future<Output = Self::Outbox> + Send;

    /// The URL of the engine whose pool runs the jobs.
    fn engine(&self) -> String {
        "sqlite::memory:".to_owned()
    }

    /// Starts a pool that gets the jobs of the rows.
    fn pool(&self, client: &Client) -> impl Future<Output = (RunningPool, Effects)> + Send {
        async { pool(client, self.outbox().await).await }
    }

    /// Runs statements as the owner, and gives what they printed: a line for each row.
    fn sql(&self, statements: &str) -> String;
}

/// A database with users.
pub trait Users: Database {
    /// Makes a user without a right on the tables of jobq, and gives the URL.
    fn add_clerk(&self) -> String;

    /// Grants that user to insert into `jobq_outbox`.
    fn let_clerk_enqueue(&self);
}
