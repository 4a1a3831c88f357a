use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::engine::{Activity, Administer, Answers, Ask, Figure, Pause, PoolId, Question, Reply};
use crate::error::{Error, ErrorKind, Result};

/// How long pools have to stop taking jobs.
const PATIENCE: Duration = Duration::from_millis(2_500);
/// When pools are told again: on a cluster, two nodes may see a pause at different moments.
const AGAIN: Duration = Duration::from_secs(1);
/// The pause between two looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// The most characters of a reason.
const REASON: usize = 500;

/// A queue that was paused, from [`Admin::pause`](super::Admin::pause).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Paused {
    /// The queue.
    pub queue: String,
    /// Since when, by whom and why.
    #[serde(flatten)]
    pub record: Pause,
    /// The pools that answered and take none of its jobs.
    pub stopped: Vec<PoolId>,
    /// Pools that still take jobs, and consumers that belong to no pool that answered. Unknown if
    /// the broker cannot count the consumers.
    pub still_taking: Figure<u32>,
}

/// A queue that was resumed, from [`Admin::resume`](super::Admin::resume).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Resumed {
    /// The queue.
    pub queue: String,
    /// Whether it was paused.
    pub was_paused: bool,
}

/// Refuses a reason that is too long to be shown beside a queue.
pub(super) fn check_reason(why: &str) -> Result<()> {
    match why.chars().count() {
        0..=REASON => Ok(()),
        count => Err(Error::invalid(format!(
            "the reason of a pause has {count} characters: expected at most {REASON}; shorten it"
        ))),
    }
}

/// Pauses a queue and waits until its pools take no more jobs.
pub(super) async fn pause(engine: &dyn Administer, queue: &str, record: &Pause) -> Result<Paused> {
    let Pause { by: actor, why, .. } = record;
    let paused = engine.pause(queue, record).await;
    let is_finished = paused.is_ok();
    tracing::info!(
        target: "jobq::audit",
        actor, action = "pause", queue, why, is_finished,
        "queue paused"
    );
    paused?;
    let start = Instant::now();
    let (mut told, mut is_told_again) = (start, false);
    loop {
        let ask = Ask::all(Question::Report, vec![queue.to_owned()], BETWEEN_LOOKS * 5);
        let answers = engine.ask(ask).await;
        let is_asked = answers.is_ok();
        let (stopped, still_taking) = match answers {
            Ok(answers) => takers(queue, answers),
            // It is paused nevertheless.
            Err(error) => (Vec::new(), Figure::unknown(error.to_string())),
        };
        let over = still_taking == 0 && is_told_again;
        if over || !is_asked || start.elapsed() >= PATIENCE {
            let (queue, record) = (queue.to_owned(), record.clone());
            return Ok(Paused { queue, record, stopped, still_taking });
        }
        if told.elapsed() >= AGAIN {
            // An error changes nothing: the queue is paused.
            if let Ok(false) = engine.repeat_pause(queue, record).await {
                return Err(resumed_meanwhile(queue));
            }
            (told, is_told_again) = (Instant::now(), true);
        }
        sleep(BETWEEN_LOOKS).await;
    }
}

fn resumed_meanwhile(queue: &str) -> Error {
    let text = format!(
        "queue `{queue}` is not paused: another call resumed it before its pools had confirmed the \
         pause; pause it again if needed"
    );
    Error::new(ErrorKind::Conflict, text)
}

/// Resumes a queue.
pub(super) async fn resume(engine: &dyn Administer, queue: &str, actor: &str) -> Result<Resumed> {
    let was_paused = engine.resume(queue).await;
    let is_finished = was_paused.is_ok();
    tracing::info!(
        target: "jobq::audit",
        actor, action = "resume", queue, is_finished,
        "queue resumed"
    );
    Ok(Resumed { queue: queue.to_owned(), was_paused: was_paused? })
}

/// The pools that take no jobs of a queue, and the number of pools and consumers that may.
fn takers(queue: &str, mut answers: Answers) -> (Vec<PoolId>, Figure<u32>) {
    let unanswered = answers.unaccounted.remove(queue);
    let mut taking =
        unanswered.unwrap_or_else(|| Figure::unknown("its consumers were not counted"));
    let mut stopped = Vec::new();
    for (pool, reply) in answers.replies {
        let Reply::Report(report) = reply else { continue };
        let Some(report) = report.queue(queue) else { continue };
        match report.state {
            Activity::Paused | Activity::Quiet | Activity::Ended => stopped.push(pool),
            _ => taking = taking.map(|taking| taking + 1),
        }
    }
    (stopped, taking)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::SystemTime;

    use async_trait::async_trait;

    use super::*;
    use crate::engine::{Counts, PoolQueue, PoolReport, QueueSpec, Visit, Visited};

    /// An engine without pools that counts how often they are told of a pause.
    #[derive(Debug, Default)]
    struct Telling {
        told: AtomicU32,
        is_resumed: bool,
    }

    #[async_trait]
    impl Administer for Telling {
        async fn pause(&self, _: &str, _: &Pause) -> Result<()> {
            self.told.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        async fn repeat_pause(&self, _: &str, _: &Pause) -> Result<bool> {
            self.told.fetch_add(1, Ordering::Relaxed);
            Ok(!self.is_resumed)
        }

        async fn ask(&self, ask: Ask) -> Result<Answers> {
            let unaccounted = ask.queues.into_iter().map(|queue| (queue, Figure::Known(0)));
            Ok(Answers::new(Vec::new(), unaccounted.collect()))
        }

        async fn counts(&self, _: &str) -> Result<Counts> {
            Ok(Counts::new(0, 0, 0))
        }

        async fn failed_visit(&self, _: &str, _: Visit) -> Result<Visited> {
            Ok(Visited::new())
        }

        async fn unsubscribe(&self, _: &str, _: &str) -> Result<()> {
            Ok(())
        }

        async fn delete(&self, _: &QueueSpec, _: bool) -> Result<u64> {
            Ok(0)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pools_are_told_again_before_it_is_said_that_none_takes_jobs() {
        let (engine, start) = (Telling::default(), Instant::now());
        let paused = pause(&engine, "mail", &Pause::default()).await.unwrap();
        assert!(paused.still_taking == 0 && paused.stopped.is_empty(), "{paused:?}");
        assert_eq!(engine.told.into_inner(), 2);
        assert!((AGAIN..PATIENCE).contains(&start.elapsed()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_that_is_ended_meanwhile_is_an_error() {
        let engine = Telling { is_resumed: true, ..Telling::default() };
        let error = pause(&engine, "mail", &Pause::default()).await.unwrap_err();
        assert!(error.is_conflict() && error.to_string().contains("`mail`"), "{error}");
    }

    #[test]
    fn a_reason_has_at_most_500_characters() {
        for (why, is_taken) in
            [(String::new(), true), ("é".repeat(500), true), ("é".repeat(501), false)]
        {
            let refused = check_reason(&why).err();
            assert_eq!(refused.is_none(), is_taken, "{refused:?}");
            assert!(refused.is_none_or(
                |error| error.is_invalid() && error.to_string().contains("has 501 characters")
            ));
        }
    }

    #[test]
    fn who_does_not_say_that_it_is_paused_still_takes_jobs() {
        let report = |state, queue: &str| {
            let queue = PoolQueue { state, ..PoolQueue::new(queue, 1) };
            let pool = PoolId::new();
            let report = PoolReport::new(pool, "a".into(), SystemTime::UNIX_EPOCH, vec![queue]);
            (pool, Reply::Report(report))
        };
        let replies = vec![
            report(Activity::Paused, "mail"),
            report(Activity::Consuming, "mail"),
            report(Activity::Interrupted, "mail"),
            report(Activity::Quiet, "mail"),
            report(Activity::Consuming, "other"),
            (PoolId::new(), Reply::Accepted),
        ];
        let expected = vec![replies[0].0, replies[3].0];
        for (consumers, still) in [
            (Some(Figure::Known(0)), Some(2)),
            (Some(Figure::Known(3)), Some(5)),
            (Some(Figure::unknown("no leader")), None),
            (None, None),
        ] {
            let unaccounted: BTreeMap<_, _> =
                consumers.into_iter().map(|count| ("mail".to_owned(), count)).collect();
            let answers = Answers::new(replies.clone(), unaccounted);
            let (mut stopped, taking) = takers("mail", answers);
            stopped.sort();
            let mut expected = expected.clone();
            expected.sort();
            assert_eq!((stopped, taking.known().copied()), (expected, still));
        }
    }
}
