//! The schema of a file: its version, what calls may do with it, and the migrations.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::failure::OpenError;
use super::store::Need;
use crate::outbox::sqlite::APPLICATION_ID;

/// The migrations from an empty file to the newest schema, in order. The `user_version` of a file
/// is the number of migrations applied. A released migration is never changed.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/1.sql"),
    include_str!("migrations/2.sql"),
    include_str!("migrations/3.sql"),
    include_str!("migrations/4.sql"),
    include_str!("migrations/5.sql"),
    include_str!("migrations/6.sql"),
    include_str!("migrations/7.sql"),
    include_str!("migrations/8.sql"),
    include_str!("migrations/9.sql"),
    include_str!("migrations/10.sql"),
    include_str!("migrations/11.sql"),
];

/// The version of the newest schema.
pub(super) const NEWEST: usize = MIGRATIONS.len();

/// What comes before a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing.
    None,
    /// The file is migrated.
    Migrate,
    /// The call is refused: its file is too old for it.
    Refuse,
}

/// What comes before a call on a file of this version, where `newest` is the newest one. Programs of
/// the version before may use a file, so that nothing but the newest need migrates it.
pub(super) fn step(version: usize, newest: usize, need: Need) -> Step {
    match need {
        _ if version >= newest => Step::None,
        Need::Newest => Step::Migrate,
        Need::Look | Need::Change if version + 1 >= newest => Step::None,
        Need::Look | Need::Change => Step::Refuse,
    }
}

/// Whether nobody has written a file yet.
pub(super) fn is_new(version: usize) -> bool {
    version == 0
}

/// The version of a file; an error if it is not jobq's, or of a newer jobq. It reads in one
/// transaction, since another process may be creating the file.
pub(super) fn check_identity(file: &Transaction<'_>) -> Result<usize, OpenError> {
    let application: i32 = file.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version = version(file)?;
    let tables: i64 = file.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let fresh = application == 0 && version == 0 && tables == 0;
    if application != APPLICATION_ID && !fresh {
        return Err(OpenError::Unfit(format!(
            "belongs to another program (application id {application:#x}, expected \
             {APPLICATION_ID:#x}); give jobq a file of its own"
        )));
    }
    if version > NEWEST {
        return Err(OpenError::Unfit(format!(
            "was written by a newer jobq (schema {version}; this program supports schemas up to \
             {NEWEST}); update this program"
        )));
    }
    Ok(version)
}

pub(super) fn version(connection: &Connection) -> rusqlite::Result<usize> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}

/// Applies the missing migrations in one transaction, and returns the version before. Another process
/// may have written the file since `seen`: one that is not new any more is left as it is if it was.
pub(super) fn migrate(connection: &mut Connection, seen: usize) -> Result<usize, OpenError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // It need not be jobq that has written it.
    let version = check_identity(&transaction)?;
    if version >= NEWEST || (is_new(seen) && !is_new(version)) {
        return Ok(version);
    }
    for step in MIGRATIONS.iter().skip(version) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", i64::try_from(NEWEST).unwrap_or(i64::MAX))?;
    transaction.commit()?;
    Ok(version)
}

/// Makes a file of an earlier version.
#[cfg(test)]
pub(super) fn make_earlier(connection: &Connection, version: usize) -> rusqlite::Result<()> {
    MIGRATIONS[..version].iter().try_for_each(|step| connection.execute_batch(step))?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", i64::try_from(version).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::claim;
    use super::super::open::open;
    use super::super::place::Place;
    use super::*;

    #[test]
    fn the_hot_statements_use_the_partial_indexes() {
        let connection = open(&Place::Memory, Duration::ZERO).unwrap();
        let lanes = [claim::SELECT, claim::CLAIM, claim::NEXT_DUE].into_iter();
        let lanes = lanes.flat_map(|[_, lanes @ ..]| lanes.map(|sql| (sql, "jobs_due")));
        let others =
            [(claim::SELECT_SOLO, "jobs_solo"), (super::super::lease::FREE_JOBS, "jobs_in_hand")];
        for (sql, index) in lanes.chain(others) {
            let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            // The plan does not depend on the parameters.
            let plan: Vec<String> =
                explain.raw_query().mapped(|row| row.get(3)).collect::<Result<_, _>>().unwrap();
            let plan = plan.join("; ");
            assert!(plan.contains(index), "{sql}: {plan}");
            assert!(!plan.contains("TEMP B-TREE"), "{sql}: {plan}");
        }
    }

    #[test]
    fn an_older_file_keeps_its_jobs() {
        for known in 1..MIGRATIONS.len() {
            let mut connection = Connection::open_in_memory().unwrap();
            make_earlier(&connection, known).unwrap();
            let rows = "INSERT INTO queues (namespace, name) VALUES ('jobq', 'mail');
                INSERT INTO owners (until) VALUES (7);
                INSERT INTO jobs (queue, due, owner, attempts, job_id, enqueued_at, payload)
                VALUES (1, 5, 1, 2, zeroblob(16), 4, x'7b7d')";
            connection.execute_batch(rows).unwrap();
            let before = migrate(&mut connection, known);
            assert_eq!(before.unwrap_or_else(|_| panic!("a file of version {known}")), known);
            assert_eq!(version(&connection).unwrap(), NEWEST);
            let sql = "SELECT due, crashes, queues.name, deleted, lists FROM jobs
                JOIN queues ON queues.id = queue JOIN owners ON owners.id = owner";
            let row = connection.query_row(sql, [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
            });
            assert_eq!(row.unwrap(), (5, 0, "mail".to_owned(), false, false));
        }
    }

    /// Adapters write the tables of a file of the program's own and those of a job file alike.
    #[test]
    fn the_tables_of_the_outbox_are_those_of_the_contract() {
        let job_file = open(&Place::Memory, Duration::ZERO).unwrap();
        let other = Connection::open_in_memory().unwrap();
        other.execute_batch(crate::outbox::sqlite::MIGRATION).unwrap();
        for table in ["jobq_outbox", "jobq_inbox"] {
            let columns = |file: &Connection| -> Vec<String> {
                let sql = "SELECT format('%s %s %d %s %d', name, type, \"notnull\", dflt_value, pk)
                    FROM pragma_table_info(?1)";
                let mut statement = file.prepare(sql).unwrap();
                statement
                    .query_map([table], |row| row.get(0))
                    .unwrap()
                    .map(Result::unwrap)
                    .collect()
            };
            assert_eq!(columns(&job_file), columns(&other));
            assert!(columns(&other).len() > 5, "{table}");
        }
    }

    #[test]
    fn opening_again_changes_nothing() {
        let mut connection = open(&Place::Memory, Duration::ZERO).unwrap();
        assert_eq!(version(&connection).unwrap(), NEWEST);
        assert!(migrate(&mut connection, NEWEST).is_ok_and(|before| before == NEWEST));
        assert!(check_identity(&connection.transaction().unwrap()).is_ok());
    }

    #[test]
    fn a_file_that_another_process_makes_meanwhile_keeps_its_schema() {
        let mut connection = Connection::open_in_memory().unwrap();
        make_earlier(&connection, NEWEST - 1).unwrap();
        assert!(migrate(&mut connection, 0).is_ok_and(|before| before == NEWEST - 1));
        assert_eq!(version(&connection).unwrap(), NEWEST - 1);
    }

    #[test]
    fn looking_reads_this_schema_and_the_one_before_and_only_programs_migrate() {
        use Need::{Change, Look, Newest};
        let table = [
            (9, [(Look, Step::None), (Change, Step::None), (Newest, Step::None)]),
            (8, [(Look, Step::None), (Change, Step::None), (Newest, Step::Migrate)]),
            (7, [(Look, Step::Refuse), (Change, Step::Refuse), (Newest, Step::Migrate)]),
            (1, [(Look, Step::Refuse), (Change, Step::Refuse), (Newest, Step::Migrate)]),
            (0, [(Look, Step::Refuse), (Change, Step::Refuse), (Newest, Step::Migrate)]),
        ];
        for (version, needs) in table {
            for (need, expected) in needs {
                assert_eq!(step(version, 9, need), expected, "{version} {need:?}");
            }
        }
    }
}
