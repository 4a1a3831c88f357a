//! Tokens that expire, under clients that enqueue and workers that work all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jobq::{Client, Secret};
use jobq_tests::broker::Broker;
use jobq_tests::issuer::{Issuer, lasting_connections};
use jobq_tests::jobs::soak_job::{self, Load};
use jobq_tests::ledger::Ledger;
use jobq_tests::test_store::{DEADLINE, Store};

use super::{Books, place, rounds};

/// How long each is valid.
const VALID_FOR: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_while_tokens_are_renewed() {
    let (issuer, asked) = (Arc::new(Issuer::new()), Arc::new(AtomicUsize::new(0)));
    let trusted = Arc::clone(&issuer);
    let files = move |folder: &std::path::Path| {
        let mut files = trusted.files(folder);
        files.push(("plugins", "[rabbitmq_auth_backend_oauth2].".into()));
        files
    };
    let test = "nothing_is_lost_while_tokens_are_renewed";
    let Some(node) = Broker::with_files(test, files).await else { return };
    let store = Store::on_broker(node.url());
    let connect = async || {
        let (issuer, asked) = (Arc::clone(&issuer), Arc::clone(&asked));
        let source = move || {
            asked.fetch_add(1, Ordering::SeqCst);
            let token = issuer.token(&["configure:*/*", "write:*/*/*", "read:*/*/*"], VALID_FOR);
            async { Ok(Secret::token(token).expires_in(VALID_FOR)) }
        };
        let builder = Client::builder(&store.url).namespace(&store.namespace).timeout(DEADLINE);
        builder.credentials(source).connect().await.unwrap()
    };
    let (client, workers) = (connect().await, connect().await);
    let mut books = Books::open();
    let ledger = Ledger::open(&books.path, "pool").unwrap();
    let running = soak_job::pool(&workers, &ledger).spawn().await.unwrap();

    // Two clients ask for each renewal.
    let minutes = rounds(1, 10);
    let until = Instant::now() + Duration::from_secs(60) * u32::try_from(minutes).unwrap();
    let load = Load::start(&client, &ledger, 10);
    while Instant::now() < until {
        books.progress(20).await;
        assert!(running.health().credentials.is_none());
    }
    load.stop().await;
    let what = format!("tokens of 30 s are renewed, {}", place(&store));
    let report = books.close(&what, asked.load(Ordering::SeqCst), &client).await;
    running.shutdown().await.unwrap();
    assert!(asked.load(Ordering::SeqCst) >= 2 * (1 + 2 * minutes), "each is renewed after 20 s");
    // One of who enqueues, and two of who works.
    assert_eq!(lasting_connections(&node.log()), 3, "none was replaced");
    assert_eq!((report.refused, report.in_doubt), (0, (0, 0)), "no enqueue fails");
    assert_eq!(report.duplicates, 0);
    report.assert_nothing_lost();
}
