//! A program that does what each line of its input says, and answers each with a line. The tests of
//! mixed versions compile it twice: with this jobq, and with an earlier one.
//!
//! Arguments: URL, namespace. It logs to standard error, and ends with its input.

use std::io::{BufRead as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, SystemTime};

use jobq::admin::{Filter, Order, Queues};
use jobq::engine::{Engine, Verdict};
use jobq::{BoxError, Client, JobContext, JobId, RunningPool, State, WorkerPool, job};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const QUEUE: &str = "work";
/// How long answers of pools, and calls that are to fail, are waited for.
const SHORT: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(60);

/// The attempts that ran: the number of the job, and that of the attempt.
type Runs = Arc<Mutex<Vec<(u32, u32)>>>;

/// Fails as often as it says; with a `retry_in`, its retries pass through the delay levels.
#[job(retries = 1, delay = "200ms")]
async fn work(
    number: u32,
    failures: u32,
    retry_in: Option<u64>,
    ctx: JobContext,
    runs: State<Runs>,
) -> Result<(), BoxError> {
    runs.lock().unwrap_or_else(PoisonError::into_inner).push((number, ctx.attempt()));
    if number == HANGS {
        ctx.cancelled().await;
    }
    match retry_in {
        _ if ctx.attempt() > failures => Ok(()),
        Some(millis) => Err(jobq::retry_in(Duration::from_millis(millis), "not now"))?,
        None => Err("no".into()),
    }
}

/// The job of this number runs until it is cancelled.
const HANGS: u32 = 1_000;

/// A subscriber.
#[job(on = "mixed.*")]
async fn heard(number: u32, ctx: JobContext, runs: State<Runs>) -> Result<(), BoxError> {
    runs.lock().unwrap_or_else(PoisonError::into_inner).push((number, ctx.attempt()));
    Ok(())
}

/// A line of the input.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Command {
    Consume,
    Enqueue {
        number: u32,
        failures: u32,
        retry_in: Option<u64>,
        delay: u64,
    },
    Publish {
        number: u32,
        delay: u64,
    },
    Runs,
    Counts,
    /// The failed jobs, oldest first.
    Failed,
    RetryAll,
    RetryOnce,
    /// Retries all failed jobs at this rate.
    RetryAtRate {
        rate: f64,
    },
    Retry {
        id: JobId,
    },
    /// Looks at the failed jobs, and holds their lock until `release`.
    Hold,
    Release,
    /// A look at the failed jobs that waits for a moment alone.
    Look,
    Pools,
    Overview,
    Doctor,
    Pause,
    Resume,
    Order {
        pool: String,
        stops: bool,
    },
    Cancel {
        id: JobId,
    },
    DeclareDelays,
}

struct Program {
    client: Client,
    impatient: Client,
    engine: Arc<dyn Engine>,
    runs: Runs,
    pools: Vec<RunningPool>,
    held: Option<(mpsc::Sender<()>, JoinHandle<jobq::Result<()>>)>,
}

impl Program {
    async fn perform(&mut self, command: Command) -> Result<Value, BoxError> {
        let failed = self.client.failed(QUEUE);
        let admin = self.client.admin();
        Ok(match command {
            Command::Consume => {
                let pool = WorkerPool::new(&self.client).state(Arc::clone(&self.runs));
                self.pools.push(pool.register::<Work>().register::<Heard>().spawn().await?);
                Value::Null
            }
            Command::Enqueue { number, failures, retry_in, delay } => {
                let job = Work { number, failures, retry_in };
                json!(self.client.enqueue(job).delay(Duration::from_millis(delay)).await?)
            }
            Command::Publish { number, delay } => {
                let sending = self.client.publish("mixed.news", &number);
                sending.delay(Duration::from_millis(delay)).await?;
                Value::Null
            }
            Command::Runs => {
                let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
                json!(std::mem::take(&mut *runs))
            }
            Command::Counts => {
                let counts = self.client.counts(QUEUE).await?;
                json!([counts.ready, counts.waiting, counts.failed])
            }
            Command::Failed => {
                let jobs = failed.list(1_000).await?;
                let of = |job: &jobq::FailedJob| {
                    let operations = job.headers().get("jobq-operations");
                    json!({"id": job.id(), "operations": operations})
                };
                jobs.iter().map(of).collect()
            }
            Command::RetryAll => json!(failed.retry_all().await?),
            Command::RetryOnce => {
                let one = failed.retry_where(Filter::new()).canary(1).canary_patience(LONG);
                json!(one.await?)
            }
            Command::RetryAtRate { rate } => {
                json!(failed.retry_where(Filter::new()).rate(rate).await?)
            }
            Command::Retry { id } => json!(failed.retry(id).await?),
            Command::Hold => {
                let (held, mut holds) = tokio::sync::mpsc::channel(1);
                let (release, released) = mpsc::channel();
                let engine = Arc::clone(&self.engine);
                let visiting = tokio::spawn(async move {
                    let admin = engine.administer().expect("it has failed jobs");
                    let visit = move |_| {
                        let _ = held.try_send(());
                        let _ = released.recv();
                        Verdict::Keep
                    };
                    admin.failed_visit(QUEUE, Box::new(visit)).await?;
                    Ok(())
                });
                holds.recv().await.ok_or("nothing to look at")?;
                self.held = Some((release, visiting));
                Value::Null
            }
            Command::Release => {
                let (release, visiting) = self.held.take().ok_or("nothing is held")?;
                drop(release);
                visiting.await??;
                Value::Null
            }
            Command::Look => {
                let looked = self.impatient.failed(QUEUE).list(1).await;
                json!(looked.map_err(|error| format!("{:?}", error.kind())).err())
            }
            Command::Pools => serde_json::to_value(admin.pools(Queues::one(QUEUE), SHORT).await?)?,
            Command::Overview => {
                let mut overview = admin.overview(Queues::one(QUEUE)).await?;
                serde_json::to_value(overview.queues.pop())?
            }
            Command::Doctor => {
                let report = self.client.doctor().queue(QUEUE).await?;
                report.errors().map(ToString::to_string).collect()
            }
            Command::Pause => {
                admin.pause(QUEUE, "mixed").await?;
                Value::Null
            }
            Command::Resume => serde_json::to_value(admin.resume(QUEUE).await?.was_paused)?,
            Command::Order { pool, stops } => {
                let order = if stops { Order::Stop } else { Order::Quiet };
                admin.tell(pool.parse()?, order).await?;
                Value::Null
            }
            Command::Cancel { id } => {
                let cancelled = admin.cancel_running(id).await?;
                json!(cancelled.iter().map(|one| json!(one.cancel)).collect::<Vec<_>>())
            }
            Command::DeclareDelays => json!(self.client.declare_delays().await?),
        })
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [url, namespace] = &arguments[..] else { return Err("expected URL NAMESPACE".into()) };
    let client = |timeout| Client::builder(url).namespace(namespace).timeout(timeout).connect();
    let (client, impatient) = (client(LONG).await?, client(SHORT).await?);
    let engine = jobq::engine::conformance::open(url, namespace).await?;
    let mut program =
        Program { client, impatient, engine, runs: Runs::default(), pools: Vec::new(), held: None };
    for line in std::io::stdin().lock().lines() {
        let answer = program.perform(serde_json::from_str(&line?)?).await;
        let answer = answer.map_or_else(
            |error| json!({"error": error.to_string(), "at": SystemTime::now()}),
            |ok| json!({ "ok": ok }),
        );
        println!("{answer}");
        std::io::stdout().flush()?;
    }
    Ok(())
}
