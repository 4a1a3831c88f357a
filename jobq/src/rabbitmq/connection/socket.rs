//! The socket of a connection, through which `lapin` gets no headers that are too deep
//! for it (see [`depth`](crate::rabbitmq::lapin::depth)), and wakes nobody too early (see
//! [`cork`](crate::rabbitmq::lapin::cork)).

use std::future::Future;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_rs::traits::Reactor;
use async_rs::util::RuntimeParts;
use async_rs::{Runtime, Tokio};
use futures_io::{AsyncRead, AsyncWrite};
use futures_util::Stream;
use lapin::tcp::{AMQPUriTcpExt, AsyncTcpStream};
use lapin::uri::AMQPUri;

use super::tls::Tls;
use crate::rabbitmq::lapin::cork::Cork;
use crate::rabbitmq::lapin::depth::Shallow;
use crate::rabbitmq::lapin::log::{FilteredTasks, LogFilter};

/// Tokio's, encrypted or not.
type Plain = AsyncTcpStream<<Tokio as Reactor>::TcpStream>;

/// Tokio, with a [`Socket`] for its own. `lapin` asks for the one that its runtime has.
pub(crate) type Kit = RuntimeParts<FilteredTasks, Sockets>;

/// The runtime of a connection, whose tasks log through this filter.
pub(crate) fn runtime(filter: LogFilter) -> Runtime<Kit> {
    let tokio = Tokio::current();
    let tasks = FilteredTasks { tokio: tokio.clone(), filter };
    Runtime::new(RuntimeParts::new(tasks, Sockets(tokio)))
}

/// Opens the socket of a node.
pub(crate) async fn open(
    node: &AMQPUri,
    tls: &Tls,
    cork: Cork,
) -> io::Result<AsyncTcpStream<Socket>> {
    let runtime = Runtime::new(Tokio::current());
    let stream = node.connect_with_config_async(tls.config.as_ref(), &runtime).await?;
    Ok(AsyncTcpStream::Plain(Socket::new(stream, cork)))
}

/// A socket whose headers are shallow, and which wakes others when what it has read or written is
/// handled.
pub(crate) struct Socket {
    stream: Plain,
    shallow: Shallow,
    cork: Cork,
    /// Whether something was read since it was last told that there is nothing more.
    has_read: bool,
}

impl Socket {
    fn new(stream: Plain, cork: Cork) -> Self {
        cork.begin();
        Self { stream, shallow: Shallow::default(), cork, has_read: false }
    }

    /// What was read or written has been handled.
    fn handled(&mut self) {
        self.has_read = false;
        self.cork.pull_out();
    }

    /// `lapin` tells whoever waits for what was written, and flushes then.
    fn has_written(&self, written: &Poll<io::Result<usize>>) {
        if matches!(written, Poll::Ready(Ok(length)) if *length > 0) {
            self.cork.put_in();
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.cork.end();
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if !self.has_read {
            self.cork.pull_out();
        }
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        match read {
            Poll::Ready(Ok(length)) if length > 0 => {
                self.shallow.pass(&mut buffer[..length]);
                if !self.has_read {
                    self.has_read = true;
                    self.cork.put_in();
                }
            }
            // Has the reader come back when it has handled that, before it waits for more.
            Poll::Pending if self.has_read => {
                self.has_read = false;
                cx.waker().wake_by_ref();
            }
            Poll::Pending | Poll::Ready(_) => self.handled(),
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
        self.handled();
        let written = Pin::new(&mut self.stream).poll_write(cx, buffer);
        self.has_written(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.handled();
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, buffers);
        self.has_written(&written);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.handled();
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.handled();
        Pin::new(&mut self.stream).poll_close(cx)
    }
}

/// Tokio's sockets and clocks.
#[derive(Debug, Clone)]
pub(crate) struct Sockets(Tokio);

impl Reactor for Sockets {
    type TcpStream = Socket;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H: Read + Write + Send + 'static>(
        &self,
        _: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        // For sockets that were opened elsewhere, of which there are none.
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
        async move { Ok(Socket::new(AsyncTcpStream::Plain(connecting.await?), Cork::default())) }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;
    use crate::rabbitmq::lapin::cork::tests::counted;

    const HEARTBEAT: [u8; 8] = [8, 0, 0, 0, 0, 0, 0, 0xCE];

    #[tokio::test]
    async fn wakes_wait_until_what_was_written_or_read_is_handled() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let opening = Sockets(Tokio::current()).tcp_connect_addr(listener.local_addr().unwrap());
        let mut socket = opening.await.unwrap();
        let (mut broker, _) = listener.accept().await.unwrap();
        let (woken, waker) = counted();
        let waker = socket.cork.waker(waker);
        let (asked, reader) = counted();
        let (mut buffer, mut cx) = ([0; 64], Context::from_waker(&reader));
        assert!(Pin::new(&mut socket).poll_write(&mut cx, &HEARTBEAT).is_ready());
        waker.wake_by_ref();
        assert_eq!(woken.get(), 0, "what was written is being handled");
        assert!(Pin::new(&mut socket).poll_flush(&mut cx).is_ready());
        assert_eq!(woken.get(), 1);
        for round in 1..=3 {
            broker.write_all(&HEARTBEAT).await.unwrap();
            let reading = poll_fn(|cx| Pin::new(&mut socket).poll_read(cx, &mut buffer));
            assert_eq!(reading.await.unwrap(), HEARTBEAT.len());
            let before = asked.get();
            assert!(Pin::new(&mut socket).poll_read(&mut cx, &mut buffer).is_pending());
            assert_eq!(asked.get(), before + 1, "the reader comes back before it waits");
            // This is the handling.
            waker.wake_by_ref();
            assert_eq!(woken.get(), round);
            match round {
                1 => drop(Pin::new(&mut socket).poll_flush(&mut cx)),
                2 => assert!(Pin::new(&mut socket).poll_read(&mut cx, &mut buffer).is_pending()),
                _ => break,
            }
            assert_eq!(woken.get(), round + 1);
        }
        drop(socket);
        assert_eq!(woken.get(), 4, "the end of a connection holds nobody back");
    }
}
