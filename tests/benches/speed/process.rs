//! Each run in a process of its own, on a store of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use jobq_tests::broker::Broker;
use jobq_tests::files::Directory;
use tokio::process::Command;

use crate::case::Case;
use crate::gauge::BROKER;
use crate::sample::Sample;
use crate::scenario::Engine;

/// Where the jobs of the runs are, one after the other.
#[derive(Debug)]
pub(crate) enum Store {
    /// A private broker, with a virtual host for each run.
    Broker { broker: Broker, process: u32, runs: u32 },
    /// A file for each run.
    File(Directory),
}

/// What the process of a run is run by.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Under<'a> {
    Nothing,
    /// Callgrind, which writes to this file.
    Callgrind(&'a Path),
}

impl Store {
    pub(crate) async fn start(engine: Engine) -> Self {
        Self::start_in(engine, None).await
    }

    /// [`start`](Self::start) with the RabbitMQ that is installed under this root.
    pub(crate) async fn start_in(engine: Engine, root: Option<PathBuf>) -> Self {
        let broker = match (engine, root) {
            (Engine::RabbitMq, Some(root)) => Broker::start_in(root).await,
            (Engine::RabbitMq, None) => Broker::start().await,
            (Engine::Sqlite, _) => return Self::File(Directory::new()),
        };
        let process = broker.ctl(&["eval", "list_to_integer(os:getpid())."]).await;
        let process = process.trim().parse().expect("the number of a process");
        Self::Broker { broker, process, runs: 0 }
    }

    /// What keeps the jobs, with its version.
    pub(crate) async fn name(&self) -> String {
        match self {
            Self::Broker { broker, .. } => {
                format!("RabbitMQ {}", broker.ctl(&["version"]).await.trim())
            }
            Self::File(_) => format!("SQLite {}", rusqlite::version()),
        }
    }

    /// The URL of an empty place. What the run before has left would cost this one.
    async fn fresh(&mut self) -> String {
        match self {
            Self::Broker { broker, runs, .. } => {
                if *runs > 0 {
                    broker.ctl(&["delete_vhost", &format!("run{runs}")]).await;
                }
                *runs += 1;
                let host = format!("run{runs}");
                broker.ctl(&["add_vhost", &host]).await;
                broker.ctl(&["set_permissions", "-p", &host, "guest", ".*", ".*", ".*"]).await;
                format!("{}/{host}", broker.url())
            }
            Self::File(directory) => {
                *directory = Directory::new();
                directory.url("jobs.db")
            }
        }
    }

    /// Runs a case, and before it what it needs.
    pub(crate) async fn run(&mut self, case: Case, under: Under<'_>) -> anyhow::Result<Sample> {
        let url = self.fresh().await;
        if let Some(before) = case.before() {
            self.process(before, &url, Under::Nothing).await?;
        }
        self.process(case, &url, under).await
    }

    async fn process(&self, case: Case, url: &str, under: Under<'_>) -> anyhow::Result<Sample> {
        let program = std::env::current_exe()?;
        let mut command = match under {
            Under::Nothing => Command::new(program),
            Under::Callgrind(file) => {
                let mut command = Command::new("valgrind");
                command.args(["--tool=callgrind", "--quiet", "--fair-sched=yes"]);
                command.arg(format!("--callgrind-out-file={}", file.display())).arg(program);
                command
            }
        };
        command.args(["--bench", "one"]).args(case.words(url));
        command.stderr(Stdio::inherit()).kill_on_drop(true);
        if let Self::Broker { process, .. } = self {
            command.env(BROKER, process.to_string());
        }
        let name = command.as_std().get_program().to_string_lossy().into_owned();
        let output = command.output().await.with_context(|| {
            format!("`{name}` cannot be run; `./tests/run --instructions` installs what is missing")
        })?;
        ensure!(output.status.success(), "{case:?} in `{name}`: {}", output.status);
        let text = String::from_utf8(output.stdout)?;
        let line = text.lines().last().context("a run prints what it measured")?;
        Ok(serde_json::from_str(line)?)
    }
}
