use std::sync::Arc;

use async_trait::async_trait;
use jobq::Result;
use jobq::relay::{Settled, Taken};
use sqlx::{MySql, MySqlConnection};

use crate::outbox::Table;
use crate::statement::Statement;

/// Takes the lock of a namespace, without a wait. The server releases it when the connection ends.
pub(super) const LOCK: &str = "\
SELECT get_lock(concat('jobq.', sha1(concat(database(), '.jobq_outbox.', ?))), 0)";

const RELEASE: &str = "\
SELECT release_lock(concat('jobq.', sha1(concat(database(), '.jobq_outbox.', ?))))";

/// Rows in an open transaction. Its connection is closed when this is dropped, which rolls it back.
#[derive(Debug)]
pub(super) struct TakenRows {
    pub(super) connection: MySqlConnection,
    pub(super) table: Arc<Table<MySql>>,
    pub(super) namespace: String,
}

#[async_trait]
impl Taken for TakenRows {
    async fn settle(self: Box<Self>, settled: Settled) -> Result<()> {
        let Self { mut connection, table, namespace } = *self;
        table.settle(&mut connection, &settled).await?;
        table.run(&mut connection, "settling rows of", "COMMIT").await?;
        // Without an answer, the connection is closed, which releases the lock, too.
        let _ = release(&table, connection, &namespace).await;
        Ok(())
    }
}

/// Releases the lock, and gives the connection back.
pub(super) async fn release(
    table: &Table<MySql>,
    mut connection: MySqlConnection,
    namespace: &str,
) -> Result<()> {
    let release = Statement::new(RELEASE, &[namespace.into()]);
    table.number(&mut connection, "giving back the lock of", release).await?;
    table.connections.give_back(connection);
    Ok(())
}
