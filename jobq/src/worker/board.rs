//! The schedules that a pool holds, for those who ask.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use crate::guard::lock;
use crate::schedule::SeatReport;
use crate::schedule::book::Book;

/// The books of the seats that a pool holds.
#[derive(Debug, Default)]
pub(crate) struct Board {
    books: Mutex<BTreeMap<&'static str, Arc<Mutex<Book>>>>,
    /// The queues of which the pool was told that they may have a seat.
    told: watch::Sender<BTreeSet<&'static str>>,
}

impl Board {
    /// Shows a book until the guard is dropped.
    pub(super) fn show(&self, queue: &'static str, book: Arc<Mutex<Book>>) -> Shown<'_> {
        lock(&self.books).insert(queue, book);
        Shown { board: self, queue }
    }

    /// The schedules of each queue whose seat the pool holds.
    pub(crate) fn reports(&self) -> BTreeMap<String, SeatReport> {
        let books = lock(&self.books).clone();
        books.into_iter().map(|(queue, book)| (queue.to_owned(), lock(&book).report())).collect()
    }

    /// Tells the pool that a queue may have a seat.
    pub(crate) fn tell(&self, queue: &'static str) {
        self.told.send_modify(|told| _ = told.insert(queue));
    }

    /// Returns when the pool was told of this queue since the last call.
    pub(super) async fn told(&self, queue: &'static str) {
        // Cannot fail: the board owns the sender.
        let _ = self.told.subscribe().wait_for(|told| told.contains(queue)).await;
        self.told.send_modify(|told| _ = told.remove(queue));
    }
}

pub(super) struct Shown<'b> {
    board: &'b Board,
    queue: &'static str,
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        lock(&self.board.books).remove(self.queue);
    }
}
