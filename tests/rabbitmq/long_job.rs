//! A long job among many short ones neither holds them up nor has them run again.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use jobq_tests::files::Directory;
use jobq_tests::jobs::waits_for_others::WaitsForOthers;
use jobq_tests::test_store::Store;
use jobq_tests::vhost::Vhost;
use tokio::process::{Child, Command};

const SHORT: u32 = 10_000;
const LONG: u32 = 0;
const SECOND_LONG: u32 = 20_000;
const LAST: u32 = 30_000;

fn worker(store: &Store, ledger: &Path, waits: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
    command.args(["waits_for_others", &store.url, &store.namespace]).arg(ledger).arg(waits);
    command.stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap()
}

fn lines(ledger: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(ledger).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// As [`until`](jobq_tests::test_store::until), with time for 10,000 jobs on a busy machine.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let asking = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(300), asking).await.expect(what);
}

async fn written(ledger: &Path, line: String) {
    until(&line, async || lines(ledger).contains(&line)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_job_among_ten_thousand_holds_none_up_and_has_none_run_again() {
    let test = "a_long_job_among_ten_thousand_holds_none_up_and_has_none_run_again";
    let Some(vhost) = Vhost::of(test).await else {
        return;
    };
    let store = Store::on_broker(vhost.url());
    let client = store.client().await;
    let folder = Directory::new();
    let ledger = folder.path().join("ledger");
    let job = |number, until| WaitsForOthers { number, until };

    client.enqueue(job(LONG, SHORT)).await.unwrap();
    let mut first = worker(&store, &ledger, "1");
    written(&ledger, format!("begins {LONG}")).await;
    client.enqueue_all((1..=SHORT).map(|number| job(number, 0))).await.unwrap();
    // It goes on when all the others have ended, so they did while it was in hand.
    written(&ledger, format!("waited {LONG}")).await;

    // A second one, so that what the broker says is of now: the two alone are in hand.
    client.enqueue(job(SECOND_LONG, u32::MAX)).await.unwrap();
    written(&ledger, format!("begins {SECOND_LONG}")).await;
    let queue = format!("{}:waits_for_others", store.namespace);
    let columns = ["name", "messages_ready", "messages_unacknowledged"];
    until("the end of all short jobs is known to the broker", async || {
        let listed = vhost.list("list_queues", &columns).await;
        listed.lines().any(|line| line.split_whitespace().eq([queue.as_str(), "0", "2"]))
    })
    .await;
    let before = lines(&ledger);
    assert_eq!(before.iter().filter(|line| line.starts_with("ends")).count(), SHORT as usize);
    first.kill().await.unwrap();

    // Whatever the next one is given again comes ahead of what is enqueued now.
    client.enqueue(job(LAST, 0)).await.unwrap();
    let mut second = worker(&store, &ledger, "0");
    for number in [LONG, SECOND_LONG, LAST] {
        written(&ledger, format!("ends {number}")).await;
    }
    let mut again: Vec<_> = lines(&ledger).split_off(before.len());
    again.retain(|line| line.starts_with("begins"));
    again.sort();
    assert_eq!(again, [LONG, SECOND_LONG, LAST].map(|number| format!("begins {number}")));
    second.kill().await.unwrap();
}
