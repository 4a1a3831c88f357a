//! A thousand types of jobs, which share one queue.

use std::sync::Arc;

use anyhow::ensure;
use jobq::engine::{Envelope, QueueSpec};
use jobq::{BoxError, Job, JobOptions, State, WorkerPool};
use serde::{Deserialize, Serialize};

use crate::jobs::{Done, Work};

const QUEUE: &str = "kinds";

/// One of the types; its digits make its name.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
struct Kind<const HUNDREDS: u16, const TENS: u16, const ONES: u16>(Work);

impl<const HUNDREDS: u16, const TENS: u16, const ONES: u16> Kind<HUNDREDS, TENS, ONES> {
    const NUMBER: u16 = 100 * HUNDREDS + 10 * TENS + ONES;
    const BYTES: [u8; 7] = [b'k', b'i', b'n', b'd', digit(HUNDREDS), digit(TENS), digit(ONES)];
}

/// A number from 0 to 9 as a character.
const fn digit(number: u16) -> u8 {
    b'0' + number.to_le_bytes()[0]
}

impl<const HUNDREDS: u16, const TENS: u16, const ONES: u16> Job for Kind<HUNDREDS, TENS, ONES> {
    const NAME: &'static str = match std::str::from_utf8(&Self::BYTES) {
        Ok(name) => name,
        Err(_) => panic!("digits are text"),
    };
    const OPTIONS: JobOptions = JobOptions::new().queue(QUEUE);
}

async fn run<const HUNDREDS: u16, const TENS: u16, const ONES: u16>(
    job: Kind<HUNDREDS, TENS, ONES>,
    done: State<Arc<Done>>,
) -> Result<(), BoxError> {
    done.ran(job.0.at);
    Ok(())
}

/// Goes through the ten digits.
macro_rules! digits {
    ($pool:ident, $digit:ident => $more:expr) => {
        digits!($pool, $digit => $more; 0 1 2 3 4 5 6 7 8 9)
    };
    ($pool:ident, $digit:ident => $more:expr; $($number:literal)*) => {
        $({
            const $digit: u16 = $number;
            $pool = $more;
        })*
    };
}

/// A pool that runs the first so many of them.
pub(crate) fn register(mut pool: WorkerPool, types: u16) -> WorkerPool {
    digits!(pool, HUNDREDS => hundred::<HUNDREDS>(pool, types));
    pool
}

fn hundred<const HUNDREDS: u16>(mut pool: WorkerPool, types: u16) -> WorkerPool {
    digits!(pool, TENS => ten::<HUNDREDS, TENS>(pool, types));
    pool
}

fn ten<const HUNDREDS: u16, const TENS: u16>(mut pool: WorkerPool, types: u16) -> WorkerPool {
    digits!(pool, ONES => one::<HUNDREDS, TENS, ONES>(pool, types));
    pool
}

fn one<const HUNDREDS: u16, const TENS: u16, const ONES: u16>(
    pool: WorkerPool,
    types: u16,
) -> WorkerPool {
    if Kind::<HUNDREDS, TENS, ONES>::NUMBER < types {
        pool.handle(run::<HUNDREDS, TENS, ONES>)
    } else {
        pool
    }
}

/// Enqueues so many jobs, each type in its turn.
pub(crate) async fn fill(url: &str, done: &Done, jobs: u32, types: u16) -> anyhow::Result<()> {
    let engine = jobq::engine::conformance::open(url, "jobq").await?;
    engine.declare(&[QueueSpec::new(QUEUE)]).await?;
    let mut envelopes = (0..jobs).map(|number| envelope(done, number % u32::from(types)));
    let not_pushed = engine.push_all(&mut envelopes).await;
    ensure!(not_pushed.is_empty(), "{not_pushed:?}");
    engine.close().await;
    Ok(())
}

fn envelope(done: &Done, kind: u32) -> Envelope {
    let payload = serde_json::to_vec(&done.job()).expect("a job is JSON");
    let mut envelope = Envelope::new(QUEUE, payload);
    envelope.name = Some(format!("kind{kind:03}").into());
    envelope
}
