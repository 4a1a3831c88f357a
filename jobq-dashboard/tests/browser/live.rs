//! Pages that change while somebody looks.

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
async fn the_focus_stays_when_a_row_before_it_leaves() {
    let Some(browser) = Browser::open("focus", Look::default()) else { return };
    let shop = Shop::open().await;
    let pool = shop.pool().await;
    shop.resize(1).await;
    shop.resize(2).await;
    browser.go(&shop.at("/pools"));
    browser.press("2 running");
    browser.run("document.querySelectorAll('[id^=r-] button')[1].focus()");
    let id = |place: u8| {
        let id = browser.evaluate(&format!("document.querySelectorAll('[id^=r-]')[{place}].id"));
        id.as_str().expect("both run").trim_start_matches("r-").to_owned()
    };
    let (first, second) = (id(0), id(1));
    shop.client.admin().cancel_running(first.parse().expect("an id")).await.expect("cancelled");
    browser.sees("1 running");
    let focused = browser.evaluate("document.activeElement.closest('[id^=r-]')?.id");
    assert_eq!(focused, format!("r-{second}"));
    pool.shutdown().await.expect("the pool ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn old_figures_are_grey() {
    let Some(browser) = Browser::open("old figures", Look::default()) else { return };
    let shop = Shop::open().await;
    let filter = || browser.evaluate("getComputedStyle(document.querySelector('.figures')).filter");
    browser.go(&shop.at("/"));
    browser.sees("payments");
    assert_eq!(filter(), "none");
    shop.remove_file();
    browser.sees("No new figures since");
    browser.sees("payments");
    assert_eq!(filter(), "grayscale(1)");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_refused_says_so() {
    let Some(browser) = Browser::open("refused", Look::default()) else { return };
    let shop = Shop::open().await;
    browser.go(&shop.at("/"));
    browser.sees("payments");
    // As if the dashboard had restarted while somebody looked at an operation.
    browser.run("history.replaceState(null, '', '/operations/7')");
    browser.run("document.dispatchEvent(new Event('visibilitychange'))");
    browser.sees("The dashboard refused this page (404)");
    browser.sees("payments");
    browser.run("history.replaceState(null, '', '/')");
    let is_back = within(|| (browser.evaluate("lost.hidden") == true).then_some(()));
    assert!(is_back.is_some(), "{}", browser.text());
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
