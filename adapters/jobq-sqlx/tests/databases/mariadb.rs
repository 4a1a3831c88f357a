//! MariaDB.

use std::collections::HashSet;
use std::time::Duration;

use jobq::outbox::mysql::MIGRATION;
use jobq::relay::{Settled, Source as _, Take, Taking};
use jobq::{Client, JobContext};
use jobq_outbox_facts::{Database, MariaDb, Users, pool};
use jobq_sqlx::{MySqlOutbox, Once, Within};
use sqlx::{Connection, MySqlConnection, MySqlPool};
use tokio::time::timeout;

use crate::adapter::OnMariaDb;
use crate::relays::{Relayed, good, relays};
use crate::watch::{client, is_interrupted, note, texts, until};

/// A private server.
pub(crate) struct Server(MariaDb);

impl Database for Server {
    type Outbox = MySqlOutbox;

    fn start() -> Self {
        Self(MariaDb::start())
    }

    fn url(&self) -> String {
        self.0.url("root")
    }

    async fn outbox(&self) -> MySqlOutbox {
        MySqlOutbox::connect(self.url()).await.unwrap()
    }

    fn sql(&self, statements: &str) -> String {
        self.0.sql(statements)
    }
}

impl Users for Server {
    fn add_clerk(&self) -> String {
        // Without any right in the database, it could not even choose it.
        self.sql("CREATE USER clerk@localhost; GRANT SELECT ON orders TO clerk@localhost");
        self.0.url("clerk")
    }

    fn let_clerk_enqueue(&self) {
        self.sql("GRANT INSERT ON jobq_outbox TO clerk@localhost");
    }
}

impl Relayed for Server {
    const MIGRATION: &str = MIGRATION;
    const LARGE: &str = "repeat('x', 16777217)";
    const INSERT: &str = "\
INSERT INTO jobq_outbox (queue, name, job_id, payload) \
VALUES ('send_invoice', 'send_invoice', uuid(), '{\"order\": 7}');";

    fn empty() -> Self {
        Self(MariaDb::empty())
    }

    fn lazy(&self) -> MySqlOutbox {
        MySqlOutbox::lazy(self.url()).unwrap()
    }
}

jobq_outbox_facts::facts!(OnMariaDb, on Server);
relays!(Server);

/// Counts the rows of both tables.
const ROWS: &str = "SELECT (SELECT count(*) FROM jobq_outbox) + (SELECT count(*) FROM jobq_inbox)";

async fn shop() -> (Server, MySqlConnection, Client) {
    let server = Server::start();
    let db = MySqlConnection::connect(&server.url()).await.unwrap();
    (server, db, client().await)
}

async fn commit(db: &mut MySqlConnection, client: &Client, text: &str) {
    let mut tx = db.begin().await.unwrap();
    client.enqueue(note(text)).within(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_transaction_that_a_nested_begin_has_ended_takes_no_job() {
    let (server, mut db, client) = shop().await;
    let mut tx = db.begin().await.unwrap();
    client.enqueue(note("before")).within(&mut *tx).await.unwrap();
    tx.begin_with("BEGIN").await.unwrap_err();
    let after = client.enqueue(note("after")).within(&mut *tx).await.unwrap_err();
    let many = client.enqueue_all([note("after")]).within(&mut *tx).await.unwrap_err();
    let mark = JobContext::for_test().once(&mut *tx, "pay").await.unwrap_err();
    for error in [after, many, mark] {
        assert!(error.is_invalid() && error.to_string().contains("`begin()`"), "{error}");
    }
    tx.commit().await.unwrap();
    assert_eq!(server.sql(ROWS), "0");
}

/// The server ends a transaction, and each further statement would commit by itself.
#[tokio::test]
async fn a_transaction_that_the_server_has_ended_takes_no_job() {
    let (server, mut db, client) = shop().await;
    server.sql(
        "CREATE TABLE orders (id int PRIMARY KEY, paid int); \
                INSERT INTO orders VALUES (1, 0), (2, 0)",
    );
    let mut tx = db.begin().await.unwrap();
    sqlx::raw_sql("CREATE TABLE commits (id int)").execute(&mut *tx).await.unwrap();
    let error = client.enqueue(note("after a commit")).within(&mut *tx).await.unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("has ended"), "{error}");
    tx.rollback().await.unwrap();

    let mut other = MySqlConnection::connect(&server.url()).await.unwrap();
    let (mut one, mut two) = (db.begin().await.unwrap(), other.begin().await.unwrap());
    let pay =
        |order: i32| sqlx::query("UPDATE orders SET paid = paid + 1 WHERE id = ?").bind(order);
    pay(1).execute(&mut *one).await.unwrap();
    pay(2).execute(&mut *two).await.unwrap();
    let (first, second) = tokio::join!(pay(2).execute(&mut *one), pay(1).execute(&mut *two));
    assert!(first.is_err() != second.is_err(), "one is the victim");
    let mut victim = if first.is_err() { one } else { two };
    let job = client.enqueue(note("after a deadlock")).within(&mut *victim).await.unwrap_err();
    let mark = JobContext::for_test().once(&mut *victim, "pay").await.unwrap_err();
    for error in [job, mark] {
        assert!(error.is_invalid() && error.to_string().contains("has ended"), "{error}");
    }
    victim.commit().await.unwrap();
    assert_eq!(server.sql(ROWS), "0");
}

/// A packet that is too large would end the connection.
#[tokio::test]
async fn a_row_that_is_larger_than_a_packet_leaves_the_transaction_usable() {
    let (server, _db, client) = shop().await;
    server.sql("SET GLOBAL max_allowed_packet = 1048576");
    let mut db = MySqlConnection::connect(&server.url()).await.unwrap();
    let mut tx = db.begin().await.unwrap();
    let large = || note(&"x".repeat(1_048_576));
    let one = client.enqueue(large()).within(&mut *tx).await.unwrap_err();
    let many = client.enqueue_all([note("a"), large()]).within(&mut *tx).await.unwrap_err();
    for error in [one, many] {
        let text = error.to_string();
        assert!(error.is_invalid() && text.contains("`max_allowed_packet` of 1048576"), "{text}");
    }
    let almost = note(&"x".repeat(1_048_000));
    client.enqueue_all([note("b"), almost]).within(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(server.sql(ROWS), "3");
}

#[tokio::test]
async fn a_savepoint_that_is_rolled_back_loses_its_job_only() {
    let (server, mut db, client) = shop().await;
    let mut tx = db.begin().await.unwrap();
    client.enqueue(note("outer")).within(&mut *tx).await.unwrap();
    let mut nested = tx.begin().await.unwrap();
    client.enqueue(note("rolled back")).within(&mut *nested).await.unwrap();
    nested.rollback().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(server.sql("SELECT payload FROM jobq_outbox"), "{\"text\":\"outer\"}");
}

#[tokio::test]
async fn many_large_jobs_take_several_statements_in_their_order() {
    const JOBS: usize = 11;
    let (server, mut db, client) = shop().await;
    let megabyte = "x".repeat(1_000_000);
    let jobs = (0..JOBS).map(|number| note(&format!("{number}{megabyte}")));
    let mut tx = db.begin().await.unwrap();
    let ids = client.enqueue_all(jobs).within(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
    assert_eq!(server.sql("SELECT job_id FROM jobq_outbox ORDER BY seq"), ids.join("\n"));
}

/// Two steps differ by a space at the end, or by the case of a letter.
#[tokio::test]
async fn steps_are_compared_by_their_bytes() {
    let (_server, mut db, _client) = shop().await;
    let ctx = JobContext::for_test();
    let mut tx = db.begin().await.unwrap();
    for step in ["pay", "pay ", "Pay", "päy", "pay\u{308}"] {
        assert!(ctx.once(&mut *tx, step).await.unwrap().is_first(), "{step:?}");
        assert!(!ctx.once(&mut *tx, step).await.unwrap().is_first(), "{step:?}");
    }
    tx.commit().await.unwrap();
}

/// The time is that of the row, whatever the zones of the sessions.
#[tokio::test]
async fn times_do_not_depend_on_time_zones() {
    let (server, mut db, client) = shop().await;
    server.sql("SET GLOBAL time_zone = '-11:00'");
    sqlx::raw_sql("SET time_zone = '+05:45'").execute(&mut db).await.unwrap();
    let mut tx = db.begin().await.unwrap();
    client.enqueue(note("a")).delay("1h").within(&mut *tx).await.unwrap();
    let ctx = JobContext::for_test();
    assert!(ctx.once(&mut *tx, "pay").await.unwrap().is_first());
    tx.commit().await.unwrap();
    let ages = "SELECT abs(enqueued_at - now_ms) < 60000, due_at - enqueued_at, \
                abs((SELECT done_at FROM jobq_inbox) - now_ms) < 60000 FROM jobq_outbox, \
                (SELECT unix_timestamp() * 1000 AS now_ms) clock";
    assert_eq!(server.sql(ages), "1|3600000|1");
}

/// A relay with rows in its hands stops neither inserts nor transactions that stay open.
#[tokio::test]
async fn inserts_do_not_wait_for_the_relay() {
    let (server, mut db, client) = shop().await;
    commit(&mut db, &client, "first").await;
    let mut open = MySqlConnection::connect(&server.url()).await.unwrap();
    let mut open = open.begin().await.unwrap();
    client.enqueue(note("open")).within(&mut open).await.unwrap();
    let outbox = server.outbox().await;
    let Taking::Rows { rows, taken, .. } = outbox.take(&Take::new("jobq")).await.unwrap() else {
        panic!("there is a row")
    };
    assert_eq!(rows.len(), 1, "the row of the open transaction is not seen");
    // A lock would be waited for during 50 seconds.
    let inserting = async {
        for number in 0..20 {
            commit(&mut db, &client, &number.to_string()).await;
        }
        client.enqueue(note("open, too")).within(&mut open).await.unwrap();
    };
    timeout(Duration::from_secs(20), inserting).await.expect("no insert waits");
    let mut settled = Settled::default();
    settled.sent = vec![rows[0].seq];
    timeout(Duration::from_secs(20), taken.settle(settled))
        .await
        .expect("no delete waits")
        .unwrap();
    open.commit().await.unwrap();
    assert_eq!(server.sql("SELECT count(*) FROM jobq_outbox"), "22");
    // So it is under REPEATABLE READ, which the relay does not use.
    let mut scan = MySqlConnection::connect(&server.url()).await.unwrap();
    let mut scan = scan.begin().await.unwrap();
    let locking = "SELECT seq FROM jobq_outbox WHERE seq > 0 ORDER BY seq LIMIT 500 FOR UPDATE \
                   SKIP LOCKED";
    sqlx::raw_sql(locking).execute(&mut *scan).await.unwrap();
    sqlx::raw_sql("SET innodb_lock_wait_timeout = 1").execute(&mut db).await.unwrap();
    server.sql("CREATE TABLE orders (id int PRIMARY KEY)");
    let mut tx = db.begin().await.unwrap();
    sqlx::raw_sql("INSERT INTO orders VALUES (1)").execute(&mut *tx).await.unwrap();
    let error = client.enqueue(note("blocked")).within(&mut tx).await.unwrap_err();
    assert!(error.is_conflict() && error.to_string().contains("Lock wait timeout"), "{error}");
    // The statement alone is rolled back.
    tx.commit().await.unwrap();
    assert_eq!(server.sql("SELECT id FROM orders"), "1");
}

#[tokio::test]
async fn a_transaction_that_commits_late_is_not_passed_over() {
    let (server, mut db, client) = shop().await;
    let (running, effects) = pool(&client, server.outbox().await).await;
    let mut late = MySqlConnection::connect(&server.url()).await.unwrap();
    let mut late = late.begin().await.unwrap();
    client.enqueue(note("late")).within(&mut late).await.unwrap();
    for number in 0..20 {
        commit(&mut db, &client, &number.to_string()).await;
    }
    effects.until(20).await;
    late.commit().await.unwrap();
    assert_eq!(effects.until(21).await[20].text, "late");
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_relay_whose_connection_is_killed_is_followed_by_the_next() {
    let server = Server::start();
    server.sql(&good("a"));
    let (first, second) = (server.outbox().await, server.outbox().await);
    let take = Take::new("jobq");
    let Taking::Rows { taken, .. } = first.take(&take).await.unwrap() else {
        panic!("there is a row")
    };
    assert!(matches!(second.take(&take).await.unwrap(), Taking::Standby));
    let kill = "SELECT concat('KILL ', id) FROM information_schema.processlist \
                WHERE command = 'Sleep' AND id IN (SELECT trx_mysql_thread_id FROM \
                information_schema.innodb_trx)";
    let kill = server.sql(kill);
    server.sql(&kill);
    let next = async {
        loop {
            if let Taking::Rows { rows, .. } = second.take(&take).await.unwrap() {
                return rows;
            }
        }
    };
    assert_eq!(timeout(Duration::from_secs(10), next).await.unwrap().len(), 1);
    let error = taken.settle(Settled::default()).await.unwrap_err();
    assert!(error.is_connection(), "{error}");
}

/// What was committed runs, and what runs twice is at most a batch for each kill.
#[tokio::test]
async fn a_database_that_dies_and_comes_back_loses_nothing() {
    const ROUNDS: usize = 3;
    const JOBS: usize = 1_000;
    let (mut server, _db, client) = shop().await;
    let (running, effects) = pool(&client, server.outbox().await).await;
    for round in 0..ROUNDS {
        let mut db = MySqlConnection::connect(&server.url()).await.unwrap();
        let seen = effects.all().len();
        let mut tx = db.begin().await.unwrap();
        let jobs = (0..JOBS).map(|number| note(&format!("{round} {number}")));
        client.enqueue_all(jobs).within(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        // The relay has sent some of them, and has rows in its hands.
        effects.until(seen + 1).await;
        server.0.kill();
        until("the relay notices", || is_interrupted(&running.health().relays[0].state)).await;
        assert!(running.health().is_consuming(), "its queues have nothing to do with it");
        server.0.restart();
    }
    until("all rows are sent", || server.sql("SELECT count(*) FROM jobq_outbox") == "0").await;
    server.sql(&good("last"));
    until("the last one ran", || texts(&effects).iter().any(|text| text == "last")).await;
    let ran = texts(&effects);
    let different: HashSet<_> = ran.iter().collect();
    assert_eq!(different.len(), ROUNDS * JOBS + 1, "nothing is missing");
    assert!(ran.len() <= different.len() + ROUNDS * 500, "{} runs", ran.len());
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn missing_rights_and_columns_are_named() {
    let server = Server::start();
    server.sql(
        "CREATE TABLE orders (id int); CREATE USER courier@localhost; \
                GRANT SELECT ON orders TO courier@localhost",
    );
    let url = server.0.url("courier");
    let error = MySqlOutbox::connect(&url).await.unwrap_err();
    let expected = "lacks SELECT on jobq_outbox, UPDATE on jobq_outbox, DELETE on jobq_outbox, \
                    SELECT on jobq_inbox, DELETE on jobq_inbox";
    assert!(error.is_refused() && error.to_string().contains(expected), "{error}");
    server.sql("GRANT SELECT, UPDATE, DELETE ON jobq_outbox TO courier@localhost");
    let error = MySqlOutbox::connect(&url).await.unwrap_err();
    assert!(error.to_string().contains("lacks SELECT on jobq_inbox, DELETE"), "{error}");
    server.sql("GRANT SELECT, DELETE ON jobq_inbox TO courier@localhost");
    // These rights are enough.
    let outbox = MySqlOutbox::connect(&url).await.unwrap();
    let (running, effects) = pool(&client().await, outbox).await;
    server.sql(&good("a"));
    effects.until(1).await;
    running.shutdown().await.unwrap();
    server.sql("ALTER TABLE jobq_outbox DROP COLUMN headers");
    let error = MySqlOutbox::connect(&url).await.unwrap_err();
    assert!(error.is_conflict() && error.to_string().contains("'headers'"), "{error}");
}

#[tokio::test]
async fn a_url_that_is_none_shows_no_password() {
    for url in ["postgres://ann:topsecret@db/shop", "mysql://ann:topsecret@db:port/shop"] {
        let error = MySqlOutbox::lazy(url).unwrap_err().to_string();
        assert!(!error.contains("topsecret") && error.contains("expected one such as"), "{error}");
    }
    let refused = MySqlOutbox::connect("mysql://ann:topsecret@127.0.0.1:1/shop").await.unwrap_err();
    let text = refused.to_string();
    assert!(
        refused.is_connection() && text.contains("refused") && !text.contains("topsecret"),
        "{text}"
    );
}

#[tokio::test]
async fn a_pool_lends_its_options_and_the_tables_are_made_once() {
    let server = Server(MariaDb::empty());
    let db = MySqlPool::connect(&server.url()).await.unwrap();
    let outbox = MySqlOutbox::of_pool(&db);
    assert!(outbox.migrate().await.unwrap());
    assert!(!outbox.migrate().await.unwrap());
    outbox.verify().await.unwrap();
    server.sql(&good("a"));
    let taking = outbox.take(&Take::new("jobq")).await.unwrap();
    assert!(matches!(taking, Taking::Rows { .. }), "{taking:?}");
}
