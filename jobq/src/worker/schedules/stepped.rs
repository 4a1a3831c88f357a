//! The schedules of a test, whose jobs are enqueued when it moves the clock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use futures_util::FutureExt as _;

use super::keeper::Keeper;
use crate::client::Client;
use crate::engine::SeatValue;
use crate::error::Result;
use crate::guard::lock;
use crate::schedule::book::Book;
use crate::schedule::deadlines::LATE;
use crate::worker::registry::Specs;

/// The schedules in the code of a test.
#[derive(Debug)]
pub(crate) struct Stepped {
    specs: Specs,
    /// By queue.
    books: Mutex<BTreeMap<String, Written>>,
}

/// A book, and the value of its seat that it last wrote: as long as the seat has that, the book need not
/// be read.
#[derive(Debug)]
struct Written {
    book: Arc<Mutex<Book>>,
    value: SeatValue,
}

impl Stepped {
    pub(crate) fn new(specs: Specs) -> Self {
        Self { specs, books: Mutex::default() }
    }

    /// Enqueues the jobs of a queue's schedules that are due, and returns when the next one is.
    pub(crate) async fn tick(&self, client: &Client, queue: &str) -> Result<Option<SystemTime>> {
        let own = self.specs.get(queue).map(Vec::as_slice).unwrap_or_default();
        let seats = client.engine().seats().expect("the memory of the kit has seats");
        if own.is_empty() && !seats.exists(queue).await? {
            return Ok(None);
        }
        // A pool that the test has started may hold it.
        let Some(seat) = seats.take(queue).now_or_never() else { return Ok(None) };
        let (seat, known) = (seat?, lock(&self.books).remove(queue));
        let mut keeper = if let Some(known) = known.filter(|known| known.value == *seat.value()) {
            Keeper::with_book(client.clone(), queue, seat, known.book)
        } else {
            let mut keeper = Keeper::open(client.clone(), queue, seat)?;
            keeper.add_own(own, client.clock().now()).await?;
            keeper
        };
        while let Some(change) = keeper.next_change().now_or_never() {
            keeper.merge(change?).await?;
        }
        keeper.tick(LATE).await?;
        let next = keeper.next();
        let written = Written { book: keeper.book(), value: keeper.value().clone() };
        lock(&self.books).insert(queue.to_owned(), written);
        keeper.leave().await;
        Ok(next)
    }
}
