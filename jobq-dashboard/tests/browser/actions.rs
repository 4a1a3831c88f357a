//! What people do with forms, keys and without a script.

use std::sync::atomic::Ordering;

use crate::driver::{Browser, Look, within};
use crate::shop::Shop;

const TAB: char = '\u{e004}';
const ENTER: char = '\u{e007}';

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_retried_when_a_canary_completes() {
    let Some(browser) = Browser::open("canaries", Look::default()) else { return };
    let shop = Shop::open().await;
    let pool = shop.pool().await;
    shop.charge(0..30, "the gateway is down").await;
    shop.failed(30).await;
    // From the first page to the cause, as somebody who has never seen it.
    browser.go(&shop.at("/"));
    browser.sees("payments has 30 failed jobs");
    browser.press("payments");
    browser.sees("order #: the gateway is down");
    browser.press("Retry");
    browser.sees("Retry 30 failed jobs?");
    browser.press("Retry 30 jobs");
    browser.sees("these canaries failed");
    assert_eq!(shop.client.counts("payments").await.expect("they are counted").failed, 30);
    shop.repaired.store(true, Ordering::Relaxed);
    browser.go(&shop.at("/queues/payments/failed/retry"));
    browser.press("Retry 30 jobs");
    browser.sees("30 of 30 jobs were retried.");
    shop.failed(0).await;
    browser.press("Activity");
    browser.sees("these canaries failed");
    pool.shutdown().await.expect("the pool ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn selected_jobs_are_discarded_after_a_question() {
    let Some(browser) = Browser::open("selecting", Look::default()) else { return };
    let shop = Shop::open().await;
    let pool = shop.pool().await;
    shop.charge(0..5, "the gateway is down").await;
    shop.failed(5).await;
    browser.go(&shop.at("/queues/payments/failed"));
    browser.click("[data-all]");
    browser.click("tbody input[name=id]");
    browser.press("Discard selected");
    browser.sees("Discard 4 failed jobs?");
    browser.press("Discard 4 jobs");
    browser.sees("4 of 4 jobs were discarded.");
    shop.failed(1).await;
    pool.shutdown().await.expect("the pool ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_works_without_a_script() {
    let look = Look { without_script: true, ..Look::default() };
    let Some(browser) = Browser::open("no script", look) else { return };
    let shop = Shop::on(jobq_tests::test_store::Store::rabbitmq().await, "/admin/jobs").await;
    browser.go(&shop.at("/?find=pay&sort=ready"));
    browser.press("Pause payments");
    browser.sees("by ann");
    assert_eq!(browser.address(), shop.at("?find=pay&sort=ready#q-payments"));
    browser.press("Resume payments");
    browser.sees("Pause\npayments");
    let pool = shop.pool().await;
    shop.charge(0..2, "the gateway is down").await;
    shop.resize(7).await;
    shop.failed(2).await;
    browser.go(&shop.at("/queues/payments"));
    browser.press("Pause this queue");
    browser.type_into("#why", "a new gateway");
    browser.click("form[action$='/pause'] button");
    browser.sees("paused by ann");
    browser.sees("a new gateway");
    browser.press("Resume");
    browser.sees("Pause this queue");
    browser.press("Failed jobs");
    browser.press("order #");
    browser.sees("Filter: active");
    browser.press("Retry all that match");
    browser.press("Retry 2 jobs");
    let operation = browser.arrives("/admin/jobs/operations/");
    let done = within(|| {
        browser.go(&operation);
        browser.text().contains("2 of 2 jobs were retried.").then_some(())
    });
    assert!(done.is_some(), "{}", browser.text());
    browser.go(&shop.at("/activity"));
    browser.sees("reason `aborted`");
    browser.go(&shop.at("/pools"));
    browser.press("1 running");
    browser.press("Cancel");
    let asked = within(|| {
        browser.go(&shop.at("/activity"));
        browser.text().contains("asked to end").then_some(())
    });
    assert!(asked.is_some(), "{}", browser.text());
    pool.shutdown().await.expect("the pool ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_alone_reach_everything() {
    let Some(browser) = Browser::open("keys", Look::default()) else { return };
    let shop = Shop::open().await;
    let pool = shop.pool().await;
    shop.charge(0..1, "the gateway is down").await;
    shop.failed(1).await;
    browser.go(&shop.at("/"));
    browser.sees("payments has 1 failed job");
    browser.keys(&[TAB]);
    assert_eq!(browser.evaluate("document.activeElement.textContent"), "Skip to content");
    browser.keys(&[ENTER]);
    // The first link of the content.
    browser.keys(&[TAB, ENTER]);
    browser.sees("Groups of similar errors");
    let reach = |text: &str| {
        for _ in 0..40 {
            browser.keys(&[TAB]);
            let outline = "getComputedStyle(document.activeElement).outlineStyle";
            assert_eq!(browser.evaluate(outline), "solid", "the focus is visible");
            let focused = browser.evaluate("document.activeElement.textContent");
            if focused.as_str().is_some_and(|focused| focused.starts_with(text)) {
                return;
            }
        }
        panic!("keys do not reach `{text}`");
    };
    reach("Retry");
    browser.keys(&[ENTER]);
    browser.sees("Retry 1 failed jobs?");
    reach("Retry 1 jobs");
    browser.keys(&[ENTER]);
    browser.sees("The job was retried.");
    browser.go(&shop.at("/"));
    reach("Pause payments");
    browser.keys(&[ENTER]);
    browser.sees("by ann");
    reach("Resume payments");
    browser.keys(&[ENTER]);
    browser.sees("Pause\npayments");
    pool.shutdown().await.expect("the pool ends");
}
