//! The common behaviour of the relays of SQLite and of MariaDB: they meet rows and tables that are not as
//! they should be, and other relays.

use std::time::Duration;

use jobq::JobId;
use jobq::relay::{Relay, Source, Take, Taking};
use jobq_outbox_facts::{Database, pool};

use crate::watch::{client, error_of, is_interrupted, is_sending, texts, until, until_state};

/// A database whose relay is one of this crate.
pub(crate) trait Relayed: Database {
    const MIGRATION: &str;
    /// A payload that is too large by one byte.
    const LARGE: &str;

    /// The statement of `docs/outbox.md`.
    const INSERT: &str;

    /// Without the tables.
    fn empty() -> Self;

    /// The source of its relay, which need not be there.
    fn lazy(&self) -> Self::Outbox;
}

/// The statement that writes a job with this payload and these columns and values.
fn row_of(payload: &str, columns: &str, values: &str) -> String {
    format!(
        "INSERT INTO jobq_outbox (job_id, payload, {columns}) \
         VALUES ('0199d1a2-0000-7000-8000-000000000007', {payload}, {values});"
    )
}

/// The payload of a note, as a literal.
fn payload(text: &str) -> String {
    let json = format!("{{\"text\":\"{text}\"}}");
    let digits: Vec<_> = json.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("X'{}'", digits.concat())
}

/// The statement that writes a job with further columns and values.
pub(crate) fn row(columns: &str, values: &str) -> String {
    row_of(&payload("a"), columns, values)
}

/// The statement that writes a good job.
pub(crate) fn good(text: &str) -> String {
    row_of(&payload(text), "queue, name", "'notes', 'note'")
}

/// A take of the default namespace.
pub(crate) fn take(hold: Duration) -> Take {
    let mut take = Take::new("jobq");
    take.hold = hold;
    take
}

pub(crate) async fn a_relay_waits_for_the_tables<D: Relayed>() {
    let (database, client) = (D::empty(), client().await);
    let error = database.lazy().take(&Take::new("jobq")).await.unwrap_err();
    assert!(error.is_not_found() && error.to_string().contains("run the migration"), "{error}");
    let relay = Relay::new(&client, database.lazy()).spawn().unwrap();
    let health = until_state(&relay, "it has no table", is_interrupted).await;
    assert!(error_of(&health).contains("MIGRATION"), "{health:?}");
    database.sql(D::MIGRATION);
    until_state(&relay, "it works", is_sending).await;
    relay.shutdown().await.unwrap();
}

pub(crate) async fn a_row_that_is_no_job_blocks_no_other<D: Relayed>() {
    let (database, client) = (D::start(), client().await);
    let table = [
        (row("queue", "NULL"), "this one has neither"),
        (row("queue, topic", "'notes', 'shop.a'"), "this one has both"),
        (row("queue", "'no such queue'"), "the queue name"),
        (row("queue", "concat('a', char(0))"), "the queue name"),
        (row("queue, name", "'notes', ''"), "the job name"),
        (row("topic", "'a..b'"), "topic"),
        (row("queue, version", "'notes', 2"), "update the program of the relay"),
        (row("queue, headers", "'notes', '[1]'"), "a JSON object of texts"),
        (row("queue, due_at", "'notes', -1"), "`due_at` is before 1970"),
        (row("queue, enqueued_at", "'notes', -1"), "`enqueued_at` is before 1970"),
        (row("queue, retry_wait", "'notes', -1"), "`retry_wait` is negative"),
        (row("queue", "'absent'"), "queue `absent` does not exist; start a pool"),
        (row_of(D::LARGE, "queue", "'notes'"), "16777217 bytes, more than this engine's limit"),
    ];
    let bad: String = table.iter().map(|(row, _)| &**row).collect();
    // Refused by a clock that was wrong.
    let tomorrow = "UPDATE jobq_outbox SET retry_at = enqueued_at + 86400000";
    database.sql(&format!("{}{tomorrow};{bad}{}", good("early"), good("good")));
    let (running, effects) = pool(&client, database.lazy()).await;
    effects.until(2).await;
    until("each row has its error", || {
        database.sql("SELECT count(*) FROM jobq_outbox WHERE error IS NULL") == "0"
    })
    .await;
    let errors = database.sql("SELECT error FROM jobq_outbox ORDER BY seq");
    let errors: Vec<_> = errors.lines().collect();
    assert_eq!(errors.len(), table.len(), "{errors:#?}");
    for ((_, expected), error) in table.iter().zip(errors) {
        assert!(error.contains(expected), "{error} has no {expected}");
    }
    let waits = "SELECT DISTINCT tries, retry_at > enqueued_at FROM jobq_outbox";
    assert_eq!(database.sql(waits), "1|1");
    // Whoever corrects a row need not wait.
    let correct = "UPDATE jobq_outbox SET queue = 'notes', name = 'note', retry_at = NULL \
                   WHERE queue = 'absent'";
    database.sql(correct);
    effects.until(3).await;
    assert_eq!(texts(&effects), ["early", "good", "a"]);
    until("refused rows are counted", || {
        let health = running.health();
        health.relays[0].backlog.as_ref().is_some_and(|left| left.refused == 12)
    })
    .await;
    running.shutdown().await.unwrap();
}

pub(crate) async fn rows_of_other_namespaces_stay<D: Relayed>() {
    let (database, client) = (D::start(), client().await);
    database.sql(&row("namespace, queue", "'other', 'notes'"));
    database.sql(&good("a"));
    let (running, effects) = pool(&client, database.outbox().await).await;
    effects.until(1).await;
    until("one row is left", || database.sql("SELECT namespace FROM jobq_outbox") == "other").await;
    running.shutdown().await.unwrap();
}

pub(crate) async fn one_relay_works_and_the_next_takes_over<D: Relayed>() {
    let (database, client) = (D::start(), client().await);
    let first = Relay::new(&client, database.lazy()).spawn().unwrap();
    until_state(&first, "the first works", is_sending).await;
    // They may change places.
    let second = Relay::new(&client, database.lazy()).spawn().unwrap();
    let (running, effects) = pool(&client, database.lazy()).await;
    for number in 0..50 {
        database.sql(&good(&number.to_string()));
    }
    effects.until(50).await;
    first.shutdown().await.unwrap();
    second.shutdown().await.unwrap();
    database.sql(&good("last"));
    let all = effects.until(51).await;
    assert_eq!(all.last().unwrap().text, "last");
    assert_eq!(all.len(), 51, "none is sent twice");
    running.shutdown().await.unwrap();
}

/// A relay that hangs with rows in its hands stops the others for as long as it may hold them. What it
/// does later deletes nothing.
pub(crate) async fn a_relay_that_hangs_loses_its_rows_to_the_next<D: Relayed>() {
    let (database, client) = (D::start(), client().await);
    database.sql(&good("a"));
    let hanging = database.outbox().await;
    let take = take(Duration::from_secs(2));
    let Taking::Rows { rows, taken, .. } = hanging.take(&take).await.unwrap() else {
        panic!("there is a row")
    };
    let next = database.outbox().await;
    assert!(matches!(next.take(&take).await.unwrap(), Taking::Standby));
    let (running, effects) = pool(&client, next).await;
    assert_eq!(effects.until(1).await[0].text, "a");
    database.sql(&row("namespace, queue", "'other', 'notes'"));
    let mut settled = jobq::relay::Settled::default();
    settled.sent = vec![rows[0].seq, rows[0].seq + 1];
    let error = taken.settle(settled).await.unwrap_err();
    assert!(error.is_connection() || error.is_conflict(), "{error}");
    until("the sent row is deleted", || {
        database.sql("SELECT namespace FROM jobq_outbox") == "other"
    })
    .await;
    running.shutdown().await.unwrap();
}

/// Rows that are given back are taken again at once.
pub(crate) async fn rows_that_are_given_back_are_taken_again<D: Relayed>() {
    let database = D::start();
    database.sql(&good("a"));
    let outbox = database.outbox().await;
    let take = Take::new("jobq");
    let Taking::Rows { rows, taken, .. } = outbox.take(&take).await.unwrap() else {
        panic!("there is a row")
    };
    drop(taken);
    let again = async {
        loop {
            if let Taking::Rows { rows, .. } = outbox.take(&take).await.unwrap() {
                return rows;
            }
        }
    };
    let again = tokio::time::timeout(Duration::from_secs(10), again).await.unwrap();
    assert_eq!(again[0].seq, rows[0].seq);
}

pub(crate) async fn old_marks_are_deleted<D: Relayed>() {
    const DAY: u64 = 86_400_000;
    let database = D::start();
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let now = u64::try_from(now).unwrap();
    let mark = |namespace: &str, number: usize, age: u64| {
        format!("('{namespace}', 'mail', 'send', 'id', 'step-{number}', {})", now - age * DAY)
    };
    let mut marks: Vec<_> = (0..2_500).map(|number| mark("jobq", number, 31)).collect();
    marks.extend([mark("jobq", 2_500, 29), mark("other", 0, 31)]);
    database.sql(&format!(
        "INSERT INTO jobq_inbox (namespace, queue, name, job_id, step, done_at) VALUES {}",
        marks.join(", ")
    ));
    assert_eq!(database.outbox().await.clean("jobq").await.unwrap(), 2_500);
    let left = database.sql("SELECT namespace FROM jobq_inbox ORDER BY namespace");
    assert_eq!(left, "jobq\nother");
}

/// What the columns contain that the writer leaves out.
pub(crate) async fn a_row_of_another_program_has_the_time_of_now<D: Relayed>() {
    let database = D::start();
    database.sql(D::INSERT);
    let outbox = database.outbox().await;
    let Taking::Rows { rows, .. } = outbox.take(&Take::new("jobq")).await.unwrap() else {
        panic!("there is a row")
    };
    let row = rows[0].row.as_ref().unwrap();
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let age = i64::try_from(now).unwrap() - row.enqueued_at;
    assert!((0..60_000).contains(&age), "{age}");
    assert_eq!((row.version, &*row.headers, row.due_at), (1, "{}", None));
    assert!(row.job_id.parse::<JobId>().is_ok(), "{row:?}");
    assert_eq!(row.payload, b"{\"order\": 7}");
}

/// Makes a test of each of them.
macro_rules! relays {
    ($database:ty) => {
        relays! {
            $database:
            a_relay_waits_for_the_tables,
            a_row_that_is_no_job_blocks_no_other,
            rows_of_other_namespaces_stay,
            one_relay_works_and_the_next_takes_over,
            a_relay_that_hangs_loses_its_rows_to_the_next,
            rows_that_are_given_back_are_taken_again,
            old_marks_are_deleted,
            a_row_of_another_program_has_the_time_of_now,
        }
    };
    ($database:ty: $($name:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::relays::$name::<$database>().await;
            }
        )*
    };
}

pub(crate) use relays;
