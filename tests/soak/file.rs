//! A process that enqueues and works on a file dies at random moments, from its start on.

use std::time::Duration;

use jobq_tests::ledger::Ledger;
use jobq_tests::test_store::Store;

use super::{Books, Process, rounds};

/// Only one process is there at a time, so nobody takes over from one that is just slow.
const LEASE: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_on_a_sqlite_file_whose_process_dies() {
    let store = Store::sqlite().await;
    let path = store.url.strip_prefix("sqlite://").unwrap();
    let mut books = Books::open();
    let ledger = Ledger::open(&books.path, "test").unwrap();
    let kills = rounds(15, 200);
    for number in 0..kills {
        let name = format!("p{number}");
        let process = Process::start(&store, &books.path, &name, LEASE, 10);
        if fastrand::bool() {
            books.until("a process runs nothing", |account| account.has_begun(&name)).await;
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..500))).await;
        ledger.kills(&name);
        process.kill();
        let file = rusqlite::Connection::open(path).unwrap();
        let state: String = file.query_row("PRAGMA quick_check", [], |row| row.get(0)).unwrap();
        assert_eq!(state, "ok", "after kill {number}");
        let client = store.client().await;
        client.counts("soak_job").await.unwrap();
        client.close().await;
    }
    let mut last = Process::start(&store, &books.path, "last", LEASE, 0);
    last.ready();
    let client = store.client().await;
    let report = books.close("a process dies, SQLite", kills, &client).await;
    last.terminate();
    report.assert_nothing_lost();
}
