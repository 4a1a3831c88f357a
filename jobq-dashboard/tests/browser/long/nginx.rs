//! Behind nginx, with the lines that `docs/dashboard.md` has.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use jobq_tests::port::free_port;
use jobq_tests::test_store::{Store, until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::driver::{Browser, Look};
use crate::shop::Shop;

/// The dashboard in the lines of the page.
const UPSTREAM: &str = "127.0.0.1:8700";

/// The blocks of configuration on the page.
fn blocks() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/dashboard.md");
    let page = std::fs::read_to_string(path).expect("the page can be read");
    let blocks = page.split("```nginx\n").skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// A server of its own. Dropping it ends it.
struct Nginx {
    process: Child,
    _folder: tempfile::TempDir,
}

impl Nginx {
    /// A server on this port with these lines.
    async fn start(port: u16, lines: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {kind};\n"))
            .concat();
        // One process, so that its id is all of it.
        let text = format!(
            "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr;\nevents {{}}\n\
             http {{\naccess_log off;\n{temporary}server {{\nlisten 127.0.0.1:{port};\n{lines}\n\
             }}\n}}\n"
        );
        let file = folder.path().join("nginx.conf");
        std::fs::write(&file, text).expect("the folder can be written");
        let mut command = Command::new("nginx");
        command.arg("-p").arg(folder.path()).arg("-c").arg(&file).args(["-e", "stderr"]);
        let process = command.stdin(Stdio::null()).spawn().expect("nginx runs");
        let nginx = Self { process, _folder: folder };
        until("nginx listens", async || TcpStream::connect(("127.0.0.1", port)).await.ok()).await;
        nginx
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends a request, and gives the connection.
async fn send(port: u16, line: &str, rest: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("it listens");
    let request = format!("{line} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{rest}");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    stream
}

async fn answer(port: u16, line: &str, rest: &str) -> String {
    let mut text = Vec::new();
    let rest = format!("Connection: close\r\n{rest}");
    send(port, line, &rest).await.read_to_end(&mut text).await.expect("it answers");
    String::from_utf8_lossy(&text).into_owned()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).expect("an answer has a status")
}

/// Reads a stream until it has this text; fails if it ends before.
async fn reads(stream: &mut TcpStream, seen: &mut String, part: &str) {
    let reading = async {
        let mut bytes = vec![0; 65_536];
        while !seen.contains(part) {
            let count = stream.read(&mut bytes).await.expect("it is read");
            assert!(count > 0, "the stream ends without `{part}`: {seen}");
            seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    };
    jobq_tests::test_store::soon(part, reading).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lines_of_the_page_lead_to_the_dashboard() {
    let test = "the_lines_of_the_page_lead_to_the_dashboard";
    if Command::new("nginx").arg("-v").stderr(Stdio::null()).status().is_err() {
        eprintln!("SKIPPED: {test} needs nginx, which ./tests/run --all installs");
        return;
    }
    let Some(browser) = Browser::open(test, Look::default()) else { return };
    let blocks = blocks();
    assert!(!blocks.is_empty(), "the page has lines for nginx");
    for block in blocks {
        let port = free_port();
        let origin = format!("http://127.0.0.1:{port}");
        let set = |standalone: jobq_dashboard::Standalone| {
            standalone.prefix("/admin/jobs").origin(&origin)
        };
        let shop = Shop::served(Store::rabbitmq().await, set).await;
        assert_eq!(shop.url, format!("{origin}/admin/jobs"));
        assert!(block.contains(UPSTREAM), "{block}");
        let _nginx = Nginx::start(port, &block.replace(UPSTREAM, &shop.address)).await;
        behind(&browser, &shop, port).await;
    }
}

/// Pages, forms and streams.
async fn behind(browser: &Browser, shop: &Shop, port: u16) {
    for path in ["/admin/jobs", "/admin/jobs/"] {
        browser.go(&format!("http://127.0.0.1:{port}{path}"));
        browser.sees("payments");
    }
    let origin = format!("http://127.0.0.1:{port}");
    for (origin, expected) in [(origin.as_str(), "303"), ("https://evil.example", "403")] {
        let form = format!("Origin: {origin}\r\nContent-Length: 5\r\n\r\nwhy=x");
        let answer = answer(port, "POST /admin/jobs/queues/images/pause", &form).await;
        assert_eq!(status(&answer), expected, "{answer}");
        let back = "location: /admin/jobs/queues/images\r\n";
        assert_eq!(answer.to_ascii_lowercase().contains(back), expected == "303", "{answer}");
    }

    // A proxy that keeps what it reads would give a short page at the end of the stream alone.
    let mut stream = send(port, "GET /admin/jobs/activity?live=stream", "\r\n").await;
    let mut seen = String::new();
    reads(&mut stream, &mut seen, "event: content").await;
    assert!(!seen.contains("resume"), "{seen}");
    let form = format!("Origin: {origin}\r\nContent-Length: 0\r\n\r\n");
    let resumed = answer(port, "POST /admin/jobs/queues/images/resume", &form).await;
    assert_eq!(status(&resumed), "303", "{resumed}");
    reads(&mut stream, &mut seen, "resume").await;

    browser.press("Pause payments");
    browser.sees("by ann");
    browser.press("Resume payments");
    browser.sees("Pause\npayments");
    shop.charge(0..31, "").await;
    browser.sees("31");
}
