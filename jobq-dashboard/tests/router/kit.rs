//! A dashboard on a queue in memory, and requests to it.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use jobq::{BoxError, Client, JobId, RunningPool, WorkerPool, abort, job};
use jobq_dashboard::{Access, Dashboard};
pub(crate) use jobq_tests::test_store::until;
use tower::ServiceExt as _;

/// Fails with the text that it is given.
#[job(queue = "mail")]
pub(crate) async fn greet(error: String, secret: String) -> Result<(), BoxError> {
    let _ = secret;
    if error.is_empty() { Ok(()) } else { Err(abort(error).into()) }
}

/// Runs until it is cancelled.
#[job(queue = "slow", timeout = "1h")]
pub(crate) async fn wait() -> Result<(), BoxError> {
    std::future::pending().await
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("a header is text"))
    }

    /// Fails unless it has this status and this text.
    #[track_caller]
    pub(crate) fn says(&self, status: StatusCode, text: &str) {
        assert!(self.status == status && self.text.contains(text), "{status}, {text}: {self:#?}");
    }
}

/// A queue in memory and its dashboard.
pub(crate) struct Kit {
    pub(crate) client: Client,
    pub(crate) router: Router,
}

impl Kit {
    pub(crate) async fn new() -> Self {
        Self::with(|dashboard| dashboard, Access::All).await
    }

    pub(crate) async fn with(change: impl Fn(Dashboard) -> Dashboard, access: Access) -> Self {
        let client = Client::connect("sqlite::memory:").await.expect("memory can be opened");
        Self::on(client, change, access)
    }

    /// The dashboard of a client.
    pub(crate) fn on(
        client: Client,
        change: impl Fn(Dashboard) -> Dashboard,
        access: Access,
    ) -> Self {
        let dashboard = Dashboard::new(&client).access(move |_| access.clone());
        let router = change(dashboard.actor(|_| Some("ann".to_owned()))).router();
        Self { client, router }
    }

    pub(crate) async fn pool(&self) -> RunningPool {
        let pool = WorkerPool::new(&self.client).register::<Greet>().register::<Wait>();
        pool.shutdown_timeout(Duration::ZERO).spawn().await.expect("the pool starts")
    }

    /// A job that has failed with this error.
    pub(crate) async fn failed(&self, error: &str) -> JobId {
        let job = Greet { error: error.into(), secret: "hunter2".into() };
        let id = self.client.enqueue(job).await.expect("it is accepted");
        let pool = self.pool().await;
        until("the job has failed", async || self.client.failed("mail").show(id).await.ok()).await;
        pool.shutdown().await.expect("the pool ends");
        id
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        send(&self.router, Request::get(path).body(Body::empty()).expect("it is a request")).await
    }

    /// The page, when it has this text.
    pub(crate) async fn sees(&self, path: &str, text: &str) -> String {
        until(text, async || {
            let page = self.get(path).await.text;
            page.contains(text).then_some(page)
        })
        .await
    }

    /// Sends a form as a browser on HTTPS does.
    pub(crate) async fn post(&self, path: &str, form: &str) -> Answer {
        let request = Request::post(path)
            .header("sec-fetch-site", "same-origin")
            .header("content-type", "application/x-www-form-urlencoded");
        send(&self.router, request.body(form.to_owned().into()).expect("it is a request")).await
    }

    /// The page to which an operation that was started leads, when it has ended.
    pub(crate) async fn ended(&self, started: &Answer) -> String {
        let path = started.header("location").to_owned();
        assert_eq!(started.status, StatusCode::SEE_OTHER, "{}", started.text);
        self.sees(&path, "role=\"status\"").await
    }
}

pub(crate) async fn send(router: &Router, request: Request<Body>) -> Answer {
    let response = router.clone().oneshot(request).await.expect("a router always answers");
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.expect("the answer ends");
    let text = String::from_utf8(bytes.to_vec()).expect("pages are UTF-8");
    Answer { status: parts.status, headers: parts.headers, text }
}
