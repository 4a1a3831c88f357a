//! The number of jobs in a queue, as far as the broker reports it.

use std::time::Duration;

use lapin::Channel;
use tokio::time::{Instant, sleep};

use crate::engine::{Counts, Read};
use crate::error::Result;
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::connection::channel::open;
use crate::rabbitmq::connection::epoch::Up;
use crate::rabbitmq::topology::declared::Declared;
use crate::rabbitmq::topology::passive::{Absent, Figures};

/// How long a look at failed jobs by another client is waited for.
const LOOK: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Counts the jobs of a queue.
pub(crate) async fn counts(
    broker: &Broker,
    known: &Declared,
    absent: &Absent,
    queue: &str,
) -> Result<Counts> {
    let up = broker.up().await?;
    let mut channel = open(&up).await?;
    let names = known.names();
    let mut waiting = Read::Known(0);
    let tiers = known.tiers(queue);
    if let Some(tiers) = &tiers {
        let tiers = tiers.iter().map(|millis| names.tier(queue, *millis));
        for place in tiers.chain([names.due(queue)]) {
            let more = ready_in(absent.figures(&up, &mut channel, &place).await?);
            waiting = waiting.zip(more, |sum, more| sum + more);
        }
    }
    let work = absent.figures(&up, &mut channel, &names.work(queue)).await?;
    // A missing queue has no waiting jobs.
    if tiers.is_none() && work.is_some() {
        waiting = Read::unknown(
            "this client has declared no job of the queue and does not know its tiers",
        );
    }
    let mut ready = ready_in(work);
    // Only pools declare it, and looking for a missing one costs a channel number.
    if known.part(queue).is_some_and(|wanted| wanted.solo.contains(queue)) {
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
