//! Questions to pools: of this engine directly, of others through the file.

use std::collections::BTreeSet;
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tokio::time::{Instant, sleep};

use super::pools::Pools;
use crate::background;
use crate::engine::{
    Answers, Ask, Controlled, Figure, ListedConsumer, PoolId, Question, Reply, ask_each,
    unaccounted,
};
use crate::error::{Error, Result};
use crate::sqlite::failure::Failure;
use crate::sqlite::inbox::Inbox;
use crate::sqlite::store::Store;
use crate::sqlite::{columns, process};

/// The pause between two looks for answers.
const BETWEEN_LOOKS: Duration = Duration::from_millis(25);

/// Asks pools, and collects their answers. Without pools of other engines, or the right to ask them,
/// nothing is written.
pub(super) async fn ask(inbox: &Inbox, pools: &Pools, ask: Ask) -> Result<Answers> {
    let Ask { question, pool, queues, patience } = ask;
    let text = Arc::new(serde_json::to_string(&question).map_err(|error| {
        Error::invalid("cannot serialize the query to the pools").with_source(error)
    })?);
    let own = pools.get(pool);
    let own_ids: BTreeSet<_> = own.iter().map(|pool| pool.id().to_string()).collect();
    let others = inbox.read(move |store| others(store, pool, &own_ids)).await?;
    let (mut numbers, mut unable) = (NONE, None);
    if !others.is_empty() {
        match inbox.try_call(move |store| put(store, &text, &others, patience)).await {
            Ok(put) => numbers = put,
            // Only looking is possible without it.
            Err(Failure::ReadOnly(_)) if question == Question::Report => {
                unable = Some(
                    "this user has read-only access to the job file, but queries to pools are \
                     written to it",
                );
            }
            Err(failure) => return Err(failure.error()),
        }
    }
    let waiting = wait(inbox, numbers, patience);
    let (mut replies, waited) = tokio::join!(ask_each(own, &question, patience), waiting);
    waited?;
    if numbers != NONE {
        replies.extend(inbox.call(move |store| take(store, numbers)).await?);
    }
    let consumers = match unable {
        Some(why) => Figure::unknown(why),
        None => inbox.read(|store| consumers(store)).await?,
    };
    let unaccounted = match consumers {
        Figure::Known(consumers) => unaccounted(&queues, &consumers, &replies),
        Figure::Unknown(why) => {
            queues.into_iter().map(|queue| (queue, Figure::Unknown(why.clone()))).collect()
        }
    };
    Ok(Answers::new(replies, unaccounted))
}

/// The first and the last number of no questions.
const NONE: (i64, i64) = (1, 0);

/// The living pools of other engines, each with its owner: the one with this id, or all.
fn others(
    store: &Store<'_>,
    pool: Option<PoolId>,
    own: &BTreeSet<String>,
) -> rusqlite::Result<Vec<(String, i64)>> {
    let living = Owners::read(store.connection)?.living;
    let sql = "SELECT id, owner FROM pools WHERE namespace = ?1 AND (?2 IS NULL OR id = ?2)";
    let mut select = store.connection.prepare_cached(sql)?;
    let mut rows = select.query((store.namespace, pool.map(|pool| pool.to_string())))?;
    let mut others = Vec::new();
    while let Some(row) = rows.next()? {
        let (id, owner) = (columns::text(row, 0)?, row.get(1)?);
        if !own.contains(&id) && living.contains(&owner) {
            others.push((id, owner));
        }
    }
    Ok(others)
}

/// Writes a question to pools of other engines, and returns the first and the last number. A pool
/// that has left meanwhile would not answer, and nobody would for it.
fn put(
    store: &Store<'_>,
    question: &str,
    pools: &[(String, i64)],
    patience: Duration,
) -> rusqlite::Result<(i64, i64)> {
    let now = store.clock.now();
    store.connection.prepare_cached("DELETE FROM questions WHERE ends < ?1")?.execute([now])?;
    let ends = now.saturating_add(columns::of_wait(patience));
    let sql = "INSERT INTO questions (ends, owner, pool, question)
        SELECT ?1, owner, id, ?4 FROM pools WHERE id = ?3 AND owner = ?2";
    let mut insert = store.connection.prepare_cached(sql)?;
    let mut numbers = NONE;
    for (id, owner) in pools {
        if insert.execute((ends, owner, id, question))? > 0 {
            let number = store.connection.last_insert_rowid();
            numbers = (if numbers == NONE { number } else { numbers.0 }, number);
        }
    }
    Ok(numbers)
}

/// Waits until all questions are answered, or for `patience`.
async fn wait(inbox: &Inbox, (first, last): (i64, i64), patience: Duration) -> Result<()> {
    let start = Instant::now();
    if (first, last) == NONE {
        return Ok(());
    }
    let sql = "SELECT count(*) FROM questions WHERE id BETWEEN ?1 AND ?2 AND answer IS NULL";
    loop {
        let unanswered = inbox.read(move |store| {
            let mut count = store.connection.prepare_cached(sql)?;
            count.query_row((first, last), |row| row.get::<_, i64>(0))
        });
        let unanswered = unanswered.await?;
        let left = patience.saturating_sub(start.elapsed());
        if unanswered == 0 || left.is_zero() {
            return Ok(());
        }
        sleep(BETWEEN_LOOKS.min(left)).await;
    }
}

/// Takes the answers of other engines out of the file.
fn take(store: &Store<'_>, numbers: (i64, i64)) -> rusqlite::Result<Vec<(PoolId, Reply)>> {
    let sql = "DELETE FROM questions WHERE id BETWEEN ?1 AND ?2 RETURNING pool, answer";
    let mut delete = store.connection.prepare_cached(sql)?;
    let mut rows = delete.query(numbers)?;
    let mut others = Vec::new();
    while let Some(row) = rows.next()? {
        let (pool, answer) = (columns::text(row, 0)?, columns::text_or_null(row, 1)?);
        // An answer that cannot be read is from a newer version of jobq.
        if let (Ok(pool), Some(Ok(reply))) =
            (PoolId::from_str(&pool), answer.map(|answer| serde_json::from_str(&answer)))
        {
            others.push((pool, reply));
        }
    }
    Ok(others)
}

/// The consumers of living owners.
pub(super) fn consumers(store: &Store<'_>) -> rusqlite::Result<Figure<Vec<ListedConsumer>>> {
    let owners = Owners::read(store.connection)?;
    if owners.some_do_not_list {
        return Ok(Figure::unknown(
            "a process with an earlier version of jobq consumes this file, but does not report \
             which queues",
        ));
    }
    let sql = "SELECT queues.name, consumers.name, pool, owner FROM consumers
        JOIN queues ON queues.id = queue WHERE namespace = ?1";
    let mut statement = store.connection.prepare_cached(sql)?;
    let mut rows = statement.query([store.namespace])?;
    let mut consumers = Vec::new();
    while let Some(row) = rows.next()? {
        let pool = columns::text_or_null(row, 2)?;
        if owners.living.contains(&row.get(3)?) {
            let pool = pool.and_then(|pool| pool.parse().ok());
            let (queue, name) = (columns::text(row, 0)?, columns::text(row, 1)?);
            consumers.push(ListedConsumer { queue, name, pool });
        }
    }
    Ok(Figure::Known(consumers))
}

/// The owners, as far as one look can tell.
#[derive(Default)]
struct Owners {
    /// Those whose process runs, or whose lease has not run out where that cannot be told.
    living: BTreeSet<i64>,
    /// Whether some of these do not list their consumers.
    some_do_not_list: bool,
}

impl Owners {
    fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let sql = "SELECT id, until, process, lists FROM owners";
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        let (mut owners, now) = (Self::default(), columns::now());
        while let Some(row) = rows.next()? {
            let process = columns::text_or_null(row, 2)?;
            let until: i64 = row.get(1)?;
            let runs = process.as_deref().and_then(process::runs);
            if runs.unwrap_or(until >= now) {
                owners.living.insert(row.get(0)?);
                owners.some_do_not_list |= !row.get::<_, bool>(3)?;
            }
        }
        Ok(owners)
    }
}

/// A question of another engine to a pool of this one.
#[derive(Debug)]
pub(super) struct Unheard {
    pub(super) number: i64,
    pool: String,
    question: String,
}

/// The questions to this owner with higher numbers than `heard` whose time has not run out.
pub(super) fn unheard(
    connection: &Connection,
    owner: i64,
    heard: i64,
    now: i64,
) -> rusqlite::Result<Vec<Unheard>> {
    let sql = "SELECT id, pool, question FROM questions
        WHERE id > ?1 AND owner = ?2 AND ends >= ?3 ORDER BY id";
    let mut statement = connection.prepare_cached(sql)?;
    let unheard = statement.query_map((heard, owner, now), |row| {
        let (pool, question) = (columns::text(row, 1)?, columns::text(row, 2)?);
        Ok(Unheard { number: row.get(0)?, pool, question })
    })?;
    unheard.collect()
}

impl Unheard {
    /// Asks the pool, if it is there still, on a thread of its own.
    pub(super) fn pass_on(self, pools: &Pools, inbox: &Inbox) {
        let answering = Answering { number: self.number, answer: None, inbox: inbox.clone() };
        let pool = self.pool.parse().ok().and_then(|id| pools.get(Some(id)).pop());
        // An unreadable question is from a newer version of jobq.
        if let (Some(pool), Ok(question)) = (pool, serde_json::from_str::<Question>(&self.question))
        {
            let _ = background::spawn_blocking(move || answering.ask(&*pool, &question));
        }
    }
}

/// Writes the answer to a question when it is dropped. Without one, as after a panic, it deletes the
/// question, so that nobody waits for the answer.
struct Answering {
    number: i64,
    answer: Option<String>,
    inbox: Inbox,
}

impl Answering {
    fn ask(mut self, pool: &dyn Controlled, question: &Question) {
        self.answer = serde_json::to_string(&pool.answer(question)).ok();
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let (number, answer) = (self.number, self.answer.take());
        let write = move |store: &mut Store<'_>| {
            let Some(answer) = &answer else {
                let sql = "DELETE FROM questions WHERE id = ?1";
                return store.connection.prepare_cached(sql)?.execute([number]).map(drop);
            };
            let sql = "UPDATE questions SET answer = ?2 WHERE id = ?1";
            store.connection.prepare_cached(sql)?.execute((number, answer)).map(drop)
        };
        drop(self.inbox.call(write));
    }
}
