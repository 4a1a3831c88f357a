//! jobq, as its users call it: the same program on both engines.

use std::sync::Arc;
use std::time::Instant;

use jobq::{BoxError, Client, JobContext, RunningPool, State, WorkerPool};

use crate::case::Case;
use crate::gauge::Gauge;
use crate::jobs::{Done, Work, pace};
use crate::kinds;
use crate::sample::Sample;
use crate::scenario::{CALLERS, Scenario};

pub(crate) async fn run(case: &Case, url: &str) -> anyhow::Result<Sample> {
    let Case { scenario, jobs, .. } = *case;
    let client = Client::connect(url).await?;
    client.declare::<Work>().await?;
    let done = Done::new(case);
    let measured = match scenario {
        Scenario::Enqueue => {
            let gauge = Gauge::start()?;
            by_callers(&client, &done, jobs).await?;
            gauge.read(jobs)?
        }
        Scenario::EnqueueAll => {
            let gauge = Gauge::start()?;
            match case.shape.types {
                1 => drop(client.enqueue_all((0..jobs).map(|_| done.job())).await?),
                types => kinds::fill(url, &done, jobs, types).await?,
            }
            gauge.read(jobs)?
        }
        Scenario::Drain | Scenario::Retry => {
            let pool = pool(&client, &done, case).await?;
            let sample = done.gauge().await?;
            pool.shutdown().await?;
            sample
        }
        Scenario::Both => {
            let pool = pool(&client, &done, case).await?;
            let gauge = Gauge::start()?;
            by_callers(&client, &done, jobs).await?;
            done.all().await;
            let sample = gauge.read(jobs)?;
            pool.shutdown().await?;
            sample
        }
        Scenario::Latency => {
            let pool = pool(&client, &done, case).await?;
            let (gauge, begin) = (Gauge::start()?, Instant::now());
            for number in 0..jobs {
                pace(begin, number).await;
                let (client, job) = (client.clone(), done.job());
                tokio::spawn(async move { client.enqueue(job).await.expect("it is accepted") });
            }
            done.all().await;
            let sample = Sample { latency: done.latency(), ..gauge.read(jobs)? };
            pool.shutdown().await?;
            sample
        }
    };
    client.close().await;
    Ok(measured)
}

async fn pool(client: &Client, done: &Arc<Done>, case: &Case) -> anyhow::Result<RunningPool> {
    let pool = WorkerPool::new(client).state(Arc::clone(done));
    let pool = pool.concurrency(case.shape.concurrency);
    let pool = match (case.scenario, case.shape.types) {
        (Scenario::Retry, _) => pool.handle(fail_once),
        (_, 1) => pool.register::<Work>(),
        (_, types) => kinds::register(pool, types),
    };
    Ok(pool.spawn().await?)
}

async fn fail_once(job: Work, ctx: JobContext, done: State<Arc<Done>>) -> Result<(), BoxError> {
    if ctx.attempt() == 1 {
        return Err("the first attempt".into());
    }
    done.ran(job.at);
    Ok(())
}

async fn by_callers(client: &Client, done: &Arc<Done>, jobs: u32) -> anyhow::Result<()> {
    let callers = u32::try_from(CALLERS)?;
    let calling = (0..callers).map(|caller| {
        let (client, done) = (client.clone(), Arc::clone(done));
        let share = jobs / callers + u32::from(caller < jobs % callers);
        tokio::spawn(async move {
            for _ in 0..share {
                client.enqueue(done.job()).await?;
            }
            jobq::Result::<()>::Ok(())
        })
    });
    for caller in calling.collect::<Vec<_>>() {
        caller.await??;
    }
    Ok(())
}
