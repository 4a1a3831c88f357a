//! The number of jobs in a queue, as far as the broker reports it.

use std::time::Duration;

use lapin::Channel;
use tokio::time::{Instant, sleep};

use crate::engine::{Counts, Read};
use crate::error::Result;
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::connection::channel::open;
use crate::rabbitmq::connection::epoch::Up;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::passive::{Absent, Figures};
use crate::rabbitmq::topology::requirements::Wanted;

/// How long a look at failed jobs by another client is waited for.
const LOOK: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

const NOT_LISTED: &str = "this client has declared no job of the queue, and the management API does \
     not list it: the queue is new, or its user may not see it";

/// The tiers of a queue and whether it has a solo queue: those that this client has declared, and
/// those that exist.
pub(crate) fn parts(declared: Option<Wanted>, listed: Read<Option<Wanted>>) -> Read<Wanted> {
    match (declared, listed) {
        (Some(mut declared), listed) => {
            declared.add(listed.known().cloned().flatten().unwrap_or_default());
            Read::Known(declared)
        }
        (None, Read::Known(Some(listed))) => Read::Known(listed),
        (None, Read::Known(None)) => Read::unknown(NOT_LISTED),
        (None, Read::Unknown(why)) => Read::Unknown(why),
    }
}

/// Counts the jobs of a queue in these parts, each by a passive declaration.
pub(crate) async fn counts(
    broker: &Broker,
    names: &Names,
    absent: &Absent,
    queue: &str,
    parts: Read<Wanted>,
) -> Result<Counts> {
    let up = broker.up().await?;
    let mut channel = open(&up).await?;
    let work = absent.figures(&up, &mut channel, &names.work(queue)).await?;
    // A missing queue has no waiting jobs.
    let mut waiting = match (&parts, &work) {
        (Read::Unknown(why), Some(_)) => Read::Unknown(why.clone()),
        _ => Read::Known(0),
    };
    let parts = parts.known().cloned().unwrap_or_default();
    if let Some(tiers) = parts.queues.get(queue) {
        let tiers = tiers.iter().map(|millis| names.tier(queue, *millis));
        for place in tiers.chain([names.due(queue)]) {
            let more = ready_in(absent.figures(&up, &mut channel, &place).await?);
            waiting = waiting.zip(more, |sum, more| sum + more);
        }
    }
    let mut ready = ready_in(work);
    // Only pools declare it, and looking for a missing one costs a channel number.
    if parts.solo.contains(queue) {
        let solo = ready_in(absent.figures(&up, &mut channel, &names.solo(queue)).await?);
        ready = ready.zip(solo, |ready, solo| ready + solo);
    }
    let failed = failed_in(&up, &mut channel, absent, &names.failed(queue)).await?;
    let mut counts = Counts::new(0, 0, 0);
    (counts.ready, counts.waiting, counts.failed) = (ready, waiting, failed);
    Ok(counts)
}

/// The number of ready messages of a queue. One that does not exist has none.
fn ready_in(figures: Option<Read<Figures>>) -> Read<u64> {
    figures.map_or(Read::Known(0), |read| read.map(|figures| figures.ready))
}

/// The number of failed jobs. The broker does not count those that another client looks at.
async fn failed_in(
    up: &Up,
    channel: &mut Channel,
    absent: &Absent,
    queue: &str,
) -> Result<Read<u64>> {
    let start = Instant::now();
    loop {
        let figures = absent.figures(up, channel, queue).await?;
        match figures {
            Some(Read::Known(Figures { consumers: 1.., .. })) => {}
            figures => return Ok(ready_in(figures)),
        }
        if start.elapsed() >= LOOK {
            return Ok(Read::unknown("a client is looking at the failed jobs"));
        }
        sleep(BETWEEN_LOOKS).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::QueueSpec;

    #[test]
    fn what_a_client_declared_and_what_exists_make_the_parts_of_a_queue() {
        let with = |seconds: &[u64]| {
            let waits = seconds.iter().map(|seconds| Duration::from_secs(*seconds));
            Wanted::queues(&[QueueSpec::new("mail").waits(waits)])
        };
        let solo = || Wanted::queues(&[QueueSpec::new("mail").solo()]);
        let both = |mut one: Wanted, other| {
            one.add(other);
            one
        };
        let table = [
            (None, Read::unknown("no URL"), Read::unknown("no URL")),
            (None, Read::Known(None), Read::unknown(NOT_LISTED)),
            (None, Read::Known(Some(with(&[7]))), Read::Known(with(&[7]))),
            // What this client declared is there, whatever the management API says.
            (Some(with(&[7])), Read::unknown("status 500"), Read::Known(with(&[7]))),
            (Some(with(&[7])), Read::Known(None), Read::Known(with(&[7]))),
            (Some(with(&[7])), Read::Known(Some(with(&[9]))), Read::Known(with(&[7, 9]))),
            (Some(with(&[7])), Read::Known(Some(solo())), Read::Known(both(with(&[7]), solo()))),
        ];
        for (declared, listed, expected) in table {
            assert_eq!(
                parts(declared.clone(), listed.clone()),
                expected,
                "{declared:?} {listed:?}"
            );
        }
    }
}
