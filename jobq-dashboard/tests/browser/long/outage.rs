//! A broker that dies while somebody looks.

use jobq_tests::broker::Broker;
use jobq_tests::test_store::Store;

use crate::driver::{Browser, Look, within};
use crate::shop::Shop;

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_dies_is_shown_with_the_last_figures() {
    let test = "a_broker_that_dies_is_shown_with_the_last_figures";
    let Some(browser) = Browser::open(test, Look::default()) else { return };
    let Some(broker) = Broker::to_kill(test).await else { return };
    broker.ctl(&["add_user", "ann", "geheim"]).await;
    broker.ctl(&["set_permissions", "ann", ".*", ".*", ".*"]).await;
    let url = broker.url().replace("amqp://", "amqp://ann:geheim@");
    let shop = Shop::on(Store::on_broker(url), "").await;
    shop.charge(0..23, "").await;
    browser.go(&shop.at("/"));
    browser.sees("23");
    broker.kill();
    browser.sees("No new figures since");
    browser.sees("The figures below, in grey, are from");
    browser.sees("23");
    assert!(browser.find(".figures.stale").is_some(), "they are grey");
    let page = browser.text();
    assert!(page.contains("ann:***@") && !page.contains("geheim"), "no password: {page}");
    broker.restart().await;
    let back = within(|| browser.find(".figures:not(.stale)"));
    assert!(back.is_some(), "{}", browser.text());
    browser.sees("23");
}
