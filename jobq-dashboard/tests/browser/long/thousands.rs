//! Ten thousand failed jobs.

use std::sync::atomic::Ordering;
use std::time::Instant;

use jobq::Envelope;
use jobq::engine::conformance::open;
use jobq_tests::failures::fail;
use jobq_tests::stage::Store;

use crate::driver::{Browser, Look};
use crate::shop::Shop;

const COUNT: u64 = 10_000;
/// One job of so many has another error.
const EACH: u64 = 90;

/// A payment that has failed with its payload as the error.
fn payment(order: u64) -> Envelope {
    let error =
        if order.is_multiple_of(EACH) { "the card is expired" } else { "the gateway is down" };
    let payload = format!(r#"{{"order": {order}, "error": "{error}"}}"#);
    let mut job = Envelope::new("payments", payload.into_bytes());
    job.name = Some("charge".into());
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn some_of_ten_thousand_are_put_back_when_a_canary_completes() {
    let test = "some_of_ten_thousand_are_put_back_when_a_canary_completes";
    let Some(browser) = Browser::open(test, Look::default()) else { return };
    let shop = Shop::on(Store::rabbitmq().await, "").await;
    let engine = open(&shop.store.url, &shop.store.namespace).await.expect("opens");
    fail(&*engine, "payments", (0..COUNT).map(payment)).await;
    engine.close().await;
    shop.failed(COUNT).await;
    let pool = shop.pool().await;
    let start = Instant::now();

    browser.go(&shop.at("/queues/payments/failed"));
    browser.sees("2 groups");
    browser.sees("9,888");
    browser.press("Filter");
    browser.type_into("#error", "is expired");
    browser.press("Apply");
    browser.sees("112 jobs match");
    println!("two looks at {COUNT} failed jobs take {:?}", start.elapsed());

    let put_back = || {
        browser.press("Put back all that match");
        browser.sees("Put back 112 failed jobs?");
        browser.press("Put 112 back");
    };
    put_back();
    browser.sees("Stopped: a canary failed.");
    shop.failed(COUNT).await;

    shop.repaired.store(true, Ordering::Relaxed);
    browser.go(&shop.at("/queues/payments/failed?error=is+expired"));
    put_back();
    browser.sees("112 of 112 jobs were put back.");
    shop.failed(COUNT - 112).await;
    browser.go(&shop.at("/queues/payments/failed?error=is+expired"));
    browser.sees("No failed job matches.");
    println!("with two operations {:?}", start.elapsed());
    pool.shutdown().await.expect("the pool ends");
}
