//! What a job function can ask for instead of a retry.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use jobq::{BoxError, FailedReason, JobContext, JobId, State, WorkerPool, job};
use jobq_tests::both_engines;
use jobq_tests::test_store::{Store, soon, until};
use tokio::sync::mpsc;

both_engines!(controls_keep_their_meaning_however_they_are_wrapped);

#[derive(Debug, thiserror::Error)]
enum MailError {
    #[error("no such address")]
    NoAddress,
    #[error(transparent)]
    Control(#[from] jobq::Control),
    #[error("while sending")]
    Sending(#[source] jobq::Control),
}

fn control(how: &str) -> jobq::Control {
    match how {
        "abort" => jobq::abort("give up"),
        "retry" => jobq::retry_in(Duration::ZERO, "again"),
        _ => jobq::snooze(Duration::ZERO),
    }
}

macro_rules! wrapped {
    ($function:ident, $type:ident, $result:ty, $how:ident => $body:expr) => {
        #[job(queue = "wrapped", retries = 1)]
        async fn $function(
            $how: String,
            ctx: JobContext,
            told: State<mpsc::UnboundedSender<(JobId, u32)>>,
        ) -> $result {
            let _ = told.send((ctx.id(), ctx.attempt()));
            $body
        }
    };
}

wrapped!(bare, Bare, Result<(), jobq::Control>, how => Err(control(&how)));

wrapped!(boxed, Boxed, Result<(), BoxError>, how => Err(control(&how))?);

wrapped!(from, From, Result<(), MailError>, how => {
    if how.is_empty() { return Err(MailError::NoAddress) }
    Err(control(&how))?
});

wrapped!(source, Source, Result<(), MailError>, how => Err(MailError::Sending(control(&how))));

wrapped!(any, Any, anyhow::Result<()>, how => {
    use anyhow::Context as _;
    Err::<(), _>(control(&how)).context("sending").context("welcoming")
});

async fn controls_keep_their_meaning_however_they_are_wrapped(store: Store) {
    let client = store.client().await;
    let (tell, mut told) = mpsc::unbounded_channel::<(JobId, u32)>();
    let pool = WorkerPool::new(&client).state(tell);
    let pool = pool.register::<Bare>().register::<Boxed>().register::<From>();
    let running = pool.register::<Source>().register::<Any>().spawn().await.unwrap();
    let failed = client.failed("wrapped");
    for (how, expected) in [
        ("abort", Some((1, FailedReason::Aborted))),
        ("retry", Some((2, FailedReason::Exhausted))),
        ("snooze", None),
    ] {
        let how = || how.to_owned();
        let ids: HashSet<JobId> = [
            client.enqueue(Bare { how: how() }).await.unwrap(),
            client.enqueue(Boxed { how: how() }).await.unwrap(),
            client.enqueue(From { how: how() }).await.unwrap(),
            client.enqueue(Source { how: how() }).await.unwrap(),
            client.enqueue(Any { how: how() }).await.unwrap(),
        ]
        .into();
        let Some(expected) = expected else {
            // Each runs again and again, always as its first attempt.
            let mut runs = HashMap::<JobId, u32>::new();
            while runs.len() < ids.len() || runs.values().any(|runs| *runs < 3) {
                let (id, attempt) = soon("the next run", told.recv()).await.unwrap();
                if ids.contains(&id) {
                    assert_eq!(attempt, 1);
                    *runs.entry(id).or_default() += 1;
                }
            }
            break;
        };
        let jobs = until("all to fail", || async {
            failed.list(10).await.ok().filter(|jobs| jobs.len() == ids.len())
        })
        .await;
        for job in jobs {
            assert!(ids.contains(&job.id()));
            assert_eq!((job.attempts(), job.reason()), expected, "{}", job.name());
        }
        failed.purge().await.unwrap();
    }
    running.shutdown().await.unwrap();
}
