//! Tabs that nobody sees hold no stream.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use futures_util::StreamExt as _;
use jobq_dashboard::{Access, Dashboard};
use jobq_tests::test_store::{Store, until};

use crate::driver::{Browser, Look};
use crate::shop::Shop;

/// What browsers have asked for.
#[derive(Debug, Clone, Default)]
struct Seen(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    /// Open streams, by their pages.
    streams: BTreeMap<String, usize>,
    /// Fetched contents, by their pages.
    fetched: BTreeMap<String, usize>,
}

impl Seen {
    fn with<T>(&self, look: impl FnOnce(&mut Counts) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The pages with open streams, one for each stream.
    fn streams(&self) -> Vec<String> {
        self.with(|counts| {
            let pages = counts.streams.iter();
            pages.flat_map(|(page, open)| std::iter::repeat_n(page.clone(), *open)).collect()
        })
    }

    async fn watch(self, request: Request, next: Next) -> Response {
        let page = request.uri().path().to_owned();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let response = next.run(request).await;
        if query.contains("live=fragment") {
            self.with(|counts| *counts.fetched.entry(page.clone()).or_default() += 1);
        }
        if !query.contains("live=stream") {
            return response;
        }
        let open = Open::new(self, page);
        response.map(|body| {
            let parts = body.into_data_stream();
            // It lives as long as this closure, and so as the stream.
            Body::from_stream(parts.inspect(move |_| {
                let _ = &open;
            }))
        })
    }
}

/// A stream, which ends when it is dropped.
struct Open {
    seen: Seen,
    page: String,
}

impl Open {
    fn new(seen: Seen, page: String) -> Self {
        seen.with(|counts| *counts.streams.entry(page.clone()).or_default() += 1);
        Self { seen, page }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.seen.with(|counts| *counts.streams.entry(self.page.clone()).or_default() -= 1);
    }
}

/// A shop whose dashboard counts its streams.
async fn open(seen: &Seen) -> Shop {
    let mut shop = Shop::without_server(Store::rabbitmq().await).await;
    let dashboard = Dashboard::new(&shop.client).access(|_| Access::All);
    let seen = seen.clone();
    let watch = move |request: Request, next: Next| seen.clone().watch(request, next);
    let router: Router = dashboard.router().layer(from_fn(watch));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("it listens");
    shop.url = format!("http://{}", listener.local_addr().expect("it listens"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    shop
}

#[tokio::test(flavor = "multi_thread")]
async fn the_visible_tab_alone_holds_a_stream() {
    let Some(browser) = Browser::open("hidden tabs", Look::default()) else { return };
    let seen = Seen::default();
    let shop = open(&seen).await;
    let only = async |page: &str| {
        until(&format!("{page} alone has a stream"), async || {
            (seen.streams() == [page]).then_some(())
        })
        .await;
    };
    browser.go(&shop.at("/"));
    browser.sees("payments");
    only("/").await;
    let first = browser.tab();
    browser.go(&shop.at("/pools"));
    browser.sees("No pool answers");
    only("/pools").await;

    // The visible one lives, and the other one asks now and then.
    let fetches = || seen.with(|counts| counts.fetched.get("/").copied().unwrap_or(0));
    let before = fetches();
    shop.charge(0..29, "").await;
    let pool = shop.pool().await;
    browser.sees("payments");
    until("the hidden tab asks", async || (fetches() > before).then_some(())).await;
    only("/pools").await;
    shop.resize(1).await;
    browser.sees("1 running");

    let second = browser.tab();
    for _ in 0..5 {
        browser.go(&shop.at("/queues/payments"));
        browser.sees("The last minute");
        browser.tab();
    }
    browser.go(&shop.at("/activity"));
    only("/activity").await;
    browser.switch(&second);
    only("/pools").await;
    browser.switch(&first);
    only("/").await;
    shop.resize(2).await;
    browser.sees("2");
    pool.shutdown().await.expect("the pool ends");
}
