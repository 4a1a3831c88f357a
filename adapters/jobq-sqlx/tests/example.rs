//! The example crashes between its steps.

// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use jobq_outbox_facts::Postgres;

/// The example, built with this test.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples/outbox")
}

struct Shop {
    process: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    address: String,
}

impl Shop {
    fn start(database: &Postgres, folder: &Path) -> Self {
        let mut command = Command::new(example());
        command.env("DATABASE_URL", database.url("postgres")).env("LISTEN", "127.0.0.1:0");
        command.env_remove("JOBQ_URL").current_dir(folder).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the example was built");
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let address = first.strip_prefix("listening on ").expect(&first).to_owned();
        Self { process, lines, address }
    }

    /// What it answers to an order; nothing if it crashes.
    fn order(&self, query: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let request = format!(
            "POST /orders{query} HTTP/1.1\r\nHost: shop\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.rsplit("\r\n\r\n").next().unwrap_or_default().to_owned()
    }

    fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn an_order_and_its_invoice_survive_crashes_together() {
    let (database, folder) = (Postgres::empty(), tempfile::tempdir().unwrap());
    let mut shop = Shop::start(&database, folder.path());
    assert_eq!(shop.order(""), "order 1\n");
    assert_eq!(shop.line(), "the invoice of order 1 is booked");

    assert_eq!(shop.order("?crash=before-commit"), "");
    let shop = Shop::start(&database, folder.path());
    assert_eq!(shop.order("?crash=after-commit"), "");
    let mut shop = Shop::start(&database, folder.path());
    // Order 2 was never there.
    assert_eq!(shop.line(), "the invoice of order 3 is booked");
    assert_eq!(database.sql("SELECT id, invoiced FROM orders ORDER BY id"), "1|t\n3|t");
}
