use std::sync::Arc;

use async_trait::async_trait;
use jobq::relay::{Settled, Taken};
use jobq::{Error, ErrorKind, Result};
use sqlx::Sqlite;

use crate::dialect::Dialect as _;
use crate::outbox::Table;
use crate::statement::Statement;

/// Ends a take that nobody has taken over, so that another relay may take rows.
const RELEASE: &str = "\
UPDATE jobq_relay SET held_until = 0 WHERE namespace = ? AND holder = ? AND takes = ?";

/// Rows that were read. No transaction is open.
#[derive(Debug)]
pub(super) struct TakenRows {
    pub(super) table: Arc<Table<Sqlite>>,
    pub(super) namespace: String,
    pub(super) holder: String,
    /// The number of the take.
    pub(super) number: i64,
}

#[async_trait]
impl Taken for TakenRows {
    async fn settle(self: Box<Self>, settled: Settled) -> Result<()> {
        const DOING: &str = "settling rows of";
        let table = &self.table;
        let mut connection = table.connections.get().await?;
        table.run(&mut connection, DOING, Sqlite::BEGIN).await?;
        let values = [(&*self.namespace).into(), (&*self.holder).into(), self.number.into()];
        let release = Statement::new(RELEASE, &values);
        if table.execute(&mut connection, DOING, release).await? == 0 {
            // The connection is closed, which ends its transaction.
            let text = format!(
                "{DOING} {}: another relay has taken them over, since this one was too slow; it may \
                 send them a second time",
                table.name()
            );
            return Err(Error::new(ErrorKind::Conflict, text));
        }
        table.settle(&mut connection, &settled).await?;
        table.run(&mut connection, DOING, "COMMIT").await?;
        table.connections.give_back(connection);
        Ok(())
    }
}
