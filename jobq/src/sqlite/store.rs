//! The file, as a call has it in its transaction.

use std::collections::HashMap;

use rusqlite::{CachedStatement, Connection, OptionalExtension};

use super::clock::MachineClock;
use crate::error::{Error, ErrorKind};

/// What a call needs of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Need {
    /// To read it.
    Look,
    /// To write it, with the schema that it has.
    Change,
    /// To write it with the newest schema.
    Newest,
}

/// A statement that runs for each job, prepared once in a transaction.
pub(super) struct Prepared<'a> {
    sql: &'static str,
    statement: Option<CachedStatement<'a>>,
}

impl<'a> Prepared<'a> {
    pub(super) fn new(sql: &'static str) -> Self {
        Self { sql, statement: None }
    }

    pub(super) fn of(
        &mut self,
        connection: &'a Connection,
    ) -> rusqlite::Result<&mut CachedStatement<'a>> {
        Ok(match &mut self.statement {
            Some(statement) => statement,
            none => none.insert(connection.prepare_cached(self.sql)?),
        })
    }
}

/// The context of an operation in a transaction.
pub(super) struct Store<'a> {
    pub(super) connection: &'a Connection,
    pub(super) clock: &'a MachineClock,
    pub(super) insert: Prepared<'a>,
    pub(super) delete: Prepared<'a>,
    pub(super) namespace: &'a str,
    /// The version of the schema.
    pub(super) version: usize,
    /// The owner number of this engine's lease, if it has one.
    pub(super) owner: Option<i64>,
    /// Cached numbers of queues, which never change.
    pub(super) known: &'a mut HashMap<String, i64>,
    /// Whether an operation has changed what steers consumers.
    pub(super) has_news: bool,
}

impl Store<'_> {
    /// The number of a queue, if it has been declared.
    pub(super) fn queue(&mut self, name: &str) -> rusqlite::Result<Option<i64>> {
        if let Some(id) = self.known.get(name) {
            return Ok(Some(*id));
        }
        let sql = "SELECT id FROM queues WHERE namespace = ?1 AND name = ?2";
        let id = self
            .connection
            .prepare_cached(sql)?
            .query_row((self.namespace, name), |row| row.get(0))
            .optional()?;
        if let Some(id) = id {
            self.known.insert(name.to_owned(), id);
        }
        Ok(id)
    }

    /// Creates a queue, unless it exists.
    pub(super) fn declare(&mut self, name: &str) -> rusqlite::Result<()> {
        if let Some(id) = self.queue(name)? {
            let sql = "UPDATE queues SET deleted = 0 WHERE id = ?1 AND deleted";
            self.connection.prepare_cached(sql)?.execute([id])?;
            return Ok(());
        }
        let sql = "INSERT INTO queues (namespace, name) VALUES (?1, ?2)";
        self.connection.prepare_cached(sql)?.execute((self.namespace, name))?;
        Ok(())
    }
}

/// The error of a call for an undeclared queue.
pub(super) fn unknown(queue: &str) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!("queue `{queue}` does not exist in the job file; declare it first"),
    )
}
