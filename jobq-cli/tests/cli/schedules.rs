//! `jobq schedules`.

use jobq_tests::both_engines;
use jobq_tests::test_store::{Scripted, Step, Store, TestStore};

use crate::process::{Ran, command, eventually, jobq, run};

both_engines!(schedules_are_listed_run_paused_and_removed);

const AFTER: &str = "2026-10-24T12:00:00Z";

#[tokio::test]
async fn the_next_times_are_those_of_the_zone() {
    let text = ["schedules", "next", "30 2 * * *", "--zone", "Europe/Berlin"];
    let mut next = command(&text);
    next.args(["--count", "2", "--after", AFTER]);
    let ran = run(next).await;
    let expected = [
        "LOCAL TIME                 UTC                    AFTER",
        "2026-10-25T02:30:00+02:00  2026-10-25T00:30:00Z  12h30m",
        "2026-10-26T02:30:00+01:00  2026-10-26T01:30:00Z   1d13h",
    ];
    assert_eq!(ran.lines(0), expected);

    let mut next = command(&["schedules", "next", "--every", "10m", "--json", "--after", AFTER]);
    next.args(["--count", "1"]);
    let document = run(next).await.json(0, "schedules-next");
    assert_eq!(document["schedule"], "every 10m");
    let due = serde_json::json!([
        {"due": "2026-10-24T12:10:00Z", "local": "2026-10-24T12:10:00+00:00"},
    ]);
    assert_eq!(document["next"], due);

    let ten = run(command(&["schedules", "next", "@hourly"])).await;
    assert!(ten.lines(0).len() == 11 && ten.lines(0)[0].ends_with("IN"), "{ten:#?}");
}

#[tokio::test]
async fn errors_name_the_argument() {
    let table: [(&[&str], &str); 6] = [
        (&["0 25 * * *"], "`25` is not a valid hour (0-23)"),
        (&["@daily", "--zone", "Berlin"], "`Berlin` is not a time zone"),
        (&["--every", "10ms"], "use whole seconds, from 1s to 3650d"),
        (&["@daily", "--every", "10m"], "cannot be used with"),
        (&["@daily", "--count", "0"], "0 is not in 1..=1000"),
        (&[], "required"),
    ];
    for (arguments, expected) in table {
        let ran = run(command(&[&["schedules", "next"], arguments].concat())).await;
        assert!(ran.error(2).contains(expected), "{ran:#?}");
    }
}

async fn schedules_are_listed_run_paused_and_removed(store: Store) {
    let mut test = TestStore::on(store).await;
    let job = Scripted { steps: vec![Step::Succeed] };
    let yearly = test.client.schedule("yearly", job).cron("0 6 1 1 *").zone("Asia/Tokyo");
    yearly.await.unwrap();

    // On RabbitMQ, nobody lists the queues.
    let on_queue = ["--queue", "scripted"];
    let ran = jobq(&test.store, &["schedules", "list", "scripted"]).await;
    let row = ran.lines(0)[1];
    let expected = ["yearly  ", "scripted  ", "0 6 1 1 * (Asia/Tokyo)", "-01-01T06:00:00+09:00"];
    assert!(expected.iter().all(|part| row.contains(part)), "{ran:#?}");

    let run_it = [&["schedules", "run", "yearly", "--json"], &on_queue[..]].concat();
    let document = jobq(&test.store, &run_it).await.json(0, "schedules-change");
    let pool = test.pool().spawn().await.unwrap();
    assert_eq!(document["id"], test.run().await.id.to_string());
    test.end().await;

    let pause = jobq(&test.store, &["schedules", "pause", "yearly", "--by", "ann"]).await;
    assert_eq!(pause.lines(0), ["schedule yearly paused"]);
    let is_paused = |ran: &Ran| ran.out.contains(r#""paused_by":"ann""#);
    let list = ["schedules", "list", "--json"];
    let document = eventually(&test.store, &list, is_paused).await.json(0, "schedules-list");
    assert_eq!(document["schedules"][0]["next"], serde_json::json!([]));
    let ran = jobq(&test.store, &["schedules", "list"]).await;
    assert!(ran.lines(0)[1].contains("  paused  "), "{ran:#?}");

    let resumed = jobq(&test.store, &["schedules", "resume", "yearly"]).await;
    assert_eq!(resumed.lines(0), ["schedule yearly resumed"]);
    let runs = |ran: &Ran| ran.out.contains(r#""paused":null"#);
    let document = eventually(&test.store, &list, runs).await.json(0, "schedules-list");
    assert_eq!(document["schedules"][0]["next"].as_array().unwrap().len(), 10);

    let removed = jobq(&test.store, &["schedules", "remove", "yearly", "--json"]).await;
    assert_eq!(removed.json(0, "schedules-change")["change"], "removed");
    let is_gone = |ran: &Ran| ran.out.contains(r#""schedules":[]"#);
    eventually(&test.store, &list, is_gone).await;
    let missing = jobq(&test.store, &["schedules", "run", "yearly"]).await;
    assert!(missing.error(4).contains("no queue has a schedule `yearly`"), "{missing:#?}");
    pool.shutdown().await.unwrap();
}
