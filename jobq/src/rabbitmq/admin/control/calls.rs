//! Questions whose answers are awaited.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use crate::engine::{PoolId, Reply};
use crate::guard::lock;

/// A response to a question.
#[derive(Debug)]
pub(super) enum Response {
    /// The answer of a pool, with the numbers of its consumers by queue.
    Answer(PoolId, BTreeMap<String, u32>, Box<Reply>),
    /// The question itself, which goes to its sender as well.
    Asked,
    Echo,
    Fence,
}

/// The questions of a client, by number.
#[derive(Debug, Default)]
pub(super) struct Calls {
    next: AtomicU64,
    open: Mutex<HashMap<u64, mpsc::UnboundedSender<Response>>>,
}

/// A question. Dropping it ends the wait for answers.
#[derive(Debug)]
pub(super) struct Call<'c> {
    calls: &'c Calls,
    pub(super) number: u64,
    responses: mpsc::UnboundedReceiver<Response>,
}

impl Calls {
    pub(super) fn open(&self) -> Call<'_> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, responses) = mpsc::unbounded_channel();
        lock(&self.open).insert(number, sender);
        Call { calls: self, number, responses }
    }

    /// Passes a response on. One that comes too late is dropped.
    pub(super) fn pass_on(&self, number: u64, response: Response) {
        if let Some(call) = lock(&self.open).get(&number) {
            let _ = call.send(response);
        }
    }
}

impl Call<'_> {
    pub(super) async fn next(&mut self) -> Response {
        match self.responses.recv().await {
            Some(response) => response,
            // The sender lives as long as the call.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        lock(&self.calls.open).remove(&self.number);
    }
}
