use std::net::SocketAddr;

use jobq::Client;
use jobq_dashboard::{Secret, Serving, Standalone};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const SECRET: &str = "a secret of the test";
/// `ann:a secret of the test`.
const BASIC: &str = "YW5uOmEgc2VjcmV0IG9mIHRoZSB0ZXN0";

async fn standalone() -> Standalone {
    let client = Client::connect("sqlite::memory:").await.expect("memory can be opened");
    Standalone::new(&client).bind(SocketAddr::from(([127, 0, 0, 1], 0)))
}

/// The port of a dashboard that runs until the test ends.
async fn serve(standalone: Standalone) -> u16 {
    let serving: Serving = standalone.start().await.expect("it listens");
    let address = serving.address();
    tokio::spawn(serving.run_until(std::future::pending()));
    address.port()
}

/// The answer to a request with these lines of headers.
async fn ask(port: u16, line: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("it listens");
    let request = format!("{line} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it answers with text");
    answer
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).expect("an answer has a status")
}

#[tokio::test(flavor = "multi_thread")]
async fn only_names_of_the_dashboard_are_answered() {
    let port =
        serve(standalone().await.host("jobs.internal").origin("https://jobs.example.com/")).await;
    for (host, expected) in [
        ("127.0.0.1", "200"),
        ("localhost:8700", "200"),
        ("[::1]", "200"),
        ("jobs.internal:80", "200"),
        ("JOBS.example.com", "200"),
        ("evil.example", "421"),
        ("127.0.0.1.evil.example", "421"),
        ("", "421"),
    ] {
        let answer = ask(port, "GET /", &format!("Host: {host}")).await;
        assert_eq!(status(&answer), expected, "{host}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_asked_of_people_and_scripts() {
    let port = serve(standalone().await.secret(Secret::new(SECRET).unwrap())).await;
    for (authorization, expected) in [
        (String::new(), "401"),
        (format!("Bearer {SECRET}"), "200"),
        (format!("bearer {SECRET}"), "200"),
        (format!("Basic {BASIC}"), "200"),
        ("Bearer a secret of the tesT".into(), "401"),
        ("Bearer ".into(), "401"),
        (format!("Bearer {SECRET}s"), "401"),
        (format!("Basic {SECRET}"), "401"),
        ("Basic !!!".into(), "401"),
        ("Digest x".into(), "401"),
    ] {
        let headers = format!("Host: localhost\r\nAuthorization: {authorization}");
        let answer = ask(port, "GET /", &headers).await;
        assert_eq!(status(&answer), expected, "{authorization}");
        assert_eq!(answer.contains("www-authenticate: Basic"), expected == "401");
        assert!(answer.contains("content-security-policy: default-src 'none'"), "{answer}");
        assert!(!answer.contains(SECRET), "a page never has the secret");
        assert_eq!(answer.contains(">ann<"), authorization.ends_with(BASIC), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_for_others_needs_a_secret_and_an_origin() {
    let secret = || Secret::new(SECRET).unwrap();
    let everywhere = async || standalone().await.bind(SocketAddr::from(([0, 0, 0, 0], 0)));
    for (dashboard, part) in [
        (everywhere().await, "needs a secret"),
        (everywhere().await.origin("https://jobs.example.com"), "needs a secret"),
        (everywhere().await.secret(secret()), "needs its origin"),
        (everywhere().await.read_only(true), "needs a secret"),
        (standalone().await.origin("jobs.example.com"), "is not an origin"),
        (standalone().await.origin("https://jobs.example.com/admin"), "is not an origin"),
    ] {
        let error = dashboard.start().await.expect_err("it does not listen");
        assert!(error.is_invalid() && error.to_string().contains(part), "{error}");
    }
    let serving =
        everywhere().await.secret(secret()).origin("https://jobs.example.com").start().await;
    assert_eq!(serving.unwrap().url(), "https://jobs.example.com/");
    assert!(Secret::new("short").unwrap_err().is_invalid());
    let (one, other) = (Secret::random().unwrap(), Secret::random().unwrap());
    assert!(one.reveal().len() == 32 && one.reveal() != other.reveal());
    assert!(!format!("{one:?}").contains(one.reveal()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_without_javascript_on_this_machine_is_taken() {
    let port = serve(standalone().await.prefix("/jobs")).await;
    for (origin, expected) in [
        (format!("http://localhost:{port}"), "303"),
        (format!("http://127.0.0.1:{port}"), "303"),
        (format!("http://[::1]:{port}"), "403"),
        ("http://localhost:1".to_owned(), "403"),
        (format!("https://localhost:{port}"), "403"),
    ] {
        let headers =
            format!("Host: localhost:{port}\r\nOrigin: {origin}\r\nContent-Length: 5\r\n\r\nwhy=x");
        // A proxy removes the prefix or does not.
        for path in ["/jobs/queues/mail/pause", "/queues/mail/pause"] {
            let answer = ask(port, &format!("POST {path}"), &headers).await;
            assert_eq!(status(&answer), expected, "{origin}: {answer}");
        }
    }
    for path in ["/", "/jobs", "/jobs/", "/jobs/?find=x", "/jobs/pools", "/pools"] {
        let answer = ask(port, &format!("GET {path}"), "Host: localhost").await;
        assert_eq!(status(&answer), "200", "{path}: {answer}");
        assert!(answer.contains("href=\"/jobs/pools\""), "{path}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prefix_may_have_any_characters_and_the_name_of_a_page() {
    for (prefix, path) in [
        ("/failed", "/failed"),
        ("queues/", "/queues"),
        ("/{jobs", "/%7Bjobs"),
        ("/*jobs", "/%2Ajobs"),
        ("/:jobs", "/%3Ajobs"),
        ("/our jobs", "/our%20jobs"),
    ] {
        let port = serve(standalone().await.prefix(prefix)).await;
        for page in [path.to_owned(), format!("{path}/pools"), "/doctor".into()] {
            let answer = ask(port, &format!("GET {page}"), "Host: localhost").await;
            assert_eq!(status(&answer), "200", "{prefix}: {page}");
            assert!(answer.contains(&format!("href=\"{path}/pools\"")), "{prefix}: {answer}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_dashboard_changes_nothing() {
    let port = serve(standalone().await.read_only(true)).await;
    let headers =
        "Host: localhost\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 5\r\n\r\nwhy=x";
    assert_eq!(status(&ask(port, "POST /queues/mail/pause", headers).await), "403");
    assert_eq!(status(&ask(port, "GET /", "Host: localhost").await), "200");
}
