//! Seats of an engine in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use super::{Memory, Shared};
use crate::engine::{
    NotPushed, Seat, SeatValue, Seats, check_change, check_list, check_waiting, not_held,
};
use crate::error::Result;
use crate::job::Envelope;

/// The seat of a queue.
#[derive(Debug, Default)]
pub(super) struct SeatState {
    /// The number of the holder.
    holder: Option<u64>,
    value: SeatValue,
    /// The changes that are no part of the list, each with its number.
    changes: VecDeque<(u64, Vec<u8>)>,
}

#[async_trait]
impl Seats for Memory {
    async fn take(&self, queue: &str) -> Result<Box<dyn Seat>> {
        let mut changes = self.shared.changes.subscribe();
        loop {
            changes.borrow_and_update();
            // Without waking those who wait, of whom this is one.
            let taken = {
                let mut state = self.shared.state();
                state.check_open()?;
                state.check_queue(queue)?;
                let number = state.number();
                let seat = state.seats.entry(queue.to_owned()).or_default();
                let free = seat.holder.is_none().then_some(&mut seat.holder);
                free.map(|holder| (*holder.insert(number), seat.value.clone()))
            };
            if let Some((number, value)) = taken {
                let (shared, queue) = (Arc::clone(&self.shared), queue.to_owned());
                return Ok(Box::new(Held { shared, queue, number, value, taken: 0, changes }));
            }
            // The sender lives as long as the engine.
            let _ = changes.changed().await;
        }
    }

    async fn exists(&self, queue: &str) -> Result<bool> {
        let state = self.shared.state();
        state.check_open()?;
        Ok(state.seats.contains_key(queue))
    }

    async fn change(&self, queue: &str, change: Vec<u8>) -> Result<()> {
        check_change(&change)?;
        self.shared.change(|state| {
            state.check_queue(queue)?;
            let number = state.number();
            let seat = state.seats.entry(queue.to_owned()).or_default();
            check_waiting(queue, seat.changes.len() as u64)?;
            seat.changes.push_back((number, change));
            Ok(())
        })
    }
}

/// A seat that is held.
#[derive(Debug)]
struct Held {
    shared: Arc<Shared>,
    queue: String,
    number: u64,
    value: SeatValue,
    /// The number of the last change that was returned.
    taken: u64,
    changes: watch::Receiver<u64>,
}

impl Held {
    /// Changes the seat, if it is still held.
    fn change<T>(&self, change: impl FnOnce(&mut SeatState) -> T) -> Result<T> {
        self.shared.change(|state| {
            let seat = state.seats.get_mut(&self.queue);
            let held = seat.filter(|seat| seat.holder == Some(self.number));
            held.map(change).ok_or_else(|| not_held(&self.queue))
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // It is free already where this fails.
        let _ = self.change(|seat| seat.holder = None);
    }
}

#[async_trait]
impl Seat for Held {
    fn value(&self) -> &SeatValue {
        &self.value
    }

    async fn next_change(&mut self) -> Result<Vec<u8>> {
        loop {
            self.changes.borrow_and_update();
            let next = {
                let mut state = self.shared.state();
                state.check_open()?;
                let seat = state.seats.get_mut(&self.queue);
                let held = seat.filter(|seat| seat.holder == Some(self.number));
                let changes = &held.ok_or_else(|| not_held(&self.queue))?.changes;
                changes.iter().find(|(number, _)| *number > self.taken).cloned()
            };
            if let Some((number, change)) = next {
                self.taken = number;
                return Ok(change);
            }
            let _ = self.changes.changed().await;
        }
    }

    async fn write_list(&mut self, list: Vec<u8>) -> Result<()> {
        check_list(&list)?;
        let taken = self.taken;
        self.change(|seat| {
            seat.value.list.clone_from(&list);
            seat.changes.retain(|(number, _)| *number > taken);
        })?;
        self.value.list = list;
        Ok(())
    }

    async fn advance(&mut self, jobs: Vec<Envelope>, position: Vec<u8>) -> Result<Vec<NotPushed>> {
        check_change(&position)?;
        self.change(|_| ())?;
        let push = |job| self.shared.change(|state| state.push(job));
        let pushed = jobs.into_iter().map(push).enumerate();
        let refused = pushed.filter_map(|(place, pushed)| Some((place, pushed.err()?))).collect();
        self.change(|seat| seat.value.position.clone_from(&position))?;
        self.value.position = position;
        Ok(refused)
    }

    async fn leave(self: Box<Self>) {}
}
