//! A TCP proxy between a client and its broker that does what networks do: it passes on,
//! delays, falls silent, ends connections in several ways, and takes none.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, watch};
use tokio::task::JoinSet;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::port::free_port;

/// How many bytes of one connection are kept while they may not pass.
const MOST_KEPT: usize = 1024 * 1024;

/// Where something goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toward {
    /// From the client to the broker.
    Broker,
    /// From the broker to the client.
    Client,
}

/// How a connection is ended, on both of its sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// At once, with an RST: what was under way is lost.
    Reset,
    /// In good order, with a FIN.
    End,
}

/// A way to a broker that can be disturbed. Dropping it ends its connections.
#[derive(Debug)]
pub struct Proxy {
    url: String,
    line: Arc<Line>,
    _listening: AbortOnDropHandle<()>,
}

/// What all connections of a proxy share.
#[derive(Debug)]
struct Line {
    broker: String,
    weather: watch::Sender<Weather>,
    orders: broadcast::Sender<Order>,
    accepted: AtomicUsize,
    /// The connections since the last cut.
    living: Mutex<TaskTracker>,
    /// The bytes that are kept, toward the broker and toward the client.
    kept: [AtomicUsize; 2],
}

/// What holds until it is changed.
#[derive(Debug, Clone, Copy, Default)]
struct Weather {
    frozen: [bool; 2],
    refusing: bool,
    delay: Duration,
}

/// What is done once to all connections.
#[derive(Debug, Clone, Copy)]
enum Order {
    Cut(Cut),
    HalfClose(Toward),
}

impl Line {
    fn living(&self) -> MutexGuard<'_, TaskTracker> {
        self.living.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Proxy {
    /// A way to the broker of this URL.
    ///
    /// # Panics
    ///
    /// If there is no port for it.
    pub async fn to(url: &str) -> Self {
        let (before, rest) = url.split_once("://").expect("a URL has a scheme");
        let (user, rest) = rest.split_at(rest.rfind('@').map_or(0, |at| at + 1));
        let (broker, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let port = free_port();
        let line = Arc::new(Line {
            broker: broker.to_owned(),
            weather: watch::Sender::default(),
            orders: broadcast::Sender::new(16),
            accepted: AtomicUsize::new(0),
            living: Mutex::default(),
            kept: Default::default(),
        });
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the port is free");
        let listening = tokio::spawn(listen(listener, port, Arc::clone(&line)));
        Self {
            url: format!("{before}://{user}127.0.0.1:{port}{rest}"),
            line,
            _listening: AbortOnDropHandle::new(listening),
        }
    }

    /// Where clients connect to.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Ends all connections, and returns when they are gone, with what was kept of them. New
    /// ones are taken.
    pub async fn cut(&self, how: Cut) {
        let ending = std::mem::take(&mut *self.line.living());
        // Without a connection nobody listens.
        let _ = self.line.orders.send(Order::Cut(how));
        ending.close();
        ending.wait().await;
    }

    /// Tells this side of all connections that the other one sends nothing more, and drops
    /// what that sends.
    pub fn half_close(&self, toward: Toward) {
        let _ = self.line.orders.send(Order::HalfClose(toward));
    }

    /// Keeps connections open, takes new ones, and passes nothing on that goes there: what
    /// comes is kept.
    pub fn freeze(&self, toward: Toward) {
        self.line.weather.send_modify(|weather| weather.frozen[toward as usize] = true);
    }

    /// Ends all freezing: what was kept passes.
    pub fn thaw(&self) {
        self.line.weather.send_modify(|weather| weather.frozen = [false; 2]);
    }

    /// Everything takes so much longer in either direction.
    pub fn delay(&self, delay: Duration) {
        self.line.weather.send_modify(|weather| weather.delay = delay);
    }

    /// Whether new connections are refused, as where nobody listens.
    pub fn refuse(&self, refusing: bool) {
        self.line.weather.send_modify(|weather| weather.refusing = refusing);
    }

    /// How many connections were taken since the beginning.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.line.accepted.load(Ordering::Acquire)
    }

    /// How many bytes are kept that go there.
    #[must_use]
    pub fn kept(&self, toward: Toward) -> usize {
        self.line.kept[toward as usize].load(Ordering::Acquire)
    }
}

async fn listen(first: TcpListener, port: u16, line: Arc<Line>) {
    let mut listener = Some(first);
    let mut weather = line.weather.subscribe();
    let mut connections = JoinSet::new();
    loop {
        let refusing = weather.borrow_and_update().refusing;
        if refusing {
            listener = None;
        } else if listener.is_none() {
            let bound = TcpListener::bind(("127.0.0.1", port)).await;
            listener = Some(bound.expect("the port is still this proxy's"));
        }
        let client = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            accepted = client => if let Ok((client, _)) = accepted {
                line.accepted.fetch_add(1, Ordering::AcqRel);
                // Whatever is ordered after this is for this one as well.
                let living = line.living();
                let (token, orders) = (living.token(), line.orders.subscribe());
                drop(living);
                let connection = connect(client, Arc::clone(&line), orders);
                connections.spawn(async move {
                    connection.await;
                    drop(token);
                });
            },
            _ = weather.changed() => (),
            Some(_) = connections.join_next() => (),
        }
    }
}

async fn connect(mut client: TcpStream, line: Arc<Line>, orders: broadcast::Receiver<Order>) {
    let Ok(mut broker) = TcpStream::connect(&line.broker).await else {
        return;
    };
    let reset = {
        let (from_client, to_client) = client.split();
        let (from_broker, to_broker) = broker.split();
        let mut cut = orders.resubscribe();
        let out = pump(from_client, to_broker, Toward::Broker, &line, orders.resubscribe());
        let back = pump(from_broker, to_client, Toward::Client, &line, orders);
        tokio::select! {
            done = async { tokio::try_join!(out, back) } => done.is_err(),
            how = async {
                loop {
                    if let Ok(Order::Cut(how)) = cut.recv().await {
                        return how;
                    }
                }
            } => how == Cut::Reset,
        }
    };
    if reset {
        let _ = (client.set_zero_linger(), broker.set_zero_linger());
    }
}

/// Bytes that came and did not pass.
struct Kept<'l> {
    bytes: Vec<u8>,
    count: &'l AtomicUsize,
}

impl Kept<'_> {
    fn clear(&mut self) {
        self.count.fetch_sub(self.bytes.len(), Ordering::AcqRel);
        self.bytes.clear();
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Passes on what goes there, until its source has ended.
async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    toward: Toward,
    line: &Line,
    mut orders: broadcast::Receiver<Order>,
) -> io::Result<()> {
    let mut weather = line.weather.subscribe();
    let mut kept = Kept { bytes: Vec::new(), count: &line.kept[toward as usize] };
    let (mut ended, mut delayed) = (false, false);
    loop {
        let Weather { frozen, delay, .. } = *weather.borrow_and_update();
        if !frozen[toward as usize] {
            if !kept.bytes.is_empty() {
                if !delay.is_zero() && !delayed {
                    tokio::time::sleep(delay).await;
                    // The weather may have changed.
                    delayed = true;
                    continue;
                }
                to.write_all(&kept.bytes).await?;
                kept.clear();
                delayed = false;
            }
            if ended {
                return to.shutdown().await;
            }
        }
        tokio::select! {
            length = from.read_buf(&mut kept.bytes), if !ended && kept.bytes.len() < MOST_KEPT => {
                let length = length?;
                ended = length == 0;
                kept.count.fetch_add(length, Ordering::AcqRel);
            }
            _ = weather.changed() => (),
            order = orders.recv() => if matches!(order, Ok(Order::HalfClose(to)) if to == toward) {
                kept.clear();
                to.shutdown().await?;
                tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
                return Ok(());
            },
        }
    }
}

#[cfg(test)]
#[path = "proxy_tests.rs"]
mod tests;
