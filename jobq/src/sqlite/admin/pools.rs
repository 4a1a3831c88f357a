//! The pools of an engine, and the list of its pools and consumers in the file for others.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, Weak};

use rusqlite::Connection;

use crate::engine::{Controlled, Membership, PoolId};
use crate::error::Result;
use crate::guard::lock;
use crate::sqlite::feeds::Consumer;
use crate::sqlite::inbox::Inbox;

/// The pools that have joined. The engine and its writer share them.
#[derive(Debug, Default)]
pub(in crate::sqlite) struct Pools(Mutex<Vec<Weak<Member>>>);

/// A row of the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Row {
    Pool(PoolId),
    Consumer(Consumer),
}

/// What the file lists of an engine.
#[derive(Debug, Default)]
pub(super) struct List {
    /// The rows in the file.
    listed: Listed,
    /// Those in the file if the current transaction is committed, where they differ.
    written: Option<Listed>,
}

/// Rows of an owner.
#[derive(Debug, Default)]
struct Listed {
    owner: i64,
    rows: BTreeSet<Row>,
}

impl Pools {
    fn join(&self, member: &Arc<Member>) {
        let mut pools = lock(&self.0);
        pools.retain(|member| member.strong_count() > 0);
        pools.push(Arc::downgrade(member));
    }

    pub(super) fn clear(&self) {
        lock(&self.0).clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).iter().all(|member| member.strong_count() == 0)
    }

    /// The pool with this id, or all.
    pub(super) fn get(&self, id: Option<PoolId>) -> Vec<Arc<dyn Controlled>> {
        let pools = lock(&self.0);
        let all = pools.iter().filter_map(|member| Some(Arc::clone(&member.upgrade()?.pool)));
        all.filter(|pool| id.is_none_or(|id| pool.id() == id)).collect()
    }
}

impl List {
    pub(super) fn committed(&mut self) {
        if let Some(written) = self.written.take() {
            self.listed = written;
        }
    }

    pub(super) fn rolled_back(&mut self) {
        self.written = None;
    }

    /// Writes these pools and consumers to the file, and nothing else for this owner. Questions to
    /// pools that have left are deleted, but for those that were `heard`.
    pub(super) fn write(
        &mut self,
        connection: &Connection,
        namespace: &str,
        (owner, heard): (i64, i64),
        pools: &Pools,
        consumers: impl Iterator<Item = Consumer>,
    ) -> rusqlite::Result<()> {
        let pools = pools.get(None).into_iter().map(|pool| Row::Pool(pool.id()));
        let wanted: BTreeSet<_> = pools.chain(consumers.map(Row::Consumer)).collect();
        // Those of an earlier lease were removed with it.
        let none = BTreeSet::new();
        let listed = self.written.as_ref().unwrap_or(&self.listed);
        let listed = if listed.owner == owner { &listed.rows } else { &none };
        listed.difference(&wanted).try_for_each(|row| row.delete(connection, owner, heard))?;
        wanted.difference(listed).try_for_each(|row| row.insert(connection, namespace, owner))?;
        self.written = Some(Listed { owner, rows: wanted });
        Ok(())
    }
}

impl Row {
    fn insert(&self, connection: &Connection, namespace: &str, owner: i64) -> rusqlite::Result<()> {
        match self {
            Self::Pool(id) => {
                let sql = "INSERT OR REPLACE INTO pools (id, owner, namespace) VALUES (?1, ?2, ?3)";
                connection.prepare_cached(sql)?.execute((id.to_string(), owner, namespace))?;
            }
            Self::Consumer(Consumer { name, queue, pool }) => {
                let sql = "INSERT OR REPLACE INTO consumers (name, owner, queue, pool)
                    VALUES (?1, ?2, ?3, ?4)";
                let pool = pool.map(|pool| pool.to_string());
                connection.prepare_cached(sql)?.execute((name, owner, queue, pool))?;
            }
        }
        Ok(())
    }

    fn delete(&self, connection: &Connection, owner: i64, heard: i64) -> rusqlite::Result<()> {
        match self {
            Self::Pool(id) => {
                let id = id.to_string();
                let sql = "DELETE FROM pools WHERE id = ?1 AND owner = ?2";
                connection.prepare_cached(sql)?.execute((&id, owner))?;
                let sql = "DELETE FROM questions WHERE pool = ?1 AND owner = ?2 AND id > ?3";
                connection.prepare_cached(sql)?.execute((&id, owner, heard))?;
            }
            Self::Consumer(Consumer { name, .. }) => {
                let sql = "DELETE FROM consumers WHERE name = ?1 AND owner = ?2";
                connection.prepare_cached(sql)?.execute((name, owner))?;
            }
        }
        Ok(())
    }
}

/// A pool that has joined. It has left once this is dropped, also before the writer knows.
#[derive(Debug)]
pub(super) struct Member {
    pool: Arc<dyn Controlled>,
    inbox: Inbox,
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.inbox.change(|feeds| feeds.changed = true);
    }
}

/// Makes a pool a member; it is in the file when this returns.
pub(super) async fn join(
    inbox: &Inbox,
    pools: &Pools,
    pool: Arc<dyn Controlled>,
) -> Result<Membership> {
    // Before the engine has a member, since its writer then has a lease to write.
    inbox.run(|_| Ok(())).await?;
    let member = Arc::new(Member { pool, inbox: inbox.clone() });
    pools.join(&member);
    inbox.change(|feeds| feeds.changed = true)?;
    inbox.call(|_| Ok(())).await?;
    Ok(Membership::new(member))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::{Question, Reply};
    use crate::sqlite::lease::release_all;
    use crate::sqlite::open::open;
    use crate::sqlite::place::Place;

    #[derive(Debug)]
    struct Pool(PoolId);

    impl Controlled for Pool {
        fn id(&self) -> PoolId {
            self.0
        }

        fn queues(&self) -> Vec<String> {
            Vec::new()
        }

        fn answer(&self, _: &Question) -> Reply {
            Reply::Accepted
        }
    }

    fn names(connection: &Connection, sql: &str) -> Vec<String> {
        let mut statement = connection.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn the_file_lists_what_there_is() {
        let file = open(&Place::Memory, Duration::ZERO).unwrap();
        let consumer = |name: &str| Consumer { name: name.to_owned(), queue: 1, pool: None };
        let all = || names(&file, "SELECT owner || name FROM consumers ORDER BY 1");
        let pools = Pools::default();
        let (mut ours, mut theirs) = (List::default(), List::default());
        theirs.write(&file, "jobq", (2, 0), &pools, [consumer("x")].into_iter()).unwrap();
        for (owner, there, expected) in [
            (1, &["a", "b"][..], &["1a", "1b", "2x"][..]),
            (1, &["b", "c"], &["1b", "1c", "2x"]),
            // The lease was lost and others have cleaned up.
            (3, &["b", "c"], &["2x", "3b", "3c"]),
            (3, &[], &["2x"]),
        ] {
            if owner == 3 {
                release_all(&file, 1, 0).unwrap();
            }
            let list = |ours: &mut List| {
                let there = there.iter().copied().map(consumer);
                ours.write(&file, "jobq", (owner, 0), &pools, there).unwrap();
            };
            list(&mut ours);
            assert_eq!(all(), expected);
            ours.committed();
            let changes = file.total_changes();
            list(&mut ours);
            assert_eq!(file.total_changes(), changes, "only the difference is written");
        }
        for commits in [false, true] {
            file.execute_batch("BEGIN").unwrap();
            ours.write(&file, "jobq", (3, 0), &pools, [consumer("d")].into_iter()).unwrap();
            file.execute_batch(if commits { "COMMIT" } else { "ROLLBACK" }).unwrap();
            if commits { ours.committed() } else { ours.rolled_back() }
        }
        assert_eq!(all(), ["2x", "3d"]);
    }

    /// An order to stop is answered by a pool that leaves at once.
    #[test]
    fn answers_outlive_their_pool_and_their_owner() {
        let file = open(&Place::Memory, Duration::ZERO).unwrap();
        let (joined, mut list) = (Pools::default(), List::default());
        let pools = [PoolId::new(), PoolId::new()];
        let (inbox, _commands) = Inbox::new(true);
        let [leaves, _stays] = pools.map(|pool| {
            let member = Arc::new(Member { pool: Arc::new(Pool(pool)), inbox: inbox.clone() });
            joined.join(&member);
            member
        });
        let mut list = || {
            list.write(&file, "jobq", (1, 2), &joined, [].into_iter()).unwrap();
            list.committed();
        };
        list();
        // The first two were heard.
        for (pool, answer) in [(0, None), (0, Some("yes")), (0, None), (1, None)] {
            let sql = "INSERT INTO questions (ends, owner, pool, question, answer)
                VALUES (9, 1, ?1, '', ?2)";
            file.execute(sql, (pools[pool].to_string(), answer)).unwrap();
        }
        drop(leaves);
        assert!(joined.get(Some(pools[0])).is_empty());
        list();
        assert_eq!(names(&file, "SELECT id FROM pools"), [pools[1].to_string()]);
        assert_eq!(names(&file, "SELECT '' || id FROM questions"), ["1", "2", "4"]);
        assert_eq!(joined.get(Some(pools[1]))[0].id(), pools[1]);
        release_all(&file, 1, 0).unwrap();
        assert_eq!(names(&file, "SELECT id FROM pools"), [""; 0]);
        assert_eq!(names(&file, "SELECT answer FROM questions"), ["yes"]);
    }
}
