//! Viewers of live pages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Viewers who hold a stream of a page, and open it again when it ends. Dropping them ends them.
pub(crate) struct Viewers {
    bytes: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Viewers {
    /// As many viewers as paths.
    pub(crate) fn of(address: &str, paths: impl IntoIterator<Item = String>) -> Self {
        let bytes = Arc::<AtomicU64>::default();
        let mut tasks = JoinSet::new();
        for path in paths {
            let (address, bytes) = (address.to_owned(), Arc::clone(&bytes));
            tasks.spawn(async move {
                loop {
                    watch(&address, &path, &bytes).await.expect("the dashboard answers");
                }
            });
        }
        Self { bytes, _tasks: tasks }
    }

    /// How much was sent to all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Reads one stream to its end. A page that is none would be opened again without end.
async fn watch(address: &str, path: &str, bytes: &AtomicU64) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let request =
        format!("GET {path}?live=stream HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut part = vec![0; 65_536];
    let mut is_checked = false;
    loop {
        let read = stream.read(&mut part).await?;
        if read == 0 {
            return Ok(());
        }
        if !is_checked {
            let head = String::from_utf8_lossy(&part[..read]);
            assert!(head.contains("text/event-stream"), "{path} is not live: {head}");
            is_checked = true;
        }
        bytes.fetch_add(read as u64, Ordering::Relaxed);
    }
}
