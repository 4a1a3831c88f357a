//! The schedules that a pool holds, for those who ask.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use crate::guard::lock;
use crate::schedule::SeatReport;
use crate::schedule::book::Book;

/// The books of the seats that a pool holds.
#[derive(Debug, Default)]
pub(crate) struct Board {
    books: Mutex<BTreeMap<&'static str, Arc<Mutex<Book>>>>,
    /// Counts how often the pool was told to look for seats.
    told: watch::Sender<u64>,
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

    /// Tells the pool to look for seats, since a queue may have its first one.
    pub(crate) fn tell(&self) {
        self.told.send_modify(|count| *count += 1);
    }

    pub(super) fn told(&self) -> watch::Receiver<u64> {
        self.told.subscribe()
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
