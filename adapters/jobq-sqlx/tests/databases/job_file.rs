//! The tables of the program in the file that jobq made: no relay.

use jobq::{Client, ErrorKind, RunningPool, WorkerPool};
use jobq_outbox_facts::{Database, Effects, pool_alone};
use jobq_sqlx::{SqliteOutbox, Within};
use sqlx::{Connection as _, SqliteConnection};
use tempfile::TempDir;

use crate::adapter::OnSqlite;
use crate::file::run;
use crate::watch::note;

/// A file that a pool has made before the program put tables of its own there.
pub(crate) struct JobFile(TempDir);

impl JobFile {
    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("jobs.db")
    }
}

impl Database for JobFile {
    type Outbox = SqliteOutbox;

    fn start() -> Self {
        let file = Self(tempfile::tempdir().unwrap());
        let url = file.engine();
        // In a runtime of its own, since this is not async.
        let making = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let client = Client::connect(&url).await.unwrap();
                let pool = WorkerPool::new(&client).register::<jobq_outbox_facts::Note>();
                let pool = pool.state(Effects::default()).spawn().await.unwrap();
                pool.shutdown().await.unwrap();
                client.close().await;
            });
        });
        making.join().unwrap();
        file
    }

    fn url(&self) -> String {
        format!("sqlite://{}", self.path().display())
    }

    async fn outbox(&self) -> SqliteOutbox {
        SqliteOutbox::lazy(self.url()).unwrap()
    }

    fn engine(&self) -> String {
        self.url()
    }

    async fn pool(&self, client: &Client) -> (RunningPool, Effects) {
        pool_alone(client).await
    }

    fn sql(&self, statements: &str) -> String {
        run(&self.path(), statements)
    }
}

jobq_outbox_facts::facts!(OnSqlite, without users on JobFile);

/// It would send what the pools of the file make jobs of.
#[tokio::test]
async fn a_relay_is_refused() {
    let file = JobFile::start();
    let error = file.outbox().await.verify().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("its pools make jobs of the rows"), "{error}");
}

/// The rows of a program without a pool are jobs when a pool starts.
#[tokio::test]
async fn rows_wait_for_a_pool() {
    let file = JobFile::start();
    let client = Client::connect(file.engine()).await.unwrap();
    let mut db = SqliteConnection::connect(&file.url()).await.unwrap();
    let mut tx = db.begin().await.unwrap();
    client.enqueue(note("a")).within(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(file.sql("SELECT count(*) FROM jobq_outbox"), "1");
    let (running, effects) = file.pool(&client).await;
    assert_eq!(effects.until(1).await[0].text, "a");
    running.shutdown().await.unwrap();
    assert_eq!(file.sql("SELECT count(*) FROM jobq_outbox"), "0");
}
