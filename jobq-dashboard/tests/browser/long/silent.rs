//! A connection that falls silent without an error.

use jobq_tests::proxy::{Proxy, Toward};
use jobq_tests::test_store::Store;

use crate::driver::{Browser, Look, within};
use crate::shop::Shop;

#[tokio::test(flavor = "multi_thread")]
async fn a_page_says_that_its_stream_is_silent_and_comes_back() {
    let Some(browser) = Browser::open("silent streams", Look::default()) else { return };
    let shop = Shop::on(Store::rabbitmq().await, "").await;
    let proxy = Proxy::to(&shop.url).await;
    browser.go(&format!("{}/queues/payments", proxy.url()));
    browser.sees("The last minute");
    let is_lost = || browser.evaluate("document.body.dataset.lost !== undefined") == true;
    assert!(!is_lost());
    proxy.freeze(Toward::Client);
    browser.sees("The dashboard has not answered since");
    assert!(is_lost(), "the figures are grey");
    shop.charge(0..31, "").await;
    proxy.thaw();
    assert!(within(|| (!is_lost()).then_some(())).is_some(), "{}", browser.text());
    let ready = within(|| {
        (browser.evaluate("document.querySelector('.totals dd').innerText.trim()") == "31")
            .then_some(())
    });
    assert!(ready.is_some(), "{}", browser.text());
}
