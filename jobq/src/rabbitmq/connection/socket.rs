//! The socket of a connection. It keeps headers from `lapin` that are nested too deeply (see
//! [`depth`](crate::rabbitmq::lapin::depth)).

use std::future::Future;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_rs::traits::Reactor;
use async_rs::util::RuntimeParts;
use async_rs::{Runtime, Tokio};
use futures_io::{AsyncRead, AsyncWrite};
use futures_util::Stream;
use lapin::tcp::{AMQPUriTcpExt, AsyncTcpStream, OwnedTLSConfig};
use lapin::uri::AMQPUri;
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};

use super::server_properties::Greeting;
use crate::guard::lock;
use crate::rabbitmq::lapin::depth::Shallow;
use crate::rabbitmq::lapin::log::{FilteredTasks, LogFilter};

/// Tokio's socket, encrypted or not.
type Plain = AsyncTcpStream<<Tokio as Reactor>::TcpStream>;

/// Tokio with a [`Socket`] as its socket. `lapin` uses the one of its runtime.
pub(crate) type Kit = RuntimeParts<FilteredTasks, Sockets>;

/// The runtime of a connection, whose tasks log through this filter.
pub(crate) fn runtime(filter: LogFilter) -> Runtime<Kit> {
    let tokio = Tokio::current();
    let tasks = FilteredTasks { tokio: tokio.clone(), filter };
    Runtime::new(RuntimeParts::new(tasks, Sockets(tokio)))
}

/// Opens a socket to a node, for a connection that is established by this handshake.
pub(crate) async fn open(
    node: &AMQPUri,
    tls: &OwnedTLSConfig,
    handshake: &Handshake,
) -> io::Result<AsyncTcpStream<Socket>> {
    let runtime = Runtime::new(Tokio::current());
    let stream = node.connect_with_config_async(tls.as_ref(), &runtime).await?;
    Ok(AsyncTcpStream::Plain(Socket::new(stream, Some(handshake.watch()))))
}

/// The beginning of a connection. `lapin` waits without a limit for a peer that is silent then, on a
/// thread of its own, also when its caller has given up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Handshake {
    given_up: CancellationToken,
    is_over: Arc<AtomicBool>,
    greeting: Arc<Mutex<Greeting>>,
}

impl Handshake {
    /// The version of the broker, once it has greeted.
    pub(crate) fn version(&self) -> Option<String> {
        lock(&self.greeting).version()
    }

    /// Ends the socket when the guard is dropped.
    pub(crate) fn guard(&self) -> DropGuard {
        self.given_up.clone().drop_guard()
    }

    /// The connection is established.
    pub(crate) fn succeeded(&self, guard: DropGuard) {
        self.is_over.store(true, Ordering::Release);
        guard.disarm();
    }

    fn watch(&self) -> Watched {
        let given_up = Box::pin(self.given_up.clone().cancelled_owned());
        let (is_over, greeting) = (Arc::clone(&self.is_over), Arc::clone(&self.greeting));
        Watched { given_up, is_over, greeting }
    }
}

/// A handshake, as its socket sees it.
struct Watched {
    given_up: Pin<Box<WaitForCancellationFutureOwned>>,
    is_over: Arc<AtomicBool>,
    greeting: Arc<Mutex<Greeting>>,
}

/// A socket that flattens deeply nested headers.
pub(crate) struct Socket {
    stream: Plain,
    shallow: Shallow,
    /// `None` once the connection is established.
    handshake: Option<Watched>,
}

impl Socket {
    fn new(stream: Plain, handshake: Option<Watched>) -> Self {
        Self { stream, shallow: Shallow::default(), handshake }
    }

    /// An error if the handshake was given up.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if let Some(Watched { given_up, is_over, .. }) = &mut self.handshake {
            if is_over.load(Ordering::Acquire) {
                self.handshake = None;
            } else if given_up.as_mut().poll(cx).is_ready() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if let Poll::Ready(Ok(length)) = read {
            if let Some(Watched { greeting, .. }) = &self.handshake {
                let mut greeting = lock(greeting);
                greeting.pass(&buffer[..length]);
            }
            self.shallow.pass(&mut buffer[..length]);
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buffer)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, buffers)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(cx)
    }
}

/// Tokio's sockets and timers.
#[derive(Debug, Clone)]
pub(crate) struct Sockets(Tokio);

impl Reactor for Sockets {
    type TcpStream = Socket;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H: Read + Write + Send + 'static>(
        &self,
        _: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        // For sockets that were opened elsewhere. jobq has none.
        Err::<Socket, _>(io::ErrorKind::Unsupported.into())
    }

    fn sleep(&self, time: Duration) -> Self::Sleep {
        self.0.sleep(time)
    }

    fn interval(&self, time: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.0.interval(time)
    }

    fn tcp_connect_addr(
        &self,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<Socket>> + Send + 'static {
        let connecting = self.0.tcp_connect_addr(address);
        async move { Ok(Socket::new(AsyncTcpStream::Plain(connecting.await?), None)) }
    }
}
