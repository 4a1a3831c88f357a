//! Prometheus scrapes an example while its jobs run, fail, are retried and snooze, and the spans of its
//! requests and jobs are one picture.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use jobq_tests::broker;
use jobq_tests::files::Directory;
use jobq_tests::scraped::Scraped;
use jobq_tests::test_store::DEADLINE;

use super::examples::command;

/// The example while it runs; it is killed with the test.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(folder: &Directory, url: Option<&str>) -> Self {
        let mut command = command("observability", folder, url);
        command.args(["--", "127.0.0.1:0"]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect("it listens").to_owned();
        Self { child, address }
    }

    /// The body of the answer to a request, which must succeed.
    fn request(&self, line: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let request = format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
        answer.split_once("\r\n\r\n").expect("it has a body").1.to_owned()
    }

    async fn scrape_until(&self, figures: &[&str]) {
        let mut figures = figures.to_vec();
        figures.sort_unstable();
        let equal = async {
            while Scraped::read(&self.request("GET /metrics")).figures() != figures {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        if tokio::time::timeout(DEADLINE, equal).await.is_err() {
            assert_eq!(Scraped::read(&self.request("GET /metrics")).figures(), figures);
        }
    }

    /// Ends it in good order.
    fn interrupt(mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn the_figures_are_what_happened(url: Option<&str>) {
    let folder = Directory::new();
    let server = Server::start(&folder, url);
    let levels = ["jobq_slots{queue=ship} 10", "jobq_consuming{queue=ship} 1"];
    server.scrape_until(&levels).await;
    for order in [2, 4, 3, 0] {
        server.request(&format!("POST /orders/{order}"));
    }
    // RabbitMQ does not tell since when a retry is due.
    let waits = format!("jobq_wait_seconds_count{{queue=ship}} {}", url.map_or(6, |_| 4));
    let figures = [
        "jobq_enqueued_total{queue=ship,job=ship,result=accepted} 4",
        "jobq_enqueue_duration_seconds_count{queue=ship} 4",
        "jobq_attempts_total{queue=ship,job=ship,outcome=completed} 3",
        "jobq_attempts_total{queue=ship,job=ship,outcome=retried} 1",
        "jobq_attempts_total{queue=ship,job=ship,outcome=failed} 1",
        "jobq_attempts_total{queue=ship,job=ship,outcome=snoozed} 1",
        "jobq_attempt_duration_seconds_count{queue=ship,job=ship,outcome=completed} 3",
        "jobq_attempt_duration_seconds_count{queue=ship,job=ship,outcome=retried} 1",
        "jobq_attempt_duration_seconds_count{queue=ship,job=ship,outcome=failed} 1",
        "jobq_attempt_duration_seconds_count{queue=ship,job=ship,outcome=snoozed} 1",
        "jobq_failed_total{queue=ship,job=ship,reason=aborted} 1",
        &waits,
    ];
    server.scrape_until(&[&figures[..], &levels].concat()).await;
    let picture = server.request("GET /traces");
    for expected in [
        "POST /orders/2 (server)\n  send ship (producer)\n    ~> process ship (consumer)\n",
        "POST /orders/3 (server)\n  send ship (producer)\n    \
            ~> process ship (consumer): the carrier does not answer\n    \
            ~> process ship (consumer)\n",
        "    ~> process ship (consumer): there is no order 0\n",
    ] {
        assert!(picture.contains(expected), "{picture}");
    }
    server.interrupt();
}

#[tokio::test]
async fn the_figures_are_what_happened_on_a_file() {
    the_figures_are_what_happened(None).await;
}

#[tokio::test]
async fn the_figures_are_what_happened_on_rabbitmq() {
    the_figures_are_what_happened(Some(&broker::shared().await)).await;
}
