//! The process of the dashboard, and its answers.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use jobq_tests::measured::Measured;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// The command `jobq dashboard`, which ends with this.
pub(crate) struct Dashboard {
    child: Child,
    /// Its address and port.
    pub(crate) address: String,
}

impl Dashboard {
    pub(crate) async fn start(store: &Measured) -> anyhow::Result<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jobq"));
        command.args(["dashboard", "--listen", "127.0.0.1:0", "--url", &store.url()]);
        if let Some(management) = store.management() {
            command.args(["--management", management]);
        }
        let mut child = command.stderr(Stdio::piped()).kill_on_drop(true).spawn()?;
        let mut lines = BufReader::new(child.stderr.take().context("a pipe")?).lines();
        let line = lines.next_line().await?.context("it says where it is")?;
        let address = line.split("http://").nth(1).context(line.clone())?;
        let address = address.trim_end_matches('/').to_owned();
        // What it has to say later is no figure, and must not fill the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { child, address })
    }

    pub(crate) fn pid(&self) -> anyhow::Result<u32> {
        self.child.id().context("it runs")
    }

    /// The body of an answer, with the time to its first byte and to its last.
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Got> {
        let start = Instant::now();
        let mut stream = TcpStream::connect(&self.address).await?;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).await?;
        let mut answer = vec![stream.read_u8().await?];
        let first = start.elapsed();
        stream.read_to_end(&mut answer).await?;
        let whole = start.elapsed();
        let answer = String::from_utf8(answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("an answer has a head")?;
        ensure!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
        Ok(Got { body: body.to_owned(), first, whole })
    }
}

pub(crate) struct Got {
    pub(crate) body: String,
    pub(crate) first: Duration,
    pub(crate) whole: Duration,
}

impl Got {
    /// The addresses of the files that the page needs.
    pub(crate) fn assets(&self) -> Vec<&str> {
        let quoted = self.body.split('"').skip(1).step_by(2);
        quoted.filter(|text| text.starts_with("/assets/")).collect()
    }
}
