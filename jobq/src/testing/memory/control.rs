//! Pools that are asked, and pauses, of an engine in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use super::Shared;
use crate::engine::{
    Answers, Ask, Controlled, ListedConsumer, Membership, Pause, PoolId, ask_each, unaccounted,
};
use crate::error::Result;

/// The members, the consumers and the pauses.
#[derive(Debug, Default)]
pub(super) struct Control {
    pools: BTreeMap<u64, Arc<dyn Controlled>>,
    consumers: BTreeMap<u64, ListedConsumer>,
    pauses: BTreeMap<String, watch::Sender<Option<Pause>>>,
}

impl Control {
    pub(super) fn is_paused(&self, queue: &str) -> bool {
        self.pauses.get(queue).is_some_and(|pause| pause.borrow().is_some())
    }

    pub(super) fn pauses(&mut self, queue: &str) -> watch::Receiver<Option<Pause>> {
        self.pauses.entry(queue.to_owned()).or_default().subscribe()
    }

    /// Sets or ends the pause of a queue, and returns the one before.
    pub(super) fn set_pause(&mut self, queue: &str, pause: Option<Pause>) -> Option<Pause> {
        self.pauses.entry(queue.to_owned()).or_default().send_replace(pause)
    }

    pub(super) fn add_taker(&mut self, number: u64, queue: &str, pool: Option<PoolId>) {
        let consumer = ListedConsumer { queue: queue.to_owned(), name: taker_name(number), pool };
        self.consumers.insert(number, consumer);
    }

    pub(super) fn remove_taker(&mut self, number: u64) {
        self.consumers.remove(&number);
    }

    /// The number of consumers of a queue, unless it is paused.
    pub(super) fn takers_of(&self, queue: &str) -> u64 {
        self.consumers().iter().filter(|consumer| consumer.queue == queue).count() as u64
    }

    /// The consumers of queues that are not paused.
    fn consumers(&self) -> Vec<ListedConsumer> {
        self.consumers
            .values()
            .filter(|consumer| !self.is_paused(&consumer.queue))
            .cloned()
            .collect()
    }
}

/// The name of a consumer in reports.
pub(super) fn taker_name(number: u64) -> String {
    format!("consumer-{number}")
}

/// Ends the membership of a pool when it is dropped.
struct Member {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.shared.state().control.pools.remove(&self.number);
    }
}

pub(super) fn join(shared: &Arc<Shared>, pool: Arc<dyn Controlled>) -> Result<Membership> {
    let number = shared.change(|state| {
        let number = state.number();
        state.control.pools.insert(number, pool);
        Ok(number)
    })?;
    Ok(Membership::new(Member { shared: Arc::clone(shared), number }))
}

pub(super) async fn ask(shared: &Shared, ask: Ask) -> Result<Answers> {
    let Ask { question, pool, queues, patience } = ask;
    let is_asked = |member: &&Arc<dyn Controlled>| pool.is_none_or(|pool| member.id() == pool);
    let pools = shared.change(|state| {
        Ok(state.control.pools.values().filter(is_asked).cloned().collect::<Vec<_>>())
    })?;
    let replies = ask_each(pools, &question, patience).await;
    let consumers = shared.change(|state| Ok(state.control.consumers()))?;
    let unaccounted = unaccounted(&queues, &consumers, &replies);
    Ok(Answers::new(replies, unaccounted))
}
