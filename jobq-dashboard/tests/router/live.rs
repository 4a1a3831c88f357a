use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures_util::StreamExt as _;
use jobq_dashboard::{Access, Dashboard};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
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

/// Less than a stream lasts by itself.
const SOON: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_an_open_page_shuts_down_at_once() {
    let (stop, stopped) = watch::channel(false);
    let signal = || {
        let mut stopped = stopped.clone();
        async move { drop(stopped.wait_for(|stops| *stops).await) }
    };
    let kit = Kit::with(|dashboard: Dashboard| dashboard.shutdown(signal()), Access::All).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut page = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let server = axum::serve(listener, kit.router.clone()).with_graceful_shutdown(signal());
    let server = tokio::spawn(server.into_future());
    page.write_all(b"GET /?live=stream HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let (mut seen, mut bytes) = (String::new(), vec![0; 65_536]);
    while !seen.contains("event: content") {
        let count = page.read(&mut bytes).await.unwrap();
        assert!(count > 0, "{seen}");
        seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    stop.send_replace(true);
    tokio::time::timeout(SOON, server).await.expect("the stream ends").unwrap().unwrap();
    // A browser that tries again is not answered by streams that end at once.
    kit.get("/?live=stream").await.says(StatusCode::SERVICE_UNAVAILABLE, "shuts down");
    assert_eq!(kit.get("/").await.status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_the_client() {
    let kit = Kit::new().await;
    let request = Request::get("/?live=stream").body(Body::empty()).unwrap();
    let response = kit.router.clone().oneshot(request).await.unwrap();
    let mut body = response.into_body().into_data_stream();
    body.next().await.expect("the stream is open").unwrap();
    kit.client.close().await;
    let ended = async { while body.next().await.is_some() {} };
    tokio::time::timeout(SOON, ended).await.expect("the stream ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_not_there_has_no_stream() {
    let kit = Kit::new().await;
    let answer = kit.get("/operations/7?live=stream").await;
    answer.says(StatusCode::NOT_FOUND, "Operation not found");
}
