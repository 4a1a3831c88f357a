//! Where the jobs of a queue are, as far as the broker reports it.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::engine::{Counts, Figure, Part, Place};
use crate::error::Result;
use crate::rabbitmq::connection::broker::Broker;
use crate::rabbitmq::connection::epoch::ConnectionEpoch;
use crate::rabbitmq::topology::lookup::{Figures, MissingQueues, ready_in_all};
use crate::rabbitmq::topology::memory::Declared;
use crate::rabbitmq::topology::requirements::Wanted;

/// How long a look at failed jobs by another client is waited for.
const LOOK: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

const NOT_LISTED: &str = "this client has not declared the queue, and the management API does not \
     list it: the queue is new, or the API's user may not see it";

/// The tiers of a queue and whether it has a solo queue: those that this client has declared, and
/// those that exist.
pub(crate) fn places(declared: Option<Wanted>, listed: Figure<Option<Wanted>>) -> Figure<Wanted> {
    match (declared, listed) {
        (Some(mut declared), listed) => {
            declared.add(listed.known().cloned().flatten().unwrap_or_default());
            Figure::Known(declared)
        }
        (None, Figure::Known(Some(listed))) => Figure::Known(listed),
        (None, Figure::Known(None)) => Figure::unknown(NOT_LISTED),
        (None, Figure::Unknown(why)) => Figure::Unknown(why),
    }
}

/// Counts the jobs of a queue in these places, each by a passive declaration.
pub(crate) async fn parts(
    broker: &Broker,
    known: &Declared,
    queue: &str,
    places: Figure<Wanted>,
) -> Result<Vec<Part>> {
    let (names, absent) = (known.names(), &known.absent);
    let up = broker.up().await?;
    let work = absent.figures(&up, &names.work(queue)).await?;
    let (is_missing, work) = (work.is_none(), ready_in(work));
    let mut parts = vec![Part::new(Place::Ready, work)];
    match places {
        Figure::Known(places) => {
            // Only pools declare it, and looking for a missing one costs a channel number.
            if places.solo.contains(queue) {
                let solo = absent.figures(&up, &names.solo(queue)).await?;
                parts.push(Part::new(Place::Solo, ready_in(solo)));
            }
            for millis in places.queues.get(queue).iter().flat_map(|tiers| tiers.iter()) {
                let tier = absent.figures(&up, &names.tier(queue, *millis)).await?;
                parts.push(Part::new(Place::Tier(Duration::from_millis(*millis)), ready_in(tier)));
            }
            let due = absent.figures(&up, &names.due(queue)).await?;
            parts.push(Part::new(Place::Due, ready_in(due)));
        }
        Figure::Unknown(_) if is_missing => parts.push(Part::new(Place::Waiting, 0)),
        Figure::Unknown(why) => parts.push(Part::new(Place::Waiting, Figure::Unknown(why))),
    }
    let failed = failed_in(&up, absent, &names.failed(queue)).await?;
    parts.push(Part::new(Place::Failed, failed));
    if is_missing && Counts::from_parts(&parts).is_empty() {
        parts.clear();
    }
    Ok(parts)
}

/// The level queues: those that exist, as far as they are listed, and those that this client has
/// declared.
pub(crate) async fn levels(
    broker: &Broker,
    known: &Declared,
    listed: Figure<Vec<String>>,
) -> Result<Figure<BTreeSet<String>>> {
    let mut levels = known.levels();
    match listed {
        Figure::Known(listed) => levels.extend(listed),
        Figure::Unknown(why) if levels.is_empty() => {
            if known.absent.has_exchange(&*broker.up().await?, &known.names().level(0)).await? {
                return Ok(Figure::Unknown(why));
            }
        }
        Figure::Unknown(_) => {}
    }
    Ok(Figure::Known(levels))
}

/// Counts the jobs in level queues. The highest level comes first: a job that moves on meanwhile is
/// counted again.
pub(crate) async fn in_levels(broker: &Broker, levels: BTreeSet<String>) -> Result<Figure<u64>> {
    if levels.is_empty() {
        return Ok(Figure::Known(0));
    }
    ready_in_all(&*broker.up().await?, levels.into_iter().rev().collect()).await
}

/// The number of ready messages of a queue. One that does not exist has none.
fn ready_in(figures: Option<Figure<Figures>>) -> Figure<u64> {
    figures.map_or(Figure::Known(0), |read| read.map(|figures| figures.ready))
}

/// The number of failed jobs. The broker does not count those that another client looks at.
async fn failed_in(
    up: &ConnectionEpoch,
    absent: &MissingQueues,
    queue: &str,
) -> Result<Figure<u64>> {
    let start = Instant::now();
    loop {
        let figures = absent.figures(up, queue).await?;
        match figures {
            Some(Figure::Known(Figures { consumers: 1.., .. })) => {}
            figures => return Ok(ready_in(figures)),
        }
        if start.elapsed() >= LOOK {
            return Ok(Figure::unknown("a client is reading the failed jobs"));
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
            (None, Figure::unknown("no URL"), Figure::unknown("no URL")),
            (None, Figure::Known(None), Figure::unknown(NOT_LISTED)),
            (None, Figure::Known(Some(with(&[7]))), Figure::Known(with(&[7]))),
            // What this client declared is there, whatever the management API says.
            (Some(with(&[7])), Figure::unknown("status 500"), Figure::Known(with(&[7]))),
            (Some(with(&[7])), Figure::Known(None), Figure::Known(with(&[7]))),
            (Some(with(&[7])), Figure::Known(Some(with(&[9]))), Figure::Known(with(&[7, 9]))),
            (
                Some(with(&[7])),
                Figure::Known(Some(solo())),
                Figure::Known(both(with(&[7]), solo())),
            ),
        ];
        for (declared, listed, expected) in table {
            assert_eq!(
                places(declared.clone(), listed.clone()),
                expected,
                "{declared:?} {listed:?}"
            );
        }
    }
}
