//! Commands that serve.

use std::process::{ExitStatus, Stdio};

use jobq_tests::test_store::{Store, soon};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStderr, Command};

use crate::process::on;

/// A command that serves, as a process. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    /// Where it listens.
    pub(crate) address: String,
    /// Kept, since it writes there when it ends.
    said: BufReader<ChildStderr>,
}

impl Server {
    /// Starts `jobq dashboard` on a store, with these further arguments.
    pub(crate) async fn start(store: &Store, arguments: &[&str]) -> Self {
        let all = [&["dashboard", "--listen", "127.0.0.1:0"], arguments].concat();
        Self::spawn(on(store, &all)).await
    }

    /// Starts a command, which says first where it listens.
    pub(crate) async fn spawn(mut command: Command) -> Self {
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        soon("its address", said.read_line(&mut line)).await.unwrap();
        let address = line.split("http://").nth(1).unwrap_or_else(|| panic!("{line}"));
        let address = address.split('/').next().unwrap().trim().to_owned();
        Self { process, address, said }
    }

    pub(crate) async fn get(&self, path: &str) -> String {
        get(&self.address, path).await
    }

    /// Sends a form as a page of the dashboard does.
    pub(crate) async fn post(&self, path: &str, form: &str) -> String {
        let Self { address, .. } = self;
        let request = format!(
            "POST {path} HTTP/1.0\r\nHost: {address}\r\nOrigin: http://{address}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
            form.len(),
        );
        ask(address, &request).await
    }

    /// The next line on its standard error.
    pub(crate) async fn next_line(&mut self) -> String {
        let mut line = String::new();
        soon("a line of the log", self.said.read_line(&mut line)).await.unwrap();
        line
    }

    /// Ends it, and gives what it has written to standard error since its address.
    pub(crate) async fn rest(mut self) -> String {
        self.ask_to_end();
        let mut rest = String::new();
        soon("the end of its log", self.said.read_to_string(&mut rest)).await.unwrap();
        rest
    }

    fn ask_to_end(&self) {
        let pid = self.process.id().unwrap().to_string();
        let sent = std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Sends it SIGTERM, and waits until it has ended.
    pub(crate) async fn terminate(mut self) -> ExitStatus {
        self.ask_to_end();
        soon("the end of the dashboard", self.process.wait()).await.unwrap()
    }
}

/// The answer to a request, with its headers.
async fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon("an answer", stream.read_to_string(&mut answer)).await.unwrap();
    answer
}

/// A page, with its headers.
pub(crate) async fn get(address: &str, path: &str) -> String {
    ask(address, &format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")).await
}
