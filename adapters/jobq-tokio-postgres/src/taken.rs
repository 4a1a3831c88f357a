use std::sync::Arc;

use async_trait::async_trait;
use jobq::Result;
use jobq::relay::{Settled, Taken};
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use crate::connections::{Connections, execute, run};

const DELETE: &str = "DELETE FROM jobq_outbox WHERE seq = ANY($1::bigint[])";

const REFUSE: &str = "\
UPDATE jobq_outbox SET tries = least(tries, 1000000) + 1, error = refusal.error, \
retry_at = clock_timestamp() + refusal.wait * interval '1 millisecond' \
FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS refusal (seq, error, wait) \
WHERE jobq_outbox.seq = refusal.seq";

/// Rows in an open transaction. Its connection is closed when this is dropped, which rolls it back.
#[derive(Debug)]
pub(crate) struct TakenRows {
    client: OpenTransaction,
    connections: Arc<Connections>,
}

/// A connection in a transaction.
struct OpenTransaction(Client);

impl std::fmt::Debug for OpenTransaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a connection in a transaction")
    }
}

impl TakenRows {
    pub(crate) fn new(client: Client, connections: Arc<Connections>) -> Self {
        Self { client: OpenTransaction(client), connections }
    }
}

#[async_trait]
impl Taken for TakenRows {
    async fn settle(self: Box<Self>, settled: Settled) -> Result<()> {
        let Self { client: OpenTransaction(client), connections } = *self;
        let doing = format!("settling rows of {}", connections.name());
        let mut seqs = Vec::new();
        let (mut errors, mut waits) = (Vec::new(), Vec::new());
        for refusal in &settled.refused {
            seqs.push(refusal.seq);
            errors.push(&*refusal.error);
            waits.push(i64::try_from(refusal.retry_in.as_millis()).unwrap_or(i64::MAX));
        }
        execute(&client, &doing, DELETE, &[(&settled.sent, Type::INT8_ARRAY)]).await?;
        if !seqs.is_empty() {
            let parameters: [(&(dyn ToSql + Sync), Type); 3] = [
                (&seqs, Type::INT8_ARRAY),
                (&errors, Type::TEXT_ARRAY),
                (&waits, Type::INT8_ARRAY),
            ];
            execute(&client, &doing, REFUSE, &parameters).await?;
        }
        run(&client, &doing, "COMMIT").await?;
        connections.give_back(client);
        Ok(())
    }
}
