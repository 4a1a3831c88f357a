//! Hands back the jobs that wait behind long ones while another pool has a free slot for them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::queue::Queue;
use crate::engine::{Activity, Ask, PoolQueue, Question};

/// The time between two looks at what waits. A job that waits at two looks waits too long.
const LOOK: Duration = Duration::from_secs(5);
/// The most time between two questions to other pools that have no free slot.
const MOST: Duration = Duration::from_secs(60);
/// How long the answers of other pools are waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Looks after the jobs of a queue that wait for a slot, until the pool ends.
pub(super) async fn watch(queue: Arc<Queue>) {
    let mut pause = LOOK;
    loop {
        sleep(pause).await;
        if !queue.look_if_stuck() {
            pause = LOOK;
        } else if have_others_room(&queue).await {
            let jobs = queue.hand_back();
            if jobs > 0 {
                tracing::info!(
                    queue = queue.name,
                    jobs,
                    "jobs waiting behind long ones returned to the queue; another pool has a free \
                     slot"
                );
            }
            pause = LOOK;
        } else {
            pause = MOST.min(2 * pause);
        }
    }
}

/// Whether another pool has a free slot for the jobs of the queue.
async fn have_others_room(queue: &Queue) -> bool {
    let engine = queue.pool.resources.client.engine();
    let (Some(own), Some(administer)) = (queue.pool.joined(), engine.administer()) else {
        return false;
    };
    let ask = Ask::all(Question::Report, vec![queue.name.to_owned()], PATIENCE);
    let answers = match administer.ask(ask).await {
        Ok(answers) => answers,
        Err(error) => {
            tracing::debug!(queue = queue.name, %error, "could not ask other pools for free slots");
            return false;
        }
    };
    let mut others = answers.reports().filter(|report| report.pool != own);
    others.any(|report| report.queue(queue.name).is_some_and(has_room))
}

/// Whether a pool has a free slot for the jobs of a queue.
fn has_room(theirs: &PoolQueue) -> bool {
    theirs.state == Activity::Consuming
        && theirs.in_flight.saturating_add(theirs.lost_slots) < theirs.slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_that_takes_jobs_has_room_in_its_free_slots() {
        for (state, in_flight, lost_slots, expected) in [
            (Activity::Consuming, 0, 0, true),
            (Activity::Consuming, 1, 0, true),
            (Activity::Consuming, 1, 1, false),
            (Activity::Consuming, 2, 0, false),
            (Activity::Consuming, 3, u32::MAX, false),
            (Activity::Interrupted, 0, 0, false),
            (Activity::Resting, 0, 0, false),
            (Activity::Paused, 0, 0, false),
            (Activity::Quiet, 0, 0, false),
            (Activity::Ended, 0, 0, false),
        ] {
            let mut theirs = PoolQueue::new("mail", 2);
            (theirs.state, theirs.in_flight, theirs.lost_slots) = (state, in_flight, lost_slots);
            assert_eq!(has_room(&theirs), expected, "{theirs:?}");
        }
    }
}
