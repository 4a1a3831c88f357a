//! How many of the consumers that the broker counts are those of pools.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use crate::engine::{PoolId, PoolQueue};
use crate::guard::lock;
use crate::rabbitmq::consume::counted::Counted;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::routing_key;

/// The consumers of each pool of a client, by lane; those of solo runs apart.
#[derive(Debug, Default)]
pub(super) struct CountedOfPools(Mutex<BTreeMap<(PoolId, String), Feeds>>);

/// The feeds of a lane in a pool.
type Feeds = Vec<Weak<Counted>>;

impl CountedOfPools {
    /// A feed of a pool begins.
    pub(super) fn begin(&self, pool: PoolId, lane: String) -> Arc<Counted> {
        let counted = Arc::<Counted>::default();
        let mut all = lock(&self.0);
        all.retain(|_, feeds| {
            feeds.retain(|feed| feed.strong_count() > 0);
            !feeds.is_empty()
        });
        all.entry((pool, lane)).or_default().push(Arc::downgrade(&counted));
        counted
    }

    /// The numbers of its consumers that are not cancelled, and of the others that are counted.
    pub(super) fn count(&self, pool: PoolId, lane: &str) -> (u32, u32) {
        let all = lock(&self.0);
        let feeds = all.get(&(pool, lane.to_owned())).into_iter().flatten();
        let counts = feeds.filter_map(Weak::upgrade).map(|feed| feed.count());
        counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1))
    }
}

/// How many of the broker's consumers a pool accounts for by this report, by lane; those of solo
/// runs apart. A consumer is its own if the report has its name; a cancelled one gets no jobs any
/// more, and has none.
pub(super) fn accounted(
    queues: &[PoolQueue],
    count: impl Fn(&str) -> (u32, u32),
) -> BTreeMap<String, u32> {
    let mut accounted = BTreeMap::new();
    for PoolQueue { queue, consumers, .. } in queues {
        let others = routing_key::other_lanes(queue).into_iter();
        for key in [queue.clone(), Names::solo_key(queue)].into_iter().chain(others) {
            let is_listed = consumers.iter().any(|name| name.ends_with(&format!(".{key}")));
            let (current, cancelled) = count(&key);
            accounted.insert(key, if is_listed { current + cancelled } else { cancelled });
        }
    }
    accounted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumers_are_those_of_their_pool_and_queue() {
        let (pools, pool) = (CountedOfPools::default(), PoolId::new());
        let feed = pools.begin(pool, "mail".to_owned());
        assert_eq!(pools.count(pool, "mail"), (0, 0));
        feed.begin("a");
        feed.add_cancelled(|| true);
        assert_eq!(pools.count(pool, "mail"), (1, 1));
        assert_eq!(pools.count(pool, "mail@solo"), (0, 0));
        assert_eq!(pools.count(PoolId::new(), "mail"), (0, 0));
        drop(feed);
        assert_eq!(pools.count(pool, "mail"), (0, 0));
    }

    #[test]
    fn a_pool_accounts_for_what_it_reports() {
        let (both, together, alone) = (
            &["jobq.1.mail", "jobq.1.mail@solo"][..],
            &["jobq.1.mail"][..],
            &["jobq.1.mail@solo"][..],
        );
        for (names, counted, counted_solo, expected) in [
            (both, (1, 0), (1, 0), (1, 1)),
            (both, (1, 2), (0, 0), (3, 0)),
            (together, (1, 0), (1, 0), (1, 0)),
            (alone, (1, 0), (1, 1), (0, 2)),
            (&[][..], (1, 0), (1, 0), (0, 0)),
            (&[][..], (1, 2), (1, 1), (2, 1)),
        ] {
            let mut queue = PoolQueue::new("mail", 1);
            queue.consumers = names.iter().map(|name| (*name).to_owned()).collect();
            let count = |key: &str| match key {
                "mail" => counted,
                "mail@solo" => counted_solo,
                _ => (1, 3),
            };
            let found = accounted(&[queue], count);
            assert_eq!((found["mail"], found["mail@solo"]), expected, "{names:?}");
            assert_eq!((found["mail@high"], found["mail@low"]), (3, 3), "only those cancelled");
        }
    }
}
