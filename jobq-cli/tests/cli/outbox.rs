//! `jobq outbox` and `jobq relay`.

use std::process::Stdio;

use jobq::Client;
use jobq_outbox_facts::{Note, Postgres};
use jobq_tests::files::Directory;
use jobq_tests::test_store::until;
use tokio::process::Command;

use crate::process::{Ran, command, run};

fn on(database: &Postgres, arguments: &[&str]) -> Command {
    let mut command = command(arguments);
    command.env("JOBQ_OUTBOX_URL", database.url("postgres"));
    command
}

async fn jobq(database: &Postgres, arguments: &[&str]) -> Ran {
    run(on(database, arguments)).await
}

#[tokio::test]
async fn tables_are_made_and_verified() {
    let database = Postgres::empty();
    let ran = jobq(&database, &["outbox", "verify"]).await;
    assert!(ran.error(4).contains("run the migration"), "{ran:#?}");
    let printed = run(command(&["outbox", "migrate", "--print"])).await;
    assert_eq!(printed.out, jobq::outbox::postgres::MIGRATION);
    let ran = run(command(&["outbox", "migrate"])).await;
    assert!(ran.error(2).contains("--outbox <URL>"), "{ran:#?}");
    for made in [true, false] {
        let document = jobq(&database, &["outbox", "migrate", "--json"]).await;
        assert_eq!(document.json(0, "outbox-migrate")["made"], made);
    }
    let document = jobq(&database, &["outbox", "verify", "--json"]).await.json(0, "outbox-verify");
    let outbox = document["outbox"].as_str().unwrap();
    assert!(outbox.starts_with("jobq_outbox of database shop at /tmp/"), "{outbox}");
    let cleaned = jobq(&database, &["outbox", "clean", "--json"]).await;
    assert_eq!(cleaned.json(0, "outbox-clean")["deleted"], 0);
}

#[tokio::test]
async fn refused_rows_are_listed_retried_and_discarded() {
    let database = Postgres::start();
    let empty = jobq(&database, &["outbox", "list"]).await;
    assert_eq!(empty.lines(0), ["ROW  TO  JOB  AGE  TRIES  NEXT  ERROR"]);
    database.sql(
        "INSERT INTO jobq_outbox (queue, name, job_id, payload, tries, retry_at, error) \
         SELECT 'absent', 'send', gen_random_uuid(), '{}', 1, now() + interval '1 hour', 'no queue' \
         FROM generate_series(1, 3)",
    );
    let listed = jobq(&database, &["outbox", "list", "--json"]).await.json(0, "outbox-list");
    let row = &listed["rows"][0];
    assert_eq!(
        (&row["queue"], &row["job"], &row["tries"]),
        (&"absent".into(), &"send".into(), &1.into())
    );
    let ran = jobq(&database, &["outbox", "list", "--limit", "1"]).await;
    let lines = ran.lines(0);
    assert!(lines.len() == 2 && lines[1].ends_with("no queue"), "{lines:#?}");

    let retried = jobq(&database, &["outbox", "retry", "1", "--json"]).await;
    assert_eq!(retried.json(0, "outbox-change")["rows"], 1);
    let again = "SELECT seq FROM jobq_outbox WHERE retry_at IS NULL";
    assert_eq!(database.sql(again), "1");
    let ran = jobq(&database, &["outbox", "discard", "2"]).await;
    assert!(ran.error(2).contains("delete 1 refused rows"), "{ran:#?}");
    assert_eq!(
        jobq(&database, &["outbox", "discard", "2", "7", "--yes"]).await.lines(3),
        ["rows discarded: 1"]
    );
    assert_eq!(jobq(&database, &["outbox", "discard", "7", "--yes"]).await.code, 4);
    assert_eq!(
        jobq(&database, &["outbox", "discard", "--all", "--yes"]).await.lines(0),
        ["rows discarded: 2"]
    );
    assert_eq!(jobq(&database, &["outbox", "retry"]).await.code, 2);
}

#[tokio::test]
async fn a_relay_enqueues_until_it_is_stopped() {
    let (database, folder) = (Postgres::start(), Directory::new());
    let url = folder.url("jobs.db");
    let client = Client::connect(&url).await.unwrap();
    client.declare::<Note>().await.unwrap();
    let row = client.enqueue(Note { text: "a".into() }).row().unwrap();
    database.sql(&format!(
        "INSERT INTO jobq_outbox (queue, name, job_id, payload) VALUES ('notes', 'note', '{}', '{}')",
        row.job_id, r#"{"text":"a"}"#
    ));
    let mut relay = on(&database, &["relay"]);
    relay.env("JOBQ_URL", &url).stdout(Stdio::piped()).stderr(Stdio::piped());
    let relay = relay.spawn().unwrap();
    let count = "SELECT count(*) FROM jobq_outbox";
    until("the row is sent", async || (database.sql(count) == "0").then_some(())).await;
    let pid = relay.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").arg(pid).status().unwrap().success());
    let ran = Ran::from(relay.wait_with_output().await.unwrap());
    assert_eq!((ran.code, &*ran.out), (0, ""), "{ran:#?}");
    assert!(ran.err.contains("relaying from jobq_outbox of database shop"), "{ran:#?}");
    assert_eq!(client.counts("notes").await.unwrap().ready, 1);
}

#[tokio::test]
async fn the_outbox_of_a_file_is_listed_and_corrected() {
    let folder = Directory::new();
    let on_file = async |url: &str, arguments: &[&str]| {
        let mut command = command(arguments);
        command.env("JOBQ_OUTBOX_URL", url).env("JOBQ_URL", "sqlite::memory:");
        run(command).await
    };
    let url = folder.url("shop.db");
    let ran = on_file(&url, &["outbox", "verify"]).await;
    assert!(ran.error(5).contains("check the path of the file"), "{ran:#?}");
    let printed = on_file(&url, &["outbox", "migrate", "--print"]).await;
    assert_eq!(printed.out, jobq::outbox::sqlite::MIGRATION);
    for made in [true, false] {
        let document = on_file(&url, &["outbox", "migrate", "--json"]).await;
        assert_eq!(document.json(0, "outbox-migrate")["made"], made);
    }
    let ran = on_file(&url, &["relay"]).await;
    assert!(ran.error(2).contains("the relay of a file runs in your program"), "{ran:#?}");

    // A file of jobq has the tables, and its pools the rows that were refused.
    let url = folder.url("jobs.db");
    let client = Client::connect(&url).await.unwrap();
    client.declare::<Note>().await.unwrap();
    client.close().await;
    assert_eq!(on_file(&url, &["outbox", "migrate"]).await.code, 0);
    let db = rusqlite::Connection::open(folder.file("jobs.db")).unwrap();
    let insert = "INSERT INTO jobq_outbox (queue, name, job_id, payload, tries, retry_at, error)
        VALUES ('absent', 'send', 'no uuid', x'7b7d', 1, 4102444800000, 'no queue')";
    for _ in 0..3 {
        db.execute_batch(insert).unwrap();
    }
    db.execute_batch("INSERT INTO jobq_inbox VALUES ('jobq', 'a', 'a', 'a', 'a', 5)").unwrap();
    let listed = on_file(&url, &["outbox", "list", "--json"]).await.json(0, "outbox-list");
    assert_eq!(listed["rows"].as_array().unwrap().len(), 3);
    assert_eq!(
        (&listed["rows"][0]["job"], &listed["rows"][0]["bytes"]),
        (&"send".into(), &2.into())
    );
    assert_eq!(on_file(&url, &["outbox", "retry", "1"]).await.lines(0), ["rows retried: 1"]);
    let again = "SELECT group_concat(seq) FROM jobq_outbox WHERE retry_at IS NULL";
    assert_eq!(db.query_row(again, [], |row| row.get::<_, String>(0)).unwrap(), "1");
    let discarded = on_file(&url, &["outbox", "discard", "2", "7", "--yes"]).await;
    assert_eq!(discarded.lines(3), ["rows discarded: 1"]);
    let discarded = on_file(&url, &["outbox", "discard", "--all", "--yes"]).await;
    assert_eq!(discarded.lines(0), ["rows discarded: 2"]);
    assert_eq!(on_file(&url, &["outbox", "clean"]).await.lines(0), ["deleted marks: 1"]);
    db.execute_batch("ALTER TABLE jobq_outbox DROP COLUMN headers").unwrap();
    let ran = on_file(&url, &["outbox", "verify"]).await;
    assert!(ran.error(5).contains("headers"), "{ran:#?}");
}
