use std::sync::Arc;
use std::time::SystemTime;

use axum::http::StatusCode;
use jobq::admin::Passage;
use jobq::engine::conformance::{EngineExt as _, open};
use jobq::engine::{Controlled, PoolId, PoolQueue, PoolReport, Question, Reply};
use jobq_dashboard::Access;
use jobq_tests::test_store::Store;

use crate::kit::{Greet, Kit, until};

#[tokio::test(flavor = "multi_thread")]
async fn without_queues_the_pages_say_what_to_do() {
    let kit = Kit::new().await;
    for (path, expected) in [
        ("/", "No queues yet"),
        ("/queues/mail", "No queue of this name is known"),
        ("/failed", "No queue has failed jobs"),
        ("/queues/mail/failed", "This queue has no failed jobs"),
        ("/pools", "No pool answers"),
        ("/schedules", "Schedules"),
        ("/doctor", "Doctor"),
        ("/activity", "No activity yet"),
    ] {
        let page = kit.get(path).await;
        page.says(StatusCode::OK, expected);
        assert!(
            page.text.contains("<html lang=\"en\">") && page.text.contains("aria-label=\"Pages\"")
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_show_queues_pools_and_failed_jobs() {
    let kit = Kit::new().await;
    let id = kit.failed("user 7: <b>connection</b> refused").await;
    let pool = kit.pool().await;
    kit.client.enqueue(crate::kit::Wait {}).await.unwrap();
    let pools = kit.sees("/pools", "attempt 1").await;
    let memory =
        pools.split("data-label=\"Memory\">").nth(1).and_then(|row| row.split("</td>").next());
    assert_eq!(
        memory.is_some_and(|cell| cell.contains("MiB")),
        cfg!(target_os = "linux"),
        "{pools}"
    );
    let queues = kit.sees("/", "has 1 failed job").await;
    assert!(queues.contains("href=\"/queues/mail/failed\""), "{queues}");
    assert!(kit.get("/?find=ail&sort=failed").await.text.contains("id=\"q-mail\""));
    assert!(!kit.get("/?find=nothing").await.text.contains("id=\"q-mail\""));
    let sorted = kit.get("/?find=m%26a%23").await.text;
    assert!(sorted.contains("href=\"?sort=ready&#38;find=m%26a%23\""), "{sorted}");
    let queue = kit.get("/queues/mail").await.text;
    assert!(queue.contains("The last minute"));
    for (place, jobs) in [("ready", 0), ("solo", 0), ("waiting", 0), ("failed", 1)] {
        let row =
            queue.split(&format!("<th scope=\"row\">{place}</th>")).nth(1).unwrap_or_default();
        let cell = row.split("</td>").next().unwrap_or_default();
        assert!(cell.contains(&format!(">{jobs}<")), "{place}: {queue}");
    }
    let failed = kit.get("/queues/mail/failed").await.text;
    assert!(failed.contains("user #: &#60;b&#62;connection"), "{failed}");
    assert!(failed.contains(&format!("/queues/mail/failed/jobs/{id}")));
    let job = kit.get(&format!("/queues/mail/failed/jobs/{id}")).await.text;
    for part in ["hunter2", "aborted", "user 7: &#60;b&#62;connection", "jobq failed show mail"] {
        assert!(job.contains(part), "{part}: {job}");
    }
    assert!(!job.contains("<b>connection"), "the error is text");
    pool.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_shows_how_long_its_attempts_took() {
    let kit = Kit::new().await;
    let pool = kit.pool().await;
    let figure = async |name: &str| {
        let page = kit.get("/queues/mail").await.text;
        let (_, rest) = page.split_once(&format!("<dt>{name}</dt><dd><span"))?;
        let (_, text) = rest.split_once('>')?;
        Some(text.split_once('<')?.0.to_owned())
    };
    until("a figure that says there is none", async || {
        (figure("duration p50").await? == "–").then_some(())
    })
    .await;
    kit.client.enqueue(Greet { error: String::new(), secret: String::new() }).await.unwrap();
    until("the job has completed", async || (figure("completed").await? == "1").then_some(()))
        .await;
    for name in ["duration p50", "duration p95"] {
        let took = figure(name).await.unwrap();
        assert!(took.ends_with('s') && took.starts_with(|c: char| c.is_ascii_digit()), "{took}");
    }
    pool.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_jobs_are_filtered() {
    let kit = Kit::new().await;
    kit.failed("connection refused").await;
    kit.failed("no such customer").await;
    for (query, refused, customer) in [
        ("", true, true),
        ("?error=refused", true, false),
        ("?pattern=no+such+customer", false, true),
        ("?reason=exhausted", false, false),
        ("?job=greet&pointer=/error&value=%22connection+refused%22", true, false),
        ("?from=2020-01-01T00:00&until=2020-01-02T00:00", false, false),
    ] {
        let page = kit.get(&format!("/queues/mail/failed{query}")).await.text;
        let rows = page.split("Groups of similar errors").nth(1).unwrap_or_default();
        assert_eq!(rows.contains("connection refused"), refused, "{query}");
        assert_eq!(rows.contains("no such customer"), customer, "{query}");
    }
    // An id is no part of the filter of this page, so it selects nothing for those who look next.
    for query in [format!("?id={}", jobq::JobId::new()), String::new()] {
        let page = kit.get(&format!("/queues/mail/failed{query}")).await.text;
        assert!(page.contains("2 jobs"), "{query}: {page}");
    }
    let wrong = kit.get("/queues/mail/failed?reason=tired").await;
    wrong.says(StatusCode::BAD_REQUEST, "not a failure reason");
    assert!(wrong.text.contains("id=\"reason\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_has_a_page_that_says_so() {
    let kit = Kit::new().await;
    for path in [
        "/nothing",
        "/operations/7",
        "/operations/x",
        "/queues/mail/failed/jobs/7",
        "/queues/mail/failed/jobs/01890000-0000-7000-8000-000000000000",
        "/assets/dashboard-0.css",
    ] {
        kit.get(path).await.says(StatusCode::NOT_FOUND, "<h1>");
    }
    let page = kit.post("/queues/mail", "").await;
    page.says(StatusCode::METHOD_NOT_ALLOWED, "another method");
    kit.get("/queues/a..b%20c").await.says(StatusCode::OK, "a..b c");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_redacted_or_not_shown_is_nowhere() {
    let redacted = Kit::with(|dashboard| dashboard.redact(["secret"]), Access::All).await;
    let hidden = Kit::with(|dashboard| dashboard.payloads(false), Access::All).await;
    for kit in [redacted, hidden] {
        let id = kit.failed("no").await;
        let page = kit.get(&format!("/queues/mail/failed/jobs/{id}")).await.text;
        assert!(!page.contains("hunter2") && page.contains(">no<"), "{page}");
        let search = "/queues/mail/failed?pointer=/secret&value=%22hunter2%22";
        assert_eq!(kit.get(search).await.status, StatusCode::BAD_REQUEST);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_link_has_the_prefix() {
    let kit = Kit::with(|dashboard| dashboard.prefix("/admin/jobs/"), Access::All).await;
    kit.failed("no").await;
    let nested = axum::Router::new().nest("/admin/jobs", kit.router.clone());
    let service = axum::Router::new().nest_service("/admin/jobs", kit.router.clone());
    for (outer, path) in [
        (&nested, "/admin/jobs"),
        (&service, "/admin/jobs"),
        (&service, "/admin/jobs/"),
        (&nested, "/admin/jobs/queues/mail"),
        (&service, "/admin/jobs/queues/mail/failed"),
    ] {
        let request = axum::http::Request::get(path).body(axum::body::Body::empty()).unwrap();
        let page = crate::kit::send(outer, request).await;
        assert_eq!(page.status, StatusCode::OK, "{path}");
        for attribute in ["href=\"", "src=\"", "action=\""] {
            for link in page.text.split(attribute).skip(1) {
                let link = link.split('"').next().unwrap_or_default();
                let inside = link.starts_with("/admin/jobs") || link.starts_with(['?', '#']);
                assert!(inside, "{path}: {attribute}{link}");
            }
        }
    }
}

/// A pool on another machine, whose broker passes on nothing that waits.
#[derive(Debug)]
struct Elsewhere(PoolId);

impl Controlled for Elsewhere {
    fn id(&self) -> PoolId {
        self.0
    }

    fn queues(&self) -> Vec<String> {
        vec!["mail".to_owned()]
    }

    fn answer(&self, _: &Question) -> Reply {
        let mut queue = PoolQueue::new("mail", 1);
        queue.waits = Some(Passage::Stuck);
        let started = SystemTime::now();
        let mut report = PoolReport::new(self.0, "worker2".to_owned(), started, vec![queue]);
        (report.levels, report.clock_offset_ms) = (Some(Passage::Late), Some(-65_000));
        Reply::Report(report)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_that_do_not_end_and_clocks_that_differ_are_shown() {
    let store = Store::sqlite().await;
    let engine = open(&store.url, &store.namespace).await.unwrap();
    let kit = Kit::on(store.client().await, |dashboard| dashboard, Access::All);
    let _pool = engine.admin().join(Arc::new(Elsewhere(PoolId::new()))).await.unwrap();
    for (path, shown) in [
        ("/", &["waits stuck", "has waiting jobs that do not come through", "waits late"][..]),
        ("/queues/mail", &["<dt>Waits</dt><dd><span>stuck<"]),
        ("/pools", &["<span class=\"state bad\">clock -1m5s<"]),
    ] {
        let page = kit.sees(path, shown[0]).await;
        for text in shown {
            assert!(page.contains(text), "{path} lacks {text}: {page}");
        }
    }
}
