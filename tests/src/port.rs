//! Ports for private brokers.

use std::net::TcpListener;
use std::process;
use std::sync::atomic::{AtomicU16, Ordering};

/// A port that nobody listens on, below those that the system gives to clients, so
/// that it is still free when the broker starts again.
///
/// # Panics
///
/// If there is none.
#[must_use]
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(process::id() % 600).unwrap_or(0) * 20;
    for _ in 0..12_000 {
        let port = 20_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 12_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free between 20000 and 32000");
}
