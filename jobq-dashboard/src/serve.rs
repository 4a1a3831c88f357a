//! A server for browsers and monitors that silent and slow clients do not hold up.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep, timeout};

/// The most connections at once. Many systems allow a process 256 files.
const MOST: usize = 128;
/// The time that a client has for the head of a request, for its body, and to take more of an answer; and
/// the time that a connection stays open between two requests.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most bytes of a body: axum's limit.
const MOST_BYTES: usize = 2 * 1024 * 1024;
/// The wait after an error of the listener, such as no file that is free.
const AGAIN: Duration = Duration::from_secs(1);
/// The errors one after the other that end the server.
const MOST_ERRORS: u32 = 60;

/// Serves a router over HTTP/1.1 until `end` completes. Answers that are under way then go on.
///
/// At most 128 connections are open. For a further one, the one is closed that has sent no whole request
/// for the longest time since it was opened or answered. A client has 10 seconds for the head of a request, for its body, and to take more of an answer,
/// and an idle connection is closed after 10 seconds.
///
/// # Errors
///
/// A listener that takes no connection for a minute.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    end: impl Future<Output = ()>,
) -> io::Result<()> {
    let room = Arc::new(Semaphore::new(MOST));
    let server = Arc::new(Server { router, room, silent: Mutex::default() });
    tokio::select! {
        () = end => Ok(()),
        error = server.accept(&listener) => Err(error),
    }
}

struct Server {
    router: Router,
    room: Arc<Semaphore>,
    silent: Mutex<Silent>,
}

/// The connections from which a whole request is awaited, the longest silent first.
#[derive(Default)]
struct Silent {
    last: u64,
    connections: BTreeMap<u64, Arc<Connection>>,
}

impl Server {
    /// Accepts connections until the listener fails.
    async fn accept(self: Arc<Self>, listener: &TcpListener) -> io::Error {
        let mut errors = 0;
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let place = self.place().await;
                    tokio::spawn(Arc::clone(&self).serve(stream, place));
                    errors = 0;
                }
                Err(error) if errors == MOST_ERRORS => return error,
                Err(_) => {
                    errors += 1;
                    sleep(AGAIN).await;
                }
            }
        }
    }

    /// Waits for a place, for which the connection that is silent for the longest makes room.
    async fn place(&self) -> OwnedSemaphorePermit {
        if self.room.available_permits() == 0
            && let Some((_, oldest)) = self.silent().connections.pop_first()
        {
            oldest.close.notify_one();
        }
        Arc::clone(&self.room).acquire_owned().await.expect("it is never closed")
    }

    async fn serve(self: Arc<Self>, stream: TcpStream, _place: OwnedSemaphorePermit) {
        let connection = Arc::new(Connection::default());
        self.is_silent(&connection);
        let service = service_fn(|request| self.answer(&connection, request));
        let io = TokioIo::new(Limited { stream, stuck: None });
        let mut http = http1::Builder::new();
        // Between two requests as well.
        http.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
        tokio::select! {
            // The client that broke off hears no error.
            _ = http.serve_connection(io, service) => {}
            () = connection.close.notified() => {}
        }
        self.is_heard(&connection);
    }

    async fn answer(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        request: Request<Incoming>,
    ) -> Result<Response, Infallible> {
        let (parts, body) = request.into_parts();
        let body = match timeout(PATIENCE, to_bytes(Body::new(body), MOST_BYTES)).await {
            Ok(Ok(body)) => body,
            Ok(Err(_)) => return Ok(StatusCode::PAYLOAD_TOO_LARGE.into_response()),
            Err(_) => return Ok(StatusCode::REQUEST_TIMEOUT.into_response()),
        };
        self.is_heard(connection);
        let router = TowerToHyperService::new(self.router.clone());
        let answer = router.call(Request::from_parts(parts, Body::from(body))).await?;
        let (server, connection) = (Arc::clone(self), Arc::clone(connection));
        Ok(answer.map(|body| Body::new(Answer { body, server, connection })))
    }

    /// The next request of the connection is awaited from now on.
    fn is_silent(&self, connection: &Arc<Connection>) {
        let mut silent = self.silent();
        silent.last += 1;
        let number = silent.last;
        connection.number.store(number, Relaxed);
        silent.connections.insert(number, Arc::clone(connection));
    }

    /// The connection has sent a whole request, or has ended.
    fn is_heard(&self, connection: &Connection) {
        self.silent().connections.remove(&connection.number.load(Relaxed));
    }

    fn silent(&self) -> MutexGuard<'_, Silent> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Connection {
    /// Notified to close it.
    close: Notify,
    /// Its last number among the silent ones.
    number: AtomicU64,
}

/// The body of an answer. When it is sent, the next request is awaited.
struct Answer {
    body: Body,
    server: Arc<Server>,
    connection: Arc<Connection>,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.server.is_silent(&self.connection);
    }
}

/// A socket whose writes fail if the client takes nothing for too long.
struct Limited {
    stream: TcpStream,
    /// Since the last write that was not possible.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl Limited {
    fn in_time<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        ready!(stuck.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Limited {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Limited {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.in_time(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.in_time(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
