use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures_util::StreamExt as _;
use tower::ServiceExt as _;

use crate::kit::{Greet, Kit, send};

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_carries_new_content_and_ends() {
    let kit = Kit::new().await;
    let request = Request::get("/?live=stream").body(Body::empty()).unwrap();
    let response = kit.router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    let mut body = response.into_body().into_data_stream();
    let mut seen = String::new();
    let reading = async {
        let mut reads = async |text: &str| {
            while !seen.contains(text) {
                let part = body.next().await.expect("the stream is open").unwrap();
                seen.push_str(&String::from_utf8_lossy(&part));
            }
        };
        reads("No queues yet").await;
        kit.client.declare::<Greet>().await.unwrap();
        reads("q-mail").await;
        // So that a login that has ended ends it.
        while body.next().await.is_some() {}
    };
    tokio::time::timeout(Duration::from_secs(60), reading).await.expect("it comes in time");
    assert!(seen.contains("event: content") && seen.contains("retry: 250"), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fragment_that_the_browser_has_is_not_sent_again() {
    let kit = Kit::new().await;
    let fragment = kit.get("/activity?live=fragment").await;
    assert!(fragment.text.starts_with("<div") && !fragment.text.contains("<html"));
    let tag = fragment.header("etag").to_owned();
    let again = |tag: &str| {
        let request = Request::get("/activity?live=fragment").header("if-none-match", tag);
        request.body(Body::empty()).unwrap()
    };
    assert_eq!(send(&kit.router, again(&tag)).await.status, StatusCode::NOT_MODIFIED);
    assert_eq!(send(&kit.router, again("\"0\"")).await.status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_not_there_has_no_stream() {
    let kit = Kit::new().await;
    let answer = kit.get("/operations/7?live=stream").await;
    answer.says(StatusCode::NOT_FOUND, "Operation not found");
}
