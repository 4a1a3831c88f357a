//! Pages that change while somebody looks.

use jobq_tests::broker::Broker;
use jobq_tests::stage::Store;

use crate::driver::{Browser, Look, within};
use crate::shop::Shop;

#[tokio::test(flavor = "multi_thread")]
async fn a_page_changes_without_losing_what_a_person_did() {
    let Some(browser) = Browser::open("live", Look::default()) else { return };
    let shop = Shop::open().await;
    browser.go(&shop.at("/queues/payments"));
    browser.press("Pause this queue");
    browser.type_into("#why", "half a sen");
    browser.run("window.same = document.querySelector('.totals dd')");
    shop.charge(0..17, "").await;
    browser.sees("17");
    let pool = shop.pool().await;
    browser.sees("consumed");
    assert_eq!(browser.evaluate("document.querySelector('#why').value"), "half a sen");
    assert_eq!(browser.evaluate("document.querySelector('#pause').open"), true);
    assert_eq!(browser.evaluate("window.same.isConnected"), true, "what is alike stays");
    pool.shutdown().await.expect("the pool ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn seven_tabs_are_all_live() {
    let Some(browser) = Browser::open("tabs", Look::default()) else { return };
    let shop = Shop::open().await;
    browser.go(&shop.at("/"));
    browser.sees("payments");
    // One more than the streams that a browser allows for a host.
    let mut tabs = Vec::new();
    for _ in 0..6 {
        tabs.push(browser.tab());
        browser.go(&shop.at("/"));
        browser.sees("payments");
    }
    shop.charge(0..19, "").await;
    browser.sees("19");
    for tab in tabs {
        browser.switch(&tab);
        browser.sees("19");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_dies_is_shown_with_the_last_figures() {
    let test = "a_broker_that_dies_is_shown_with_the_last_figures";
    let Some(browser) = Browser::open(test, Look::default()) else { return };
    let Some(broker) = Broker::to_kill(test).await else { return };
    let shop = Shop::on(Store::on_broker(broker.url()), "").await;
    shop.charge(0..23, "").await;
    browser.go(&shop.at("/"));
    browser.sees("23");
    broker.kill();
    browser.sees("No new figures since");
    browser.sees("Those below are of");
    browser.sees("23");
    assert!(browser.find(".figures.stale").is_some(), "they are grey");
    assert!(!browser.text().contains("guest"), "a password is nowhere");
    broker.restart().await;
    let back = within(|| browser.find(".figures:not(.stale)"));
    assert!(back.is_some(), "{}", browser.text());
    browser.sees("23");
}
