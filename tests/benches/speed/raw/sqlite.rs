//! Plain `rusqlite`: one thread that writes, with all that waits in one transaction, and
//! takes jobs in batches together with deleting the last ones.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::case::Case;
use crate::gauge::Gauge;
use crate::jobs::{Done, Work, pace};
use crate::sample::Sample;
use crate::scenario::{BATCH, CALLERS, Scenario};

/// A job that is to be written, and who waits for it.
struct Insert {
    payload: Vec<u8>,
    answer: oneshot::Sender<()>,
}

pub(crate) async fn run(case: &Case, url: &str) -> anyhow::Result<Sample> {
    let Case { scenario, jobs, .. } = *case;
    let path = url.strip_prefix("sqlite://").context("a file of SQLite")?.to_owned();
    let done = Done::new(case);
    let measured = match scenario {
        Scenario::Enqueue => {
            let writer = Writer::start(&path, None)?;
            let gauge = Gauge::start()?;
            writer.by_callers(&done, jobs).await?;
            gauge.read(jobs)?
        }
        Scenario::EnqueueAll => {
            let mut connection = open(&path)?;
            let gauge = Gauge::start()?;
            preload(&mut connection, &done, jobs)?;
            gauge.read(jobs)?
        }
        Scenario::Drain => {
            let _writer = Writer::start(&path, Some(Arc::clone(&done)))?;
            done.gauge().await?
        }
        Scenario::Both => {
            let writer = Writer::start(&path, Some(Arc::clone(&done)))?;
            let gauge = Gauge::start()?;
            writer.by_callers(&done, jobs).await?;
            done.all().await;
            gauge.read(jobs)?
        }
        Scenario::Latency => {
            let writer = Writer::start(&path, Some(Arc::clone(&done)))?;
            let (gauge, begin) = (Gauge::start()?, Instant::now());
            for number in 0..jobs {
                pace(begin, number).await;
                let (inserts, job) = (writer.inserts.clone(), done.job());
                tokio::spawn(async move { insert(&inserts, &job).await.expect("it is written") });
            }
            done.all().await;
            Sample { latency: done.latency(), ..gauge.read(jobs)? }
        }
        Scenario::Retry => return Err(anyhow!("SQLite has no retry of its own")),
    };
    Ok(measured)
}

fn open(path: &str) -> anyhow::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS jobs (seq INTEGER PRIMARY KEY, owner INTEGER, payload BLOB NOT NULL);
         CREATE INDEX IF NOT EXISTS ready ON jobs (seq) WHERE owner IS NULL",
    )?;
    Ok(connection)
}

const INSERT: &str = "INSERT INTO jobs (payload) VALUES (?1)";

fn preload(connection: &mut Connection, done: &Arc<Done>, jobs: u32) -> anyhow::Result<()> {
    let mut left = jobs;
    while left > 0 {
        let now = left.min(10_000);
        let transaction = connection.transaction()?;
        let mut statement = transaction.prepare_cached(INSERT)?;
        for _ in 0..now {
            statement.execute([serde_json::to_vec(&done.job())?])?;
        }
        drop(statement);
        transaction.commit()?;
        left -= now;
    }
    Ok(())
}

async fn insert(inserts: &mpsc::Sender<Insert>, job: &Work) -> anyhow::Result<()> {
    let (answer, answered) = oneshot::channel();
    let payload = serde_json::to_vec(job)?;
    inserts.send(Insert { payload, answer }).map_err(|_| anyhow!("the writer is gone"))?;
    Ok(answered.await?)
}

/// The thread that writes; and, where there is somebody who counts them, runs the jobs.
struct Writer {
    inserts: mpsc::Sender<Insert>,
    _thread: JoinHandle<anyhow::Result<()>>,
}

impl Writer {
    fn start(path: &str, runs: Option<Arc<Done>>) -> anyhow::Result<Self> {
        let claimed = i64::try_from(BATCH)?;
        let mut connection = open(path)?;
        let (inserts, received) = mpsc::channel::<Insert>();
        let runtime = tokio::runtime::Handle::current();
        let thread = thread::spawn(move || {
            // Jobs that may be there already.
            let mut ready = runs.is_some();
            let mut taken: Vec<i64> = Vec::new();
            loop {
                let mut group = Vec::new();
                if !ready && taken.is_empty() {
                    let Ok(first) = received.recv() else {
                        return Ok(());
                    };
                    group.push(first);
                }
                group.extend(received.try_iter().take(BATCH - group.len()));
                let transaction = connection.transaction()?;
                let mut write = transaction.prepare_cached(INSERT)?;
                for insert in &group {
                    write.execute([&insert.payload])?;
                }
                drop(write);
                let mut jobs = Vec::new();
                if let Some(done) = &runs {
                    let mut delete =
                        transaction.prepare_cached("DELETE FROM jobs WHERE seq = ?1")?;
                    for seq in taken.drain(..) {
                        delete.execute([seq])?;
                    }
                    drop(delete);
                    let mut claim = transaction.prepare_cached(
                        "UPDATE jobs SET owner = 1 WHERE seq IN
                            (SELECT seq FROM jobs WHERE owner IS NULL ORDER BY seq LIMIT ?1)
                         RETURNING seq, payload",
                    )?;
                    let rows = claim.query_map([claimed], |row| {
                        Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))
                    })?;
                    for row in rows {
                        let (seq, payload) = row?;
                        taken.push(seq);
                        jobs.push((Arc::clone(done), payload));
                    }
                    ready = jobs.len() == BATCH;
                }
                transaction.commit()?;
                for insert in group {
                    let _ = insert.answer.send(());
                }
                for (done, payload) in jobs {
                    runtime.spawn(async move {
                        let job: Work = serde_json::from_slice(&payload).expect("it is a job");
                        done.ran(job.at);
                    });
                }
            }
        });
        Ok(Self { inserts, _thread: thread })
    }

    async fn by_callers(&self, done: &Arc<Done>, jobs: u32) -> anyhow::Result<()> {
        let callers = u32::try_from(CALLERS)?;
        let calling = (0..callers).map(|caller| {
            let (inserts, done) = (self.inserts.clone(), Arc::clone(done));
            let share = jobs / callers + u32::from(caller < jobs % callers);
            tokio::spawn(async move {
                for _ in 0..share {
                    insert(&inserts, &done.job()).await?;
                }
                anyhow::Ok(())
            })
        });
        for caller in calling.collect::<Vec<_>>() {
            caller.await??;
        }
        Ok(())
    }
}
