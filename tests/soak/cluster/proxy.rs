//! A TCP proxy that can fall silent, in front of one node.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What a proxy does with connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Carries everything over.
    Open,
    /// Carries nothing over and takes everything, as if each packet was dropped.
    Silent,
    /// Ends those that are there, and each new one at once.
    Closed,
}

/// Stands between the clients and one node, until it is dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    /// Where clients connect to.
    pub(crate) host: String,
    mode: Arc<watch::Sender<Mode>>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    /// In front of the node at this host and port.
    pub(crate) async fn before(node: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let mode = Arc::new(watch::Sender::new(Mode::Open));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, node, Arc::clone(&mode)));
        Self { host, mode, _tasks: tasks }
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

async fn accept(listener: TcpListener, node: String, mode: Arc<watch::Sender<Mode>>) {
    // Dropped with this task, and with them all connections.
    let mut carrying = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        while carrying.try_join_next().is_some() {}
        let (node, modes) = (node.clone(), mode.subscribe());
        carrying.spawn(async move {
            let mut closed = modes.clone();
            tokio::select! {
                _ = closed.wait_for(|mode| *mode == Mode::Closed) => (),
                () = carry(client, node, modes) => (),
            }
        });
    }
}

async fn carry(client: TcpStream, node: String, mut modes: watch::Receiver<Mode>) {
    // What a silent network takes is not answered even later.
    if *modes.borrow_and_update() == Mode::Silent {
        return std::future::pending().await;
    }
    let Ok(node) = TcpStream::connect(node).await else {
        return;
    };
    let ((from_client, to_client), (from_node, to_node)) = (client.into_split(), node.into_split());
    // One that ends takes the other with it.
    tokio::select! {
        () = copy(from_client, to_node, modes.clone()) => (),
        () = copy(from_node, to_client, modes) => (),
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut modes: watch::Receiver<Mode>,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        // What is held back comes when the network is whole again, as TCP sends it again.
        if modes.wait_for(|mode| *mode != Mode::Silent).await.is_err()
            || to.write_all(&buffer[..length]).await.is_err()
        {
            return;
        }
    }
}
