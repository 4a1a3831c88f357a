//! Questions to pools of this process, for engines without a broker in between.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::{Controlled, Figure, PoolId, Question, Reply};
use crate::background;

/// A consumer that takes jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedConsumer {
    pub(crate) queue: String,
    /// Its name in the reports of its pool.
    pub(crate) name: String,
    pub(crate) pool: Option<PoolId>,
}

/// Asks each pool on a thread of its own, and returns the answers that come within `patience`.
pub(crate) async fn ask_each(
    pools: Vec<Arc<dyn Controlled>>,
    question: &Question,
    patience: Duration,
) -> Vec<(PoolId, Reply)> {
    let asked = pools.into_iter().filter_map(|pool| {
        let question = question.clone();
        let answer = background::spawn_blocking(move || (pool.id(), pool.answer(&question)));
        Some(timeout(patience, answer.ok()?))
    });
    let answers = join_all(asked.collect::<Vec<_>>()).await;
    // Without an answer the pool was too slow, or it panicked.
    answers.into_iter().filter_map(|answer| answer.ok()?.ok()).collect()
}

/// For each queue, the number of its consumers that no report names. An answer that is no report
/// accounts for all consumers of its pool.
pub(crate) fn unaccounted(
    queues: &[String],
    consumers: &[ListedConsumer],
    replies: &[(PoolId, Reply)],
) -> BTreeMap<String, Figure<u32>> {
    let (mut named, mut answered) = (HashSet::new(), HashSet::new());
    for (pool, reply) in replies {
        match reply {
            Reply::Report(report) => {
                named.extend(report.queues.iter().flat_map(|queue| &queue.consumers));
            }
            _ => drop(answered.insert(*pool)),
        }
    }
    let is_missing = |consumer: &&ListedConsumer| {
        !named.contains(&consumer.name)
            && consumer.pool.is_none_or(|pool| !answered.contains(&pool))
    };
    let count = |queue: &String| {
        let missing =
            consumers.iter().filter(|consumer| consumer.queue == *queue).filter(is_missing);
        let missing = u32::try_from(missing.count()).unwrap_or(u32::MAX);
        (queue.clone(), Figure::Known(missing))
    };
    queues.iter().map(count).collect()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::engine::{PoolQueue, PoolReport};

    #[test]
    fn a_consumer_is_accounted_for_by_its_name_or_by_its_pool() {
        let (reporting, ordered, silent) = (PoolId::new(), PoolId::new(), PoolId::new());
        let report = |names: &[&str]| {
            let consumers = names.iter().map(|name| (*name).to_owned()).collect();
            let queue = PoolQueue { consumers, ..PoolQueue::new("mail", 1) };
            PoolReport::new(reporting, "a".into(), SystemTime::UNIX_EPOCH, vec![queue])
        };
        let replies = [(reporting, Reply::Report(report(&["r1"]))), (ordered, Reply::Accepted)];
        let consumer = |queue: &str, name: &str, pool| {
            let (queue, name) = (queue.to_owned(), name.to_owned());
            ListedConsumer { queue, name, pool }
        };
        let consumers = [
            consumer("mail", "r1", Some(reporting)),
            consumer("mail", "r2", Some(reporting)),
            consumer("mail", "o1", Some(ordered)),
            consumer("mail", "s1", Some(silent)),
            consumer("mail", "n1", None),
            consumer("video", "o2", Some(ordered)),
        ];
        let queues = ["mail", "video", "nowhere"].map(str::to_owned);
        let expected = [("mail", 3), ("video", 0), ("nowhere", 0)];
        let expected = expected.map(|(queue, count)| (queue.to_owned(), Figure::Known(count)));
        assert_eq!(unaccounted(&queues, &consumers, &replies), expected.into());
    }
}
