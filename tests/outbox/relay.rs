//! A relay meets rows, tables and rights that are not as they should be, other relays, and databases that
//! go and come.

use std::time::Duration;

use jobq::relay::{Relay, RelayHealth, RelayState, RunningRelay, Source, Take, Taking};
use jobq::{BoxError, Client, JobContext, JobId, Priority, RunningPool, State, WorkerPool, job};
use jobq_outbox_facts::{Effects, Note, PgBouncer, Postgres, pool};
use jobq_tests::both_engines;
use jobq_tests::test_store::Store;
use jobq_tokio_postgres::{PgOutbox, Within};
use tokio::time::{sleep, timeout};
use tokio_postgres::NoTls;

/// A queue that was missing is looked for again up to a minute later.
const LIMIT: Duration = Duration::from_secs(180);

async fn client() -> Client {
    Client::builder("sqlite::memory:").program("shop").connect().await.unwrap()
}

/// A database, and a pool with a relay.
async fn shop() -> (Postgres, Client, RunningPool, Effects) {
    let (database, client) = (Postgres::start(), client().await);
    let outbox = PgOutbox::connect(database.url("postgres")).await.unwrap();
    let (running, effects) = pool(&client, outbox).await;
    (database, client, running, effects)
}

async fn connect(database: &Postgres) -> tokio_postgres::Client {
    let (client, connection) =
        tokio_postgres::connect(&database.url("postgres"), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn note(db: &mut tokio_postgres::Client, client: &Client, text: &str) {
    let tx = db.transaction().await.unwrap();
    client.enqueue(Note { text: text.to_owned() }).within(&tx).await.unwrap();
    tx.commit().await.unwrap();
}

/// Waits until this is so.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(LIMIT, waiting).await.is_ok(), "{what}");
}

async fn until_state(
    relay: &RunningRelay,
    what: &str,
    is_so: fn(&RelayState) -> bool,
) -> RelayHealth {
    let waiting = async {
        while !is_so(&relay.health().state) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(LIMIT, waiting).await.is_ok(), "{what}: {:?}", relay.health());
    relay.health()
}

fn is_interrupted(state: &RelayState) -> bool {
    matches!(state, RelayState::Interrupted { .. })
}

fn error_of(health: &RelayHealth) -> String {
    let RelayState::Interrupted { error, .. } = &health.state else { panic!("{health:?}") };
    error.to_string()
}

fn texts(effects: &Effects) -> Vec<String> {
    effects.all().into_iter().map(|effect| effect.text).collect()
}

#[tokio::test]
async fn a_relay_waits_for_the_tables() {
    let (database, client) = (Postgres::empty(), client().await);
    let url = database.url("postgres");
    let error = PgOutbox::connect(&url).await.unwrap_err();
    assert!(error.is_not_found() && error.to_string().contains("run the migration"), "{error}");
    let relay = Relay::new(&client, PgOutbox::lazy(&url).unwrap()).spawn().unwrap();
    let health = until_state(&relay, "it has no table", is_interrupted).await;
    assert!(error_of(&health).contains("\"jobq_outbox\" does not exist"), "{health:?}");
    database.sql(jobq::outbox::postgres::MIGRATION);
    until_state(&relay, "it works", |state| matches!(state, RelayState::Sending)).await;
    relay.shutdown().await.unwrap();
}

#[tokio::test]
async fn missing_rights_and_columns_are_named() {
    let database = Postgres::start();
    database.sql("CREATE ROLE courier LOGIN");
    let url = database.url("courier");
    let error = PgOutbox::connect(&url).await.unwrap_err();
    let expected = "lacks SELECT on jobq_outbox, UPDATE on jobq_outbox, DELETE on jobq_outbox, \
                    SELECT on jobq_inbox, DELETE on jobq_inbox";
    assert!(error.is_refused() && error.to_string().contains(expected), "{error}");
    database.sql("GRANT SELECT, UPDATE, DELETE ON jobq_outbox TO courier");
    let error = PgOutbox::connect(&url).await.unwrap_err();
    assert!(error.to_string().contains("lacks SELECT on jobq_inbox, DELETE"), "{error}");
    database.sql("GRANT SELECT, DELETE ON jobq_inbox TO courier");
    let outbox = PgOutbox::connect(&url).await.unwrap();
    // These rights are enough.
    let client = client().await;
    let (running, effects) = pool(&client, outbox).await;
    note(&mut connect(&database).await, &client, "a").await;
    effects.until(1).await;
    running.shutdown().await.unwrap();
    database.sql("ALTER TABLE jobq_outbox DROP COLUMN headers, DROP COLUMN tries");
    let error = PgOutbox::connect(&url).await.unwrap_err();
    assert!(
        error.is_conflict() && error.to_string().contains("no column headers, tries"),
        "{error}"
    );
}

#[tokio::test]
async fn a_url_that_is_none_shows_no_password() {
    for url in ["mysql://ann:topsecret@db/shop", "postgres://ann:topsecret@db:port/shop"] {
        let error = PgOutbox::lazy(url).unwrap_err().to_string();
        assert!(!error.contains("topsecret") && error.contains("expected one such as"), "{error}");
    }
    let refused = PgOutbox::connect("postgres://ann:topsecret@127.0.0.1:1/shop").await.unwrap_err();
    let text = refused.to_string();
    assert!(
        refused.is_connection() && text.contains("refused") && !text.contains("topsecret"),
        "{text}"
    );
}

#[tokio::test]
async fn a_row_that_is_no_job_blocks_no_other() {
    let (database, _client, running, effects) = shop().await;
    let row = |columns: &str, values: &str| {
        format!(
            "INSERT INTO jobq_outbox (job_id, payload, {columns}) \
             VALUES (gen_random_uuid(), '{{\"text\":\"a\"}}', {values});"
        )
    };
    let table = [
        (row("queue", "NULL"), "this one has neither"),
        (row("queue, topic", "'notes', 'shop.a'"), "this one has both"),
        (row("queue", "'no such queue'"), "the queue name"),
        (row("queue, name", "'notes', ''"), "the job name"),
        (row("topic", "'a..b'"), "topic"),
        (row("queue, version", "'notes', 2"), "update the program of the relay"),
        (row("queue, headers", "'notes', '[1]'"), "a JSON object of texts"),
        (row("queue, due_at", "'notes', 'infinity'"), "`due_at` is before 1970"),
        (row("queue, expires_at", "'notes', '-infinity'"), "`expires_at` is before 1970"),
        (row("queue, enqueued_at", "'notes', 'infinity'"), "`enqueued_at` is before 1970"),
        (row("queue, retry_wait", "'notes', -1"), "`retry_wait` is negative"),
        (row("queue", "'absent'"), "queue `absent` does not exist; start a pool"),
        (
            "INSERT INTO jobq_outbox (job_id, queue, payload) \
             VALUES (gen_random_uuid(), 'notes', convert_to(repeat('x', 16777217), 'UTF8'));"
                .to_owned(),
            "16777217 bytes, more than this engine's limit",
        ),
    ];
    let bad: String = table.iter().map(|(row, _)| &**row).collect();
    let good = "INSERT INTO jobq_outbox (queue, name, job_id, payload) \
                VALUES ('notes', 'note', gen_random_uuid(), '{\"text\":\"good\"}')";
    // Refused by a clock that was wrong.
    let tomorrow = "UPDATE jobq_outbox SET retry_at = now() + interval '1 day'";
    database.sql(&format!("{good};{tomorrow};{bad}{good}"));
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
    let waits = "SELECT DISTINCT tries, retry_at > now() FROM jobq_outbox";
    assert_eq!(database.sql(waits), "1|t");
    assert_eq!(texts(&effects), ["good", "good"]);
    // Whoever corrects a row need not wait.
    let correct = "UPDATE jobq_outbox SET queue = 'notes', name = 'note', retry_at = NULL \
                   WHERE queue = 'absent'";
    database.sql(correct);
    assert_eq!(effects.until(3).await[2].text, "a");
    until("refused rows are counted", || {
        let health = running.health();
        health.relays[0].backlog.as_ref().is_some_and(|left| left.refused == 12)
    })
    .await;
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn rows_of_other_namespaces_stay() {
    let (database, client, running, effects) = shop().await;
    database.sql(
        "INSERT INTO jobq_outbox (namespace, queue, job_id, payload) \
         VALUES ('other', 'notes', gen_random_uuid(), '{}')",
    );
    note(&mut connect(&database).await, &client, "a").await;
    effects.until(1).await;
    until("one row is left", || database.sql("SELECT namespace FROM jobq_outbox") == "other").await;
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn one_relay_works_and_the_next_takes_over() {
    let (database, client) = (Postgres::start(), client().await);
    let outbox = || PgOutbox::lazy(database.url("postgres")).unwrap();
    let first = Relay::new(&client, outbox()).spawn().unwrap();
    until_state(&first, "the first works", |state| matches!(state, RelayState::Sending)).await;
    // Both try all the time, and the first has nothing to do: they may change places.
    let second = Relay::new(&client, outbox()).spawn().unwrap();
    let (running, effects) = pool(&client, outbox()).await;
    let mut db = connect(&database).await;
    for number in 0..50 {
        note(&mut db, &client, &number.to_string()).await;
    }
    effects.until(50).await;
    first.shutdown().await.unwrap();
    second.shutdown().await.unwrap();
    note(&mut db, &client, "last").await;
    let all = effects.until(51).await;
    assert_eq!(all.last().unwrap().text, "last");
    assert_eq!(all.len(), 51, "none is sent twice");
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_relay_that_hangs_loses_its_rows_to_the_next() {
    let (database, client) = (Postgres::start(), client().await);
    let mut db = connect(&database).await;
    note(&mut db, &client, "a").await;
    let hanging = PgOutbox::connect(database.url("postgres")).await.unwrap();
    let mut take = Take::new("jobq");
    take.hold = Duration::from_secs(2);
    let Taking::Rows { rows, taken, .. } = hanging.take(&take).await.unwrap() else {
        panic!("there is a row")
    };
    assert_eq!(rows.len(), 1);
    let next = PgOutbox::connect(database.url("postgres")).await.unwrap();
    assert!(matches!(next.take(&take).await.unwrap(), Taking::Standby));
    let (running, effects) = pool(&client, next).await;
    assert_eq!(effects.until(1).await[0].text, "a");
    // Its transaction has ended, so it deletes nothing.
    let error = taken.settle(jobq::relay::Settled::default()).await.unwrap_err();
    assert!(error.is_connection(), "{error}");
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_transaction_that_commits_late_is_not_passed_over() {
    let (database, client, running, effects) = shop().await;
    let (mut late, mut db) = (connect(&database).await, connect(&database).await);
    let tx = late.transaction().await.unwrap();
    client.enqueue(Note { text: "late".into() }).within(&tx).await.unwrap();
    for number in 0..20 {
        note(&mut db, &client, &number.to_string()).await;
    }
    effects.until(20).await;
    tx.commit().await.unwrap();
    assert_eq!(effects.until(21).await[20].text, "late");
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_database_that_dies_and_comes_back_loses_nothing() {
    let (mut database, client, running, effects) = shop().await;
    let mut db = connect(&database).await;
    note(&mut db, &client, "before").await;
    effects.until(1).await;
    for round in 0..3 {
        let mut db = connect(&database).await;
        // It dies while the relay has rows in its hands, or before it takes them.
        note(&mut db, &client, &format!("round {round}")).await;
        database.kill();
        until("the relay notices", || is_interrupted(&running.health().relays[0].state)).await;
        assert!(running.health().is_consuming(), "its queues have nothing to do with it");
        database.restart();
    }
    // Its queue is in order: the last one runs after all others.
    note(&mut connect(&database).await, &client, "last").await;
    until("the last one ran", || texts(&effects).iter().any(|text| text == "last")).await;
    until("all rows are sent", || database.sql("SELECT count(*) FROM jobq_outbox") == "0").await;
    let ran = texts(&effects);
    for text in ["before", "round 0", "round 1", "round 2", "last"] {
        let runs = ran.iter().filter(|ran| *ran == text).count();
        assert!((1..=2).contains(&runs), "{text}: {ran:?}");
    }
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn old_marks_are_deleted() {
    let database = Postgres::start();
    let outbox = PgOutbox::connect(database.url("postgres")).await.unwrap();
    database.sql(
        "INSERT INTO jobq_inbox SELECT 'jobq', 'mail', 'send', gen_random_uuid(), 'step', \
         now() - interval '31 days' FROM generate_series(1, 2500); \
         INSERT INTO jobq_inbox SELECT namespace, 'mail', 'send', gen_random_uuid(), 'step', \
         now() - age FROM (VALUES ('jobq', interval '29 days'), ('other', '31 days')) \
         AS mark (namespace, age)",
    );
    assert_eq!(outbox.clean("jobq").await.unwrap(), 2_500);
    assert_eq!(database.sql("SELECT namespace FROM jobq_inbox ORDER BY 1"), "jobq\nother");
}

#[tokio::test]
async fn the_same_id_may_be_written_twice() {
    let (database, client, running, effects) = shop().await;
    let mut db = connect(&database).await;
    let id = JobId::of_key("order-7");
    for _ in 0..2 {
        let tx = db.transaction().await.unwrap();
        client.enqueue(Note { text: "a".into() }).id(id).within(&tx).await.unwrap();
        tx.commit().await.unwrap();
    }
    assert_eq!(effects.until(2).await.iter().map(|effect| effect.id).collect::<Vec<_>>(), [id, id]);
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_relay_ends_with_its_client() {
    let (database, client) = (Postgres::start(), client().await);
    let outbox = PgOutbox::connect(database.url("postgres")).await.unwrap();
    let relay = Relay::new(&client, outbox).spawn().unwrap();
    until_state(&relay, "it works", |state| matches!(state, RelayState::Sending)).await;
    client.close().await;
    let mut db = connect(&database).await;
    note(&mut db, &client, "a").await;
    let ended = timeout(LIMIT, relay.wait()).await.unwrap();
    assert!(ended.unwrap_err().is_closed());
    assert_eq!(database.sql("SELECT count(*) FROM jobq_outbox"), "1");
    assert!(matches!(relay.health().state, RelayState::Ended));
}

#[tokio::test]
async fn a_relay_and_transactions_pass_pgbouncer() {
    let (database, client) = (Postgres::start(), client().await);
    let bouncer = PgBouncer::start(&database);
    let outbox = PgOutbox::connect(bouncer.url()).await.unwrap();
    let (running, effects) = pool(&client, outbox).await;
    // More connections than the bouncer has to the server, so that they take turns.
    let mut writing = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let (url, client) = (bouncer.url(), client.clone());
        writing.spawn(async move {
            let (mut db, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
            tokio::spawn(connection);
            for number in 0..25 {
                note(&mut db, &client, &format!("{writer}.{number}")).await;
            }
        });
    }
    while let Some(written) = writing.join_next().await {
        written.unwrap();
    }
    effects.until(200).await;
    assert_eq!(effects.all().len(), 200);
    let health = running.health();
    assert!(matches!(health.relays[0].state, RelayState::Sending), "{health:?}");
    running.shutdown().await.unwrap();
}

both_engines!(a_row_waits_for_its_queue_and_its_priorities, a_delay_ends_at_its_due_time);

#[job(queue = "exports", priorities)]
async fn export(effects: State<Effects>, ctx: JobContext) -> Result<(), BoxError> {
    effects.note("export", &ctx);
    Ok(())
}

#[job(queue = "exports")]
async fn import() -> Result<(), BoxError> {
    Ok(())
}

async fn a_row_waits_for_its_queue_and_its_priorities(store: Store) {
    let (database, client) = (Postgres::start(), store.client().await);
    let outbox = PgOutbox::connect(database.url("postgres")).await.unwrap();
    let relay = Relay::new(&client, outbox).spawn().unwrap();
    let mut db = connect(&database).await;
    let tx = db.transaction().await.unwrap();
    client.enqueue(Export {}).priority(Priority::High).within(&tx).await.unwrap();
    tx.commit().await.unwrap();
    let error = "SELECT error FROM jobq_outbox";
    let again = "UPDATE jobq_outbox SET retry_at = NULL";
    let has = |expected: &'static str| database.sql(error).contains(expected);
    until("the queue is missing", || has("queue `exports` does not exist")).await;
    // Another program declares it without priorities.
    let other = store.client().await;
    other.declare::<Import>().await.unwrap();
    until("it has no priorities", || {
        database.sql(again);
        has("queue `exports` has no priorities, and the job has the priority high")
    })
    .await;
    let effects = Effects::default();
    let pool = WorkerPool::new(&other).state(effects.clone()).register::<Export>();
    let running = pool.spawn().await.unwrap();
    until("it runs", || {
        database.sql(again);
        !effects.all().is_empty()
    })
    .await;
    relay.shutdown().await.unwrap();
    running.shutdown().await.unwrap();
}

async fn a_delay_ends_at_its_due_time(store: Store) {
    let (database, client) = (Postgres::start(), store.client().await);
    let mut db = connect(&database).await;
    let tx = db.transaction().await.unwrap();
    let delayed = client.enqueue(Note { text: "later".into() }).delay("2500ms");
    delayed.within(&tx).await.unwrap();
    client.enqueue(Note { text: "now".into() }).within(&tx).await.unwrap();
    tx.commit().await.unwrap();
    // As if it had been there for a while, in which most of the delay went by.
    database.sql("UPDATE jobq_outbox SET enqueued_at = enqueued_at - interval '2 seconds'");
    let outbox = PgOutbox::connect(database.url("postgres")).await.unwrap();
    let (running, effects) = pool(&client, outbox).await;
    let all = effects.until(2).await;
    let later = all.iter().find(|effect| effect.text == "later").unwrap();
    assert!(later.started >= later.due, "{later:?}");
    running.shutdown().await.unwrap();
}
