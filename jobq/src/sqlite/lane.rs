//! The lanes of a queue: the jobs of each priority, which are claimed apart from the others.

use rusqlite::Connection;

use super::store::Store;
use crate::engine::Place;
use crate::job::Priority;

/// The first schema with priorities.
const WITH_PRIORITIES: usize = 10;

/// A lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// All jobs of a queue, in a file of an earlier schema.
    All,
    Normal,
    High,
    Low,
}

/// A statement for each lane: the condition comes between the two parts.
macro_rules! of_lanes {
    ($before:literal, $after:literal) => {
        [
            concat!($before, $after),
            concat!($before, " AND priority = 0", $after),
            concat!($before, " AND priority = 1", $after),
            concat!($before, " AND priority = -1", $after),
        ]
    };
}

pub(super) use of_lanes;

impl Lane {
    /// The lanes of a queue, from the highest.
    pub(super) fn of_queue(
        connection: &Connection,
        version: usize,
        queue: i64,
    ) -> rusqlite::Result<Vec<Self>> {
        if version < WITH_PRIORITIES {
            return Ok(vec![Self::All]);
        }
        let sql = "SELECT priorities FROM queues WHERE id = ?1";
        let has = connection.prepare_cached(sql)?.query_row([queue], |row| row.get(0))?;
        Ok(if has { vec![Self::High, Self::Normal, Self::Low] } else { vec![Self::Normal] })
    }

    /// The place of its due jobs.
    pub(super) fn place(self) -> Place {
        Place::of_due(match self {
            Self::All | Self::Normal => Priority::Normal,
            Self::High => Priority::High,
            Self::Low => Priority::Low,
        })
    }

    /// The statement of this lane.
    pub(super) fn sql(self, statements: &[&'static str; 4]) -> &'static str {
        statements[self as usize]
    }
}

/// A priority as a number of the file.
fn column(priority: Priority) -> i64 {
    match priority {
        Priority::High => 1,
        Priority::Normal => 0,
        Priority::Low => -1,
    }
}

/// Gives the job that was just inserted its priority, unless that is normal. In a file of an earlier
/// schema it is in the headers of the job alone, where the migration finds it.
pub(super) fn set_priority(store: &Store<'_>, priority: Priority) -> rusqlite::Result<()> {
    if priority != Priority::Normal && store.version >= WITH_PRIORITIES {
        let sql = "UPDATE jobs SET priority = ?1 WHERE seq = last_insert_rowid()";
        store.connection.prepare_cached(sql)?.execute([column(priority)])?;
    }
    Ok(())
}

/// The jobs of a queue have priorities from now on.
pub(super) fn add_priorities(store: &mut Store<'_>, name: &str) -> rusqlite::Result<()> {
    let queue = store.queue(name)?.filter(|_| store.version >= WITH_PRIORITIES);
    let Some(queue) = queue else { return Ok(()) };
    let sql = "UPDATE queues SET priorities = 1 WHERE id = ?1 AND NOT priorities";
    store.connection.prepare_cached(sql)?.execute([queue]).map(drop)
}
