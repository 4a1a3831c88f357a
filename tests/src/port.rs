//! Ports for private brokers.

use std::net::TcpListener;
use std::ops::Range;
use std::process;
use std::sync::{Mutex, PoisonError};

/// Below the ports that the system gives to clients, so that one is still free when the
/// broker starts again.
const PORTS: Range<u16> = 20_000..32_000;
/// How many of them are claimed at a time.
const BLOCK: u16 = 40;

/// Ports that no other process of the tests uses: it would have to listen on the first of
/// them, as this one does as long as it lives.
#[derive(Debug)]
struct Block {
    _claim: TcpListener,
    left: Range<u16>,
}

impl Block {
    fn claim() -> Self {
        // Not those of the process before, whose clients may not have heard of its end.
        let own = usize::try_from(process::id()).unwrap_or(0) % PORTS.len();
        let blocks = PORTS.step_by(usize::from(BLOCK));
        let claimed = blocks.clone().cycle().skip(own).take(blocks.len()).find_map(|first| {
            let claim = listen(first)?;
            Some(Self { _claim: claim, left: first + 1..first + BLOCK })
        });
        claimed.unwrap_or_else(|| panic!("no block of ports is free in {PORTS:?}"))
    }
}

fn listen(port: u16) -> Option<TcpListener> {
    TcpListener::bind(("127.0.0.1", port)).ok()
}

/// A port that nobody listens on, and that is given once.
///
/// # Panics
///
/// If there is none.
#[must_use]
pub fn free_port() -> u16 {
    static BLOCKS: Mutex<Vec<Block>> = Mutex::new(Vec::new());
    let mut blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let left =
            blocks.last_mut().and_then(|block| block.left.find(|port| listen(*port).is_some()));
        match left {
            Some(port) => return port,
            None => blocks.push(Block::claim()),
        }
    }
}
