//! axe-core finds nothing on any page.

use jobq_tests::test_store::Store;
use serde_json::Value;

use crate::driver::{Browser, Look};
use crate::shop::Shop;

/// The program of axe-core, unless it is not on this machine.
fn axe(test: &str) -> Option<String> {
    let path = std::env::var("JOBQ_TEST_AXE").ok().filter(|path| !path.is_empty());
    let Some(path) = path else {
        eprintln!("SKIPPED: {test} needs axe-core, which ./tests/run fetches");
        return None;
    };
    Some(std::fs::read_to_string(path).expect("axe-core can be read"))
}

fn violations(browser: &Browser, axe: &str) -> Vec<String> {
    browser.run(axe);
    let result = browser.settle("axe.run(document, {resultTypes: ['violations']})");
    let list = result["violations"].as_array().unwrap_or_else(|| panic!("axe ran: {result}"));
    let text = |violation: &Value| {
        let nodes = violation["nodes"].as_array().cloned().unwrap_or_default();
        let places: Vec<_> =
            nodes.iter().map(|node| format!("{} {}", node["html"], node["any"])).collect();
        format!("{}: {}", violation["help"], places.join("\n  "))
    };
    list.iter().map(text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_accessible() {
    let test = "every_page_is_accessible";
    let Some(browser) = Browser::open(test, Look::default()) else { return };
    let Some(axe) = axe(test) else { return };
    let shop = Shop::on(Store::rabbitmq().await, "").await;
    let pool = shop.pool().await;
    shop.charge(0..3, "the gateway is down").await;
    shop.resize(1).await;
    shop.failed(3).await;
    browser.go(&shop.at("/queues/payments/failed"));
    browser.click("td.error-text a");
    let job = browser.arrives("/failed/jobs/");
    browser.go(&shop.at("/queues/payments/failed/retry"));
    browser.press("Retry 3 jobs");
    browser.sees("3 of 3 jobs were retried");
    let operation = browser.address();
    shop.failed(3).await;
    let pages = [
        shop.at("/"),
        shop.at("/queues/payments"),
        shop.at("/failed"),
        shop.at("/queues/payments/failed"),
        shop.at("/queues/payments/failed?reason=aborted"),
        job,
        shop.at("/queues/payments/failed/retry"),
        shop.at("/queues/payments/failed/discard"),
        operation,
        shop.at("/pools"),
        shop.at("/doctor"),
        shop.at("/activity"),
        shop.at("/nothing"),
    ];
    for (dark, phone) in [(false, false), (true, false), (false, true)] {
        browser.look(Look { dark, phone, ..Look::default() });
        for page in &pages {
            browser.go(page);
            let found = violations(&browser, &axe);
            assert!(found.is_empty(), "{page}, dark {dark}, phone {phone}: {}", found.join("\n"));
            let wide = browser.evaluate("document.documentElement.scrollWidth > window.innerWidth");
            assert_eq!(wide, false, "{page} is wider than its window, phone {phone}");
        }
    }
    pool.shutdown().await.expect("the pool ends");
}
