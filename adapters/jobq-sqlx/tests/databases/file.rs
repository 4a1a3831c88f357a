//! A private SQLite file.

use std::path::Path;

use jobq::outbox::sqlite::MIGRATION;
use jobq_outbox_facts::Database;
use jobq_sqlx::SqliteOutbox;
use rusqlite::Connection;
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::types::Value;
use tempfile::TempDir;

use crate::relays::Relayed;

/// A file in a folder of its own.
pub(crate) struct File(TempDir);

impl File {
    /// A file without tables.
    pub(crate) fn empty() -> Self {
        let file = Self(tempfile::tempdir().unwrap());
        file.sql("PRAGMA journal_mode = WAL");
        file
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("shop.db")
    }
}

impl Database for File {
    type Outbox = SqliteOutbox;

    fn start() -> Self {
        let file = Self::empty();
        file.sql(MIGRATION);
        file
    }

    fn url(&self) -> String {
        format!("sqlite://{}", self.path().display())
    }

    async fn outbox(&self) -> SqliteOutbox {
        SqliteOutbox::connect(self.url()).await.unwrap()
    }

    fn sql(&self, statements: &str) -> String {
        run(&self.path(), statements)
    }
}

/// Runs statements, and gives a line for each row.
pub(crate) fn run(file: &Path, statements: &str) -> String {
    let db = Connection::open(file).unwrap();
    let mut lines = Vec::new();
    let mut batch = rusqlite::Batch::new(&db, statements);
    while let Some(mut statement) = batch.next().unwrap() {
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let texts = (0..columns).map(|place| shown(row.get(place).unwrap()));
            lines.push(texts.collect::<Vec<_>>().join("|"));
        }
    }
    lines.join("\n")
}

fn shown(value: Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text,
        Value::Blob(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
    }
}

impl Relayed for File {
    const MIGRATION: &str = MIGRATION;
    const LARGE: &str = "zeroblob(16777217)";
    const INSERT: &str = "\
INSERT INTO jobq_outbox (queue, name, job_id, payload) \
VALUES ('send_invoice', 'send_invoice', '0199d1a2-0000-7000-8000-000000000007', \
CAST('{\"order\": 7}' AS BLOB));";

    fn empty() -> Self {
        Self::empty()
    }

    fn lazy(&self) -> SqliteOutbox {
        SqliteOutbox::lazy(self.url()).unwrap()
    }
}
