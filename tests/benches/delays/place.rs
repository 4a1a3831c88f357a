//! Where jobs wait, and what that takes of the machine.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use jobq_tests::broker::Broker;
use jobq_tests::files::Directory;
use jobq_tests::measured::{resident, used};

/// A store with the process that keeps it.
#[derive(Debug)]
pub(crate) struct Place {
    store: Store,
    pid: u32,
    folder: PathBuf,
}

#[derive(Debug)]
enum Store {
    Broker(Broker),
    File(Directory),
}

/// What a place takes of the machine, in bytes.
#[derive(Debug)]
pub(crate) struct Size {
    /// What the broker says that it uses.
    pub(crate) used: Option<u64>,
    /// The memory of the process.
    pub(crate) resident: u64,
    /// The files.
    pub(crate) on_disk: u64,
}

impl Place {
    /// A private broker. `Broker` says where and in which version.
    pub(crate) async fn broker() -> anyhow::Result<Self> {
        let broker = Broker::start().await;
        let eval =
            async |code| broker.ctl(&["eval", code]).await.trim().trim_matches('"').to_owned();
        let pid = eval("os:getpid().").await.parse()?;
        let data = eval("os:getenv(\"RABBITMQ_MNESIA_BASE\").").await;
        // As the broker sees it, which may run in another system's root.
        let folder = PathBuf::from(format!("/proc/{pid}/root{data}"));
        Ok(Self { store: Store::Broker(broker), pid, folder })
    }

    /// A file of jobs. The process that keeps it is this one.
    pub(crate) fn file() -> Self {
        let directory = Directory::new();
        let folder = directory.path().to_owned();
        Self { store: Store::File(directory), pid: process::id(), folder }
    }

    pub(crate) fn url(&self) -> String {
        match &self.store {
            Store::Broker(broker) => broker.url(),
            Store::File(directory) => directory.url("jobs.db"),
        }
    }

    /// What it is.
    pub(crate) async fn name(&self) -> String {
        match &self.store {
            Store::Broker(broker) => {
                format!("RabbitMQ {}", broker.ctl(&["version"]).await.trim())
            }
            Store::File(_) => "SQLite".to_owned(),
        }
    }

    /// What the broker says that it uses of memory.
    pub(crate) async fn used(&self) -> anyhow::Result<Option<u64>> {
        let Store::Broker(broker) = &self.store else {
            return Ok(None);
        };
        let answer = broker.ctl(&["eval", "erlang:memory(total)."]).await;
        Ok(Some(answer.trim().parse()?))
    }

    pub(crate) async fn size(&self) -> anyhow::Result<Size> {
        let (used, resident) = (self.used().await?, resident(self.pid) * 1_024);
        Ok(Size { used, resident, on_disk: on_disk(&self.folder)? })
    }

    /// The time of processors that the process has used.
    pub(crate) fn cpu(&self) -> Duration {
        used(self.pid)
    }
}

/// The bytes that the files of a folder take on the disk.
fn on_disk(folder: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        // A file may go while it is looked at.
        let Ok(about) = fs::symlink_metadata(&path) else {
            continue;
        };
        bytes += if about.is_dir() { on_disk(&path)? } else { about.blocks() * 512 };
    }
    Ok(bytes)
}
