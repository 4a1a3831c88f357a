use axum::body::Body;
use axum::http::{Request, StatusCode};
use jobq_dashboard::Access;

use crate::kit::{Answer, Kit, send};

#[tokio::test(flavor = "multi_thread")]
async fn each_answer_has_the_headers_that_protect_it() {
    let kit = Kit::new().await;
    let asset = kit.get("/").await.text;
    let asset = asset.split("src=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    for path in ["/", "/nothing", "/activity?live=fragment", &asset] {
        let answer = kit.get(path).await;
        let policy = answer.header("content-security-policy");
        for rule in [
            "default-src 'none'",
            "script-src 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
            "form-action 'self'",
        ] {
            assert!(policy.contains(rule), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"));
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("referrer-policy"), "same-origin");
        let cache = answer.header("cache-control");
        let expected =
            if path == asset { "public, max-age=31536000, immutable" } else { "no-store" };
        assert_eq!(cache, expected, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_have_no_inline_script_or_style() {
    let kit = Kit::new().await;
    let id = kit.failed("<script>alert(1)</script>\"'><img src=x onerror=alert(1)>").await;
    kit.post("/queues/mail/pause", "why=%3Cscript%3Ealert(1)%3C/script%3E").await;
    let job = format!("/queues/mail/failed/jobs/{id}");
    let script = "/?find=%22%3E%3Cscript%3Ealert(1)%3C/script%3E";
    let filter = "/queues/mail/failed?error=%22%3E%3Cscript%3Ealert(1)%3C/script%3E";
    let name = "/queues/%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    for path in
        ["/", "/queues/mail", "/queues/mail/failed", &job, "/activity", script, filter, name]
    {
        let page = kit.get(path).await.text;
        assert!(!page.contains("<script>") && !page.contains("<img"), "{path}: {page}");
        assert!(!page.contains(" style=") && !page.contains("<style"), "{path}");
        assert!(!page.contains("javascript:"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_of_a_megabyte_is_cut() {
    let kit = Kit::new().await;
    let secret = "é\u{202e}<&".repeat(150_000);
    let job = crate::kit::Greet { error: "no".into(), secret };
    let id = kit.client.enqueue(job).await.unwrap();
    let pool = kit.pool().await;
    let failed = kit.client.failed("mail");
    crate::kit::until("it has failed", async || failed.show(id).await.ok()).await;
    pool.shutdown().await.unwrap();
    let page = kit.get(&format!("/queues/mail/failed/jobs/{id}")).await.text;
    assert!(page.len() < 200_000 && page.contains("bytes more"), "{}", page.len());
}

async fn post(kit: &Kit, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::post("/queues/mail/pause");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    send(&kit.router, request.body(Body::from("why=x")).expect("it is a request")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_from_elsewhere_changes_nothing() {
    let ours = "https://jobs.example.com";
    let kit = Kit::with(|dashboard| dashboard.origin(ours), Access::All).await;
    for headers in [
        &[][..],
        &[("sec-fetch-site", "cross-site"), ("origin", ours)],
        &[("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "none")],
        &[("origin", "https://evil.example")],
        &[("origin", "http://jobs.example.com")],
        &[("origin", "null")],
        &[("referer", "https://jobs.example.com/")],
        &[("host", "jobs.example.com")],
    ] {
        let answer = post(&kit, headers).await;
        answer.says(StatusCode::FORBIDDEN, "The form was refused");
    }
    assert!(kit.get("/activity").await.text.contains("No activity yet"));
    // At plain HTTP a browser says by `Origin` alone where a form is from.
    for headers in [&[("origin", ours)][..], &[("sec-fetch-site", "same-origin")]] {
        assert_eq!(post(&kit, headers).await.status, StatusCode::SEE_OTHER, "{headers:?}");
    }
    let unconfigured = Kit::new().await;
    let answer = post(&unconfigured, &[("origin", ours)]).await;
    answer.says(StatusCode::FORBIDDEN, "its own origin: configure it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_site_may_lead_here_and_read_nothing() {
    let kit = Kit::new().await;
    kit.failed("no").await;
    let from_another_site = async |path: &str, mode: &str, to: &str| {
        let request = Request::get(path)
            .header("sec-fetch-site", "cross-site")
            .header("sec-fetch-mode", mode)
            .header("sec-fetch-dest", to);
        send(&kit.router, request.body(Body::empty()).expect("it is a request")).await.status
    };
    for path in ["/", "/queues/mail/failed", "/doctor?again=1"] {
        assert_eq!(from_another_site(path, "navigate", "document").await, StatusCode::OK, "{path}");
        for (mode, to) in [("no-cors", "image"), ("navigate", "iframe"), ("cors", "empty")] {
            let status = from_another_site(path, mode, to).await;
            assert_eq!(status, StatusCode::FORBIDDEN, "{path} {mode} {to}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_access_nothing_is_shown_or_changed() {
    let kit = Kit::with(|dashboard| dashboard, Access::No).await;
    kit.failed("no").await;
    for path in ["/", "/queues/mail/failed", "/?live=stream", "/?live=fragment", "/nothing"] {
        let page = kit.get(path).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{path}");
        assert!(!page.text.contains("mail"), "{path}: {}", page.text);
    }
    assert_eq!(
        kit.post("/queues/mail/failed/discard", "confirmed=yes").await.status,
        StatusCode::FORBIDDEN
    );
    assert_eq!(kit.client.counts("mail").await.unwrap().failed, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_cannot_inject_headers_or_leave_the_dashboard() {
    let kit = Kit::new().await;
    for name in ["a%0D%0ASet-Cookie:%20x=1", "..%2F..%2Fetc", "%2F%2Fevil.example", "a%00b"] {
        let answer = kit.post(&format!("/queues/{name}/failed/discard"), "error=%0D%0Ax:y").await;
        let location = answer.header("location");
        assert!(answer.headers.get("set-cookie").is_none() && answer.headers.get("x").is_none());
        assert!(location.is_empty() || location.starts_with("/queues/"), "{location}");
        assert!(!location.contains(['\r', '\n']), "{location}");
    }
    // A place to go back to is one of the dashboard's own.
    let answer = kit.post("/queues/mail/resume", "back=https://evil.example").await;
    assert_eq!(answer.header("location"), "/queues/mail");
}
