use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use jobq::JobId;
use jobq::admin::text;
use jobq::admin::{
    Activity, ConcurrencySet, Figure, Order, PoolId, PoolQueue, PoolRelay, PoolReport, Pools,
    RefusedOrder, RelayActivity, RunningJob,
};
use serde::Serialize;
use serde_json::json;

use super::queues::selection;
use crate::end::{End, Ended};
use crate::options::Options;
use crate::output::colour::Style;
use crate::output::table::{Align, Cell, Table, visible};
use crate::output::time::since;
use crate::output::{Explained, Output};

/// The time that pools have to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// The offset of a clock that disturbs jobs with `expires`, in milliseconds.
const LARGE_OFFSET: u64 = 1_000;

/// Show worker pools and their running jobs, or control a pool
///
/// SLOTS shows the number of running attempts and the maximum at once. Lost slots are functions
/// that did not end at their timeout or cancellation; jobs taken `ahead` wait for a slot of the
/// pool. Below its queue, each running attempt has a line: the job, its id, the attempt, its run
/// time and its timeout. `slot lost` marks attempts that hold lost slots. `clock` shows how far the
/// clock of a pool is ahead of the clock of this machine, if the difference is more than the round
/// trip explains. A relay has its table in the column QUEUE, and its rows in SLOTS.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    order: Option<PoolOrder>,
    /// Show only the pools of these queues; all pools by default
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,
}

#[derive(Debug, Subcommand)]
enum PoolOrder {
    /// Stop a pool from taking jobs. Running jobs continue, and the pool stays up
    Quiet {
        /// Id of the pool
        pool: PoolId,
    },
    /// Shut down a pool, as SIGTERM does
    Stop {
        /// Id of the pool
        pool: PoolId,
    },
    /// Change how many jobs of a queue each running pool runs at once
    ///
    /// The change lasts until the pool ends. A pool that starts later uses the concurrency in its code.
    /// Running jobs continue: a pool above the new limit starts the next job when enough have ended.
    Set {
        /// Name of the queue
        queue: String,
        /// Jobs that a pool runs at once
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        concurrency: u16,
    },
}

pub(crate) async fn run(arguments: Arguments, options: &Options, output: Output) -> Ended {
    match arguments.order {
        Some(PoolOrder::Quiet { pool }) => tell(pool, Order::Quiet, options, output).await,
        Some(PoolOrder::Stop { pool }) => tell(pool, Order::Stop, options, output).await,
        Some(PoolOrder::Set { queue, concurrency }) => {
            set(&queue, concurrency, options, output).await
        }
        None => list(arguments.queues, options, output).await,
    }
}

async fn tell(pool: PoolId, order: Order, options: &Options, output: Output) -> Ended {
    let client = options.client().await?;
    options.admin(&client).tell(pool, order).await?;
    let document = json!({"pool": pool, "order": order.as_str()});
    output.answer(document, || format!("pool {pool} {}", text::order(order)))?;
    Ok(End::Done)
}

async fn set(queue: &str, concurrency: u16, options: &Options, output: Output) -> Ended {
    let client = options.client().await?;
    let set = options.admin(&client).set_concurrency(queue, concurrency).await?;
    let answer = SetAnswer { queue, concurrency, pools: &set };
    output.answer(Explained::new(&answer, "unaccounted", &set.unaccounted), || {
        outcome(queue, concurrency, &set)
    })?;
    Ok(if set.refused.is_empty() { End::Done } else { End::Refused })
}

/// The answer of `workers set`.
#[derive(Serialize)]
struct SetAnswer<'s> {
    queue: &'s str,
    concurrency: u16,
    #[serde(flatten)]
    pools: &'s ConcurrencySet,
}

/// The output of `workers set`.
fn outcome(queue: &str, concurrency: u16, set: &ConcurrencySet) -> String {
    let pools = set.pools.len();
    let mut text =
        format!("jobs of {queue} at once in each pool: {concurrency} (pools changed: {pools})");
    for RefusedOrder { pool, why, .. } in &set.refused {
        let _ = write!(text, "\npool {pool} was not changed: {why}");
    }
    match &set.unaccounted {
        Figure::Known(0) => {}
        Figure::Known(others) => {
            let _ = write!(text, "\n{others} consumers belong to no pool that answered");
        }
        Figure::Unknown(why) => {
            let _ =
                write!(text, "\ncannot tell whether other pools take jobs of this queue: {why}");
        }
    }
    text
}

async fn list(queues: Vec<String>, options: &Options, output: Output) -> Ended {
    let client = options.client().await?;
    let pools = client.admin().pools(selection(queues), PATIENCE).await?;
    let document = Explained::new(&pools, "unaccounted", &pools.unaccounted);
    output.listing(document, &table(&pools.pools, SystemTime::now()), notes(&pools))?;
    Ok(End::Done)
}

/// The columns of the table of pools, those first that an operator acts by.
pub(crate) const COLUMNS: [(&str, Align); 7] = [
    ("POOL", Align::Left),
    ("HOST:PID", Align::Left),
    ("QUEUE", Align::Left),
    ("STATE", Align::Left),
    ("SLOTS", Align::Left),
    ("VERSION", Align::Left),
    ("UP", Align::Right),
];

fn table(pools: &[PoolReport], now: SystemTime) -> Table {
    let rows = pools.iter().flat_map(|pool| rows(pool, now));
    Table::new(&COLUMNS, rows.map(|row| row.cells))
}

/// A row of the table of pools.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) pool: PoolId,
    /// The job of the row, if one runs.
    pub(crate) job: Option<JobId>,
    /// A text for each column, or the job alone.
    pub(crate) cells: Vec<Cell>,
}

/// The rows of a pool: one for each queue, and below it one for each job that runs, and one for each
/// relay. What a row
/// above says already is left out.
pub(crate) fn rows(pool: &PoolReport, now: SystemTime) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut of_pool = Some([
        Cell::from(pool.pool),
        process(pool),
        Cell::from(&pool.version),
        // By its own clock.
        Cell::from(since(pool.started_at, pool.reported_at.unwrap_or(now))),
    ]);
    for queue in &pool.queues {
        let [id, process, version, up] = of_pool.take().unwrap_or_else(empties);
        let name = Cell::from(&queue.queue);
        let state = Cell::new(state(queue), style(queue.state));
        let has_lost = queue.lost_slots > 0;
        let slots = Cell::new(slots(queue), if has_lost { Style::Bad } else { Style::Plain });
        let cells = vec![id, process, name, state, slots, version, up];
        rows.push(Row { pool: pool.pool, job: None, cells });
        let running = queue.running.iter().map(|job| (Some(job.id), running(job)));
        // They cannot be cancelled any more.
        let lost = queue.lost.iter().map(|job| (None, lost(job)));
        let jobs = running.chain(lost);
        rows.extend(jobs.map(|(job, cell)| Row { pool: pool.pool, job, cells: vec![cell] }));
    }
    for relay in &pool.relays {
        let [id, process, version, up] = of_pool.take().unwrap_or_else(empties);
        let (source, left) = (Cell::from(&relay.source), Cell::from(text::backlog(relay)));
        let cells = vec![id, process, source, relay_state(relay), left, version, up];
        rows.push(Row { pool: pool.pool, job: None, cells });
    }
    rows
}

/// The process of a pool, and how far its clock is ahead, if it certainly is.
fn process(pool: &PoolReport) -> Cell {
    let process = format!("{}:{}", pool.host, pool.pid);
    let Some(offset) = pool.clock_offset_ms else { return Cell::from(process) };
    let style = if offset.unsigned_abs() > LARGE_OFFSET { Style::Bad } else { Style::Notable };
    Cell::new(format!("{process}, {}", text::clock(offset)), style)
}

fn empties<const N: usize>() -> [Cell; N] {
    std::array::from_fn(|_| Cell::from(""))
}

fn state(queue: &PoolQueue) -> String {
    match &queue.problem {
        Some(problem) => format!("{}: {problem}", queue.state),
        None => queue.state.to_string(),
    }
}

fn relay_state(relay: &PoolRelay) -> Cell {
    let text = match &relay.problem {
        Some(problem) => format!("{}: {problem}", relay.state),
        None => relay.state.to_string(),
    };
    let style = match relay.state {
        RelayActivity::Sending => Style::Good,
        RelayActivity::Interrupted | RelayActivity::Ended => Style::Bad,
        _ => Style::Plain,
    };
    Cell::new(text, style)
}

fn style(state: Activity) -> Style {
    match state {
        Activity::Consuming => Style::Good,
        Activity::Interrupted | Activity::Ended => Style::Bad,
        _ => Style::Notable,
    }
}

fn slots(queue: &PoolQueue) -> String {
    let mut slots = format!("{}/{}", queue.running.len(), queue.slots);
    if queue.lost_slots > 0 {
        let _ = write!(slots, ", {} lost", queue.lost_slots);
    }
    if let Some(ahead @ 1..) = queue.ahead {
        let _ = write!(slots, ", {ahead} ahead");
    }
    slots
}

/// A job that runs. One that exceeds its timeout is overdue.
fn running(job: &RunningJob) -> Cell {
    if job.is_overdue() {
        return Cell::new(format!("{}, overdue", attempt(job)), Style::Bad);
    }
    Cell::from(attempt(job))
}

/// An attempt that was told to end, and whose function goes on.
fn lost(job: &RunningJob) -> Cell {
    Cell::new(format!("{}, slot lost", attempt(job)), Style::Bad)
}

fn attempt(job: &RunningJob) -> String {
    format!("{} {} attempt {}, {}", job.job, job.id, job.attempt, text::running(job))
}

fn notes(pools: &Pools) -> Vec<String> {
    let mut notes = Vec::new();
    match &pools.unaccounted {
        Figure::Known(0) => {}
        Figure::Known(count) => notes.push(format!(
            "{count} consumers belong to no pool that answered: their pools hang or have no \
             permission to answer, or they belong to other programs"
        )),
        Figure::Unknown(why) => {
            notes.push(format!("? consumers that belong to no pool: {}", visible(why)));
        }
    }
    if pools.pools.is_empty() {
        notes.push("no pool answered".into());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(queues: Vec<PoolQueue>) -> PoolReport {
        let started = SystemTime::UNIX_EPOCH;
        PoolReport::new(PoolId::new(), "web1".into(), started, queues)
    }

    #[test]
    fn a_job_beyond_its_timeout_is_overdue() {
        let id = JobId::new();
        let mut job = RunningJob::new(id, "pay", 2, Duration::from_secs(90));
        let text = |job: &RunningJob| running(job).text().to_owned();
        assert_eq!(text(&job), format!("pay {id} attempt 2, 1m30s"));
        job.timeout = Some(Duration::from_secs(120));
        assert_eq!(text(&job), format!("pay {id} attempt 2, 1m30s of 2m"));
        job.timeout = Some(Duration::from_secs(60));
        assert_eq!(text(&job), format!("pay {id} attempt 2, 1m30s of 1m, overdue"));
    }

    #[test]
    fn a_clock_that_differs_is_shown() {
        let mut report = report(vec![PoolQueue::new("mail", 2)]);
        for (offset, shown) in [
            (None, "web1:7"),
            (Some(65_000), "web1:7, clock +1m5s"),
            (Some(-300), "web1:7, clock -300ms"),
        ] {
            (report.pid, report.clock_offset_ms) = (7, offset);
            assert_eq!(process(&report).text(), shown);
        }
    }

    #[test]
    fn a_pool_without_queues_has_a_row_for_its_relay() {
        let mut report = report(Vec::new());
        let mut relay = PoolRelay::new("jobq_outbox of shop");
        (relay.state, relay.problem) = (RelayActivity::Interrupted, Some("no table".to_owned()));
        report.relays = vec![relay.clone()];
        let text = |report: &PoolReport| {
            table(std::slice::from_ref(report), SystemTime::UNIX_EPOCH).render(false)
        };
        let found = text(&report);
        assert!(found.contains("jobq_outbox of shop  interrupted: no table"), "{found}");
        assert!(found.contains(&report.pool.to_string()), "{found}");
        (relay.state, relay.problem) = (RelayActivity::Sending, None);
        (relay.waiting, relay.refused) = (Some(12), Some(1));
        relay.oldest = Some(Duration::from_secs(180));
        report.relays = vec![relay];
        let found = text(&report);
        assert!(found.contains("sending"), "{found}");
        assert!(found.contains("12 rows wait, the oldest for 3m, 1 refused"), "{found}");
    }

    #[test]
    fn a_pool_has_a_row_for_each_job_and_each_queue() {
        let job = || RunningJob::new(JobId::new(), "pay", 1, Duration::ZERO);
        let mut busy = PoolQueue::new("pay", 4);
        busy.running = vec![job(), job()];
        (busy.lost_slots, busy.lost, busy.ahead) = (1, vec![job()], Some(7));
        let report = report(vec![busy, PoolQueue::new("mail", 2)]);
        let text = table(std::slice::from_ref(&report), SystemTime::UNIX_EPOCH).render(false);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 6, "{text}");
        assert!(
            lines[1].contains("2/4, 1 lost, 7 ahead")
                && lines[1].starts_with(&report.pool.to_string())
        );
        for line in &lines[2..5] {
            assert!(line.starts_with("  pay ") && line.len() <= 80, "{text}");
        }
        assert!(lines[4].ends_with("attempt 1, 0s, slot lost"), "{text}");
        assert!(lines[5].trim_start().starts_with("mail ") && lines[5].ends_with("0/2"), "{text}");
    }
}
