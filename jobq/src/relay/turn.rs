//! One turn of a relay: it takes rows, sends them, and settles them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::cursor::Cursor;
use super::queues::Queues;
use super::sending::{Outcome, send};
use super::source::{Refusal, Source, StoredRow, Take, Taking};
use crate::client::Client;
use crate::engine::closed;
use crate::error::{Error, ErrorKind, Result};
use crate::job::Envelope;
use crate::outbox::Content;

/// How long a turn waits for the engine: a transaction that is open keeps the database from vacuuming all
/// tables.
const HOLD: Duration = Duration::from_secs(10);
/// How long the database may take for one call.
const CALL: Duration = Duration::from_secs(10);

/// What a turn has done.
#[derive(Debug)]
pub(super) enum Turn {
    /// Another relay works on the table.
    Standby,
    /// There was nothing to do.
    Idle,
    /// Rows were settled.
    Worked {
        sent: usize,
        refused: Vec<Refusal>,
        /// There may be more rows.
        is_full: bool,
        /// Why others were given back.
        given_back: Option<Error>,
    },
}

/// Takes turns.
#[derive(Debug)]
pub(super) struct Turns {
    client: Client,
    source: Arc<dyn Source>,
    cursor: Cursor,
    queues: Queues,
}

impl Turns {
    pub(super) fn new(client: Client, source: Arc<dyn Source>) -> Self {
        let queues = Queues::new(&client);
        Self { client, source, cursor: Cursor::new(Instant::now()), queues }
    }

    /// # Errors
    ///
    /// A database or an engine that cannot be reached or refuses. What was taken is given back, unless
    /// it was settled.
    pub(super) async fn take(&mut self) -> Result<Turn> {
        let turn = self.try_take().await;
        if matches!(turn, Err(_) | Ok(Turn::Worked { given_back: Some(_), .. })) {
            self.cursor.gave_back();
        }
        turn
    }

    async fn try_take(&mut self) -> Result<Turn> {
        if self.client.is_closed() {
            return Err(closed());
        }
        self.client.engine().ready().await?;
        let mut take = Take::new(self.client.namespace());
        take.after = self.cursor.next(Instant::now());
        take.largest_payload = self.client.engine().capabilities().largest_payload;
        let (rows, is_full, taken) =
            match self.in_time("taking rows", self.source.take(&take)).await? {
                Taking::Standby => {
                    // What the other one leaves may be anywhere.
                    self.cursor.gave_back();
                    return Ok(Turn::Standby);
                }
                Taking::Nothing => {
                    self.cursor.took_nothing();
                    return Ok(Turn::Idle);
                }
                Taking::Rows { rows, is_full, taken } => (rows, is_full, taken),
            };
        let last = rows.last().map_or(0, |row| row.seq);
        let outcome = self.send(rows, Instant::now() + HOLD).await?;
        let (sent, refused) = (outcome.settled.sent.len(), outcome.settled.refused.clone());
        if sent + refused.len() > 0 {
            self.in_time("deleting the rows that were sent", taken.settle(outcome.settled)).await?;
        }
        self.cursor.took(Instant::now(), last, is_full);
        Ok(Turn::Worked { sent, refused, is_full, given_back: outcome.given_back })
    }

    /// Sends rows until then, and returns what became of each.
    async fn send(&mut self, rows: Vec<StoredRow>, deadline: Instant) -> Result<Outcome> {
        let engine = Arc::clone(self.client.engine());
        let (largest, now) = (engine.capabilities().largest_payload, self.client.clock().now());
        let mut outcome = Outcome::default();
        let (mut numbers, mut contents) = (Vec::new(), Vec::new());
        for StoredRow { seq, tries, row } in rows {
            let content = match row.and_then(|row| Content::read(row, largest, now)) {
                Ok(content) => content,
                Err(error) => {
                    outcome.add(seq, tries, Err(error));
                    continue;
                }
            };
            if let Content::Job(job) = &content
                && let Some(missing) = self.missing(job, deadline).await?
            {
                outcome.add(seq, tries, Err(missing));
                continue;
            }
            numbers.push((seq, tries));
            contents.push(content);
        }
        let sent = send(&*engine, contents, deadline).await;
        for ((seq, tries), sent) in numbers.into_iter().zip(sent) {
            outcome.add(seq, tries, sent);
        }
        Ok(outcome)
    }

    async fn missing(&mut self, job: &Envelope, deadline: Instant) -> Result<Option<Error>> {
        let looking = timeout_at(deadline, self.queues.missing(job)).await;
        looking.unwrap_or_else(|_| Err(self.late("looking at the queues of rows", HOLD)))
    }

    async fn in_time<T>(&self, doing: &str, call: impl Future<Output = Result<T>>) -> Result<T> {
        timeout(CALL, call).await.unwrap_or_else(|_| Err(self.late(doing, CALL)))
    }

    fn late(&self, doing: &str, limit: Duration) -> Error {
        let (source, limit) = (self.source.name(), crate::period::format(limit));
        Error::new(ErrorKind::Timeout, format!("{doing} of {source}: no answer in {limit}"))
    }
}
