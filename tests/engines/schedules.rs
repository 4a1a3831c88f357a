//! Periodic jobs, on both engines, by clocks that the test moves.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jobq::admin::Queues;
use jobq::schedule::Schedule;
use jobq::{BoxError, Client, Clock, JobContext, JobId, RunningPool, State, WorkerPool, job};
use jobq_tests::both_engines;
use jobq_tests::test_store::{DEADLINE, Store, soon, until};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

both_engines!(
    a_job_is_enqueued_at_the_times_of_its_attribute,
    an_hour_without_pools_is_treated_as_each_job_says,
    a_schedule_that_was_made_without_a_pool_is_found_by_the_first_one,
    the_first_schedule_of_a_queue_reaches_a_pool_that_runs,
    a_schedule_is_paused_resumed_run_and_removed,
    times_at_which_the_queue_is_paused_are_missed,
    of_two_pools_one_enqueues_and_the_other_follows,
    a_pool_whose_clock_is_behind_enqueues_nothing_again,
    schedules_that_are_not_valid_are_refused,
);

const MINUTE: Duration = Duration::from_secs(60);

/// A minute before a full hour, far from the system's time.
fn start() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(4_000_000_000 / 3_600 * 3_600) - MINUTE
}

/// A run of a periodic job.
#[derive(Debug, Clone, PartialEq)]
struct Run {
    schedule: Option<String>,
    /// The minutes from the full hour at which it was due.
    due: i64,
    missed: u64,
    id: JobId,
    payload: u32,
}

impl Run {
    fn shown(&self) -> (&str, i64, u64) {
        (self.schedule.as_deref().unwrap_or("-"), self.due, self.missed)
    }
}

type Runs = UnboundedSender<Run>;

fn ran(ctx: &JobContext, runs: &Runs, payload: u32) -> Result<(), BoxError> {
    let minutes = |time: Duration| i64::try_from(time.as_secs() / 60).unwrap();
    let hour = start() + MINUTE;
    let due = match ctx.due().duration_since(hour) {
        Ok(after) => minutes(after),
        Err(before) => -minutes(before.duration()),
    };
    let schedule = ctx.schedule().map(str::to_owned);
    runs.send(Run { schedule, due, missed: ctx.missed(), id: ctx.id(), payload })?;
    Ok(())
}

#[job(queue = "ticks", every = "10m")]
async fn often(ctx: JobContext, runs: State<Runs>) -> Result<(), BoxError> {
    ran(&ctx, &runs, 0)
}

#[job(queue = "ticks", cron = ["0 * * * *", "30 * * * *"], missed = "skip")]
async fn skips(ctx: JobContext, runs: State<Runs>) -> Result<(), BoxError> {
    ran(&ctx, &runs, 0)
}

#[job(queue = "ticks", cron = "*/15 * * * *", zone = "Asia/Kathmandu", missed = "all")]
async fn all(ctx: JobContext, runs: State<Runs>) -> Result<(), BoxError> {
    ran(&ctx, &runs, 0)
}

#[job(queue = "ticks")]
async fn plain(number: u32, ctx: JobContext, runs: State<Runs>) -> Result<(), BoxError> {
    ran(&ctx, &runs, number)
}

/// A program: a client with the clock, and what its pool does.
struct Program {
    client: Client,
    clock: Clock,
    runs: (Runs, UnboundedReceiver<Run>),
}

impl Program {
    async fn start(store: &Store, clock: &Clock) -> Self {
        let builder = Client::builder(&store.url).namespace(&store.namespace);
        let client = builder.timeout(DEADLINE).clock(clock.clone()).connect().await.unwrap();
        Self { client, clock: clock.clone(), runs: unbounded_channel() }
    }

    fn pool(&self) -> WorkerPool {
        WorkerPool::new(&self.client).state(self.runs.0.clone())
    }

    /// Returns when a pool holds the schedules of the queue, of which there are so many.
    async fn holds(&self, schedules: usize) {
        until("a pool that holds the schedules", async || {
            let found = self.client.schedules().await.ok()?;
            (found.unknown.is_empty() && found.schedules.len() == schedules).then_some(())
        })
        .await;
    }

    async fn next(&mut self) -> Run {
        soon("a run", self.runs.1.recv()).await.unwrap()
    }

    /// Moves the clock, and waits for these runs, in any order.
    async fn expect(&mut self, minutes: u32, expected: &[(&str, i64, u64)]) {
        self.clock.advance(minutes * MINUTE);
        let mut found = Vec::new();
        for _ in expected {
            found.push(self.next().await);
        }
        let mut shown: Vec<_> = found.iter().map(Run::shown).collect();
        shown.sort_unstable();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(shown, expected, "after {minutes} minutes");
        self.nothing_else();
    }

    fn nothing_else(&mut self) {
        let more = self.runs.1.try_recv();
        assert!(more.is_err(), "{more:?}");
    }

    /// Asks for something that comes after all that was enqueued before.
    async fn nothing_is_due(&mut self) {
        self.client.enqueue(Plain { number: 99 }).await.unwrap();
        assert_eq!(self.next().await.payload, 99);
    }
}

async fn a_job_is_enqueued_at_the_times_of_its_attribute(store: Store) {
    let mut program = Program::start(&store, &Clock::stopped_at(start())).await;
    let pool = program.pool().register::<Often>().register::<Skips>().register::<Plain>();
    let pool = pool.concurrency(1).spawn().await.unwrap();
    program.holds(2).await;
    program.nothing_is_due().await;
    program.expect(1, &[("often", 0, 0), ("skips", 0, 0)]).await;
    program.expect(10, &[("often", 10, 0)]).await;
    program.expect(9, &[]).await;
    program.nothing_is_due().await;
    let found = program.client.schedules().await.unwrap();
    let report = found.schedules.iter().find(|schedule| schedule.name == "skips").unwrap();
    assert_eq!((report.queue.as_str(), report.in_code), ("ticks", true));
    assert_eq!(report.times, ["0 * * * *", "30 * * * *"]);
    assert_eq!(report.last, Some(start() + MINUTE));
    let next = report.next(program.clock.now(), 2).unwrap();
    assert_eq!(next, [start() + 31 * MINUTE, start() + 61 * MINUTE]);
    pool.shutdown().await.unwrap();
}

async fn an_hour_without_pools_is_treated_as_each_job_says(store: Store) {
    let mut program = Program::start(&store, &Clock::stopped_at(start())).await;
    let pool = |program: &Program| {
        program.pool().register::<Often>().register::<Skips>().register::<All>().spawn()
    };
    let first = pool(&program).await.unwrap();
    program.holds(3).await;
    program.expect(1, &[("often", 0, 0), ("skips", 0, 0), ("all", 0, 0)]).await;
    first.shutdown().await.unwrap();

    program.clock.advance(62 * MINUTE);
    let second = pool(&program).await.unwrap();
    let expected = [
        // Six times, of which the last one, at 60, is made up for.
        ("often", 60, 5),
        // At 30 and at 60; the later is more than two minutes ago.
        ("all", 15, 0),
        ("all", 30, 0),
        ("all", 45, 0),
        ("all", 60, 0),
    ];
    program.expect(0, &expected).await;
    program.expect(8, &[("often", 70, 0)]).await;
    second.shutdown().await.unwrap();

    // Another version of the program, whose times count from its start.
    program.clock.advance(55 * MINUTE);
    let times = Schedule::every("20m").unwrap();
    let third = program.pool().register::<Often>().cron::<Often>(times).spawn().await.unwrap();
    program.holds(3).await;
    program.nothing_else();
    program.expect(15, &[("often", 140, 0)]).await;
    third.shutdown().await.unwrap();
}

async fn a_schedule_that_was_made_without_a_pool_is_found_by_the_first_one(store: Store) {
    let clock = Clock::stopped_at(start());
    let web = Program::start(&store, &clock).await;
    let schedule = || web.client.schedule("seven", Plain { number: 7 }).every("10m");
    schedule().header("tenant", "acme").await.unwrap();
    schedule().header("tenant", "acme").await.unwrap();
    web.client.schedule("eight", Plain { number: 8 }).cron("@daily").await.unwrap();
    // Nobody holds it: it is read where it is stored.
    let found = web.client.schedules().await.unwrap().schedules;
    let names: Vec<_> = found.iter().map(|schedule| schedule.name.as_str()).collect();
    assert_eq!(names, ["eight", "seven"]);
    assert_eq!((found[1].payload.as_str(), found[1].in_code), (r#"{"number":7}"#, false));
    assert!(!found[1].by.is_empty());

    // A schedule that is removed before the first pool enqueues nothing.
    web.client.schedule("nine", Plain { number: 9 }).every("5m").await.unwrap();
    clock.advance(12 * MINUTE);
    web.client.unschedule("nine").await.unwrap();
    let mut worker = Program::start(&store, &clock).await;
    let pool = worker.pool().register::<Plain>().spawn().await.unwrap();
    let run = worker.next().await;
    assert_eq!((run.shown(), run.payload), (("seven", 10, 1), 7));
    worker.holds(2).await;
    worker.expect(9, &[("seven", 20, 0)]).await;
    web.client.unschedule("seven").await.unwrap();
    worker.holds(1).await;
    worker.expect(30, &[]).await;
    worker.nothing_is_due().await;
    let error = web.client.unschedule("seven").await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    assert!(error.to_string().contains("no queue has a schedule `seven`"), "{error}");
    pool.shutdown().await.unwrap();
}

async fn the_first_schedule_of_a_queue_reaches_a_pool_that_runs(store: Store) {
    let clock = Clock::stopped_at(start());
    let mut worker = Program::start(&store, &clock).await;
    let pool = worker.pool().register::<Plain>().spawn().await.unwrap();
    let web = Program::start(&store, &clock).await;
    web.client.schedule("seven", Plain { number: 7 }).every("10m").await.unwrap();
    worker.holds(1).await;
    worker.expect(1, &[("seven", 0, 0)]).await;
    // A change counts from now on.
    web.client.schedule("seven", Plain { number: 8 }).every("15m").await.unwrap();
    until("the change", async || {
        let found = web.client.schedules().await.ok()?;
        (found.schedules[0].times == ["every 15m"]).then_some(())
    })
    .await;
    worker.clock.advance(15 * MINUTE);
    let run = worker.next().await;
    assert_eq!((run.shown(), run.payload), (("seven", 15, 0), 8));
    worker.nothing_else();
    pool.shutdown().await.unwrap();
}

async fn a_schedule_is_paused_resumed_run_and_removed(store: Store) {
    let mut program = Program::start(&store, &Clock::stopped_at(start())).await;
    let pool = program.pool().register::<Plain>().register::<Often>().spawn().await.unwrap();
    program.client.schedule("seven", Plain { number: 7 }).every("10m").await.unwrap();
    program.holds(2).await;
    let admin = program.client.admin().by("ann");
    let is_paused = async || {
        let found = program.client.schedules().await.ok()?;
        Some(found.schedules.iter().any(|schedule| schedule.paused.is_some()))
    };
    admin.pause_schedule("seven", Queues::All).await.unwrap();
    until("the pause", async || is_paused().await?.then_some(())).await;
    let found = program.client.schedules().await.unwrap();
    let paused = found.schedules.iter().find(|schedule| schedule.name == "seven").unwrap();
    assert_eq!((paused.paused, paused.paused_by.as_deref()), (Some(start()), Some("ann")));
    assert!(paused.next(start(), 3).unwrap().is_empty());
    let id = admin.run_schedule("seven", Queues::one("ticks")).await.unwrap();
    let run = program.next().await;
    assert_eq!((run.shown(), run.id, run.payload), (("seven", -1, 0), id, 7));
    program.expect(1, &[("often", 0, 0)]).await;
    program.expect(5, &[]).await;

    program.client.admin().resume_schedule("seven", Queues::All).await.unwrap();
    let is_paused = async || {
        let found = program.client.schedules().await.ok()?;
        Some(found.schedules.iter().any(|schedule| schedule.paused.is_some()))
    };
    until("the end of the pause", async || (!is_paused().await?).then_some(())).await;
    // No job is enqueued for the times of the pause.
    program.expect(5, &[("often", 10, 0), ("seven", 10, 0)]).await;

    let admin = program.client.admin();
    admin.remove_schedule("seven", Queues::All).await.unwrap();
    program.holds(1).await;
    // What the pool's code has stays.
    let error = admin.remove_schedule("often", Queues::All).await.unwrap_err();
    assert!(error.is_conflict() && error.to_string().contains("part of the code"), "{error}");
    let error = admin.pause_schedule("nine", Queues::one("ticks")).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    program.expect(10, &[("often", 20, 0)]).await;
    pool.shutdown().await.unwrap();
}

async fn times_at_which_the_queue_is_paused_are_missed(store: Store) {
    let mut program = Program::start(&store, &Clock::stopped_at(start())).await;
    let pool = program.pool().register::<Often>().register::<Skips>().spawn().await.unwrap();
    program.holds(2).await;
    program.client.admin().pause("ticks", "repair").await.unwrap();
    program.expect(1, &[]).await;
    program.expect(10, &[]).await;
    program.client.admin().resume("ticks").await.unwrap();
    // Although it is only a minute late.
    program.expect(1, &[("often", 10, 1)]).await;
    program.expect(9, &[("often", 20, 0)]).await;
    pool.shutdown().await.unwrap();
}

async fn of_two_pools_one_enqueues_and_the_other_follows(store: Store) {
    let clock = Clock::stopped_at(start());
    let mut program = Program::start(&store, &clock).await;
    let other = Program::start(&store, &clock).await;
    let (clients, runs) = ([program.client.clone(), other.client], program.runs.0.clone());
    let spawn = async |index: usize| -> RunningPool {
        let pool = WorkerPool::new(&clients[index]).state(runs.clone());
        pool.register::<Often>().spawn().await.unwrap()
    };
    let mut pools = [spawn(0).await, spawn(1).await];
    // One that never enqueues.
    let web = Program::start(&store, &clock).await;
    let third = WorkerPool::new(&web.client).state(web.runs.0.clone()).register::<Skips>();
    let third = third.schedules(false).spawn().await.unwrap();
    program.holds(1).await;
    third.shutdown().await.unwrap();
    let mut due = 0;
    program.expect(1, &[("often", due, 0)]).await;
    for round in 0..4 {
        let index = round % 2;
        let new = spawn(index).await;
        std::mem::replace(&mut pools[index], new).shutdown().await.unwrap();
        due += 10;
        program.holds(1).await;
        program.expect(10, &[("often", due, 0)]).await;
    }
    for pool in pools {
        pool.shutdown().await.unwrap();
    }
}

async fn a_pool_whose_clock_is_behind_enqueues_nothing_again(store: Store) {
    let mut ahead = Program::start(&store, &Clock::stopped_at(start())).await;
    let mut behind = Program::start(&store, &Clock::stopped_at(start())).await;
    let pool = ahead.pool().register::<Often>().spawn().await.unwrap();
    ahead.holds(1).await;
    ahead.expect(1, &[("often", 0, 0)]).await;
    ahead.expect(10, &[("often", 10, 0)]).await;
    ahead.expect(10, &[("often", 20, 0)]).await;
    pool.shutdown().await.unwrap();
    let pool = behind.pool().register::<Often>().register::<Plain>().concurrency(1);
    let pool = pool.spawn().await.unwrap();
    behind.holds(1).await;
    for minutes in [1, 10, 10] {
        behind.expect(minutes, &[]).await;
        behind.nothing_is_due().await;
    }
    behind.expect(10, &[("often", 30, 0)]).await;
    pool.shutdown().await.unwrap();
}

async fn schedules_that_are_not_valid_are_refused(store: Store) {
    let program = Program::start(&store, &Clock::stopped_at(start())).await;
    let client = &program.client;
    let schedule = |name: &str| client.schedule(name, Plain { number: 7 });
    let no_times = schedule("a").await.unwrap_err();
    let texts = [
        (no_times, "schedule `a` has no times"),
        (schedule("a").cron("0 25 * * *").await.unwrap_err(), "`25` is not a valid hour"),
        (schedule("a").cron("0 0 30 2 *").await.unwrap_err(), "30 2"),
        (schedule("a").every("500ms").await.unwrap_err(), "use whole seconds"),
        (schedule("a").every("10m").zone("Mars").await.unwrap_err(), "`Mars` is not a time zone"),
        (schedule("a b").every("10m").await.unwrap_err(), "the schedule name"),
        (schedule("plain").every("10m").await.unwrap_err(), "choose another one"),
        (schedule("a").every("10m").jitter("1.5s").await.unwrap_err(), "`1.5s`"),
        (schedule("a").every("10m").header("x-a", "1").await.unwrap_err(), "header name"),
    ];
    for (error, text) in texts {
        assert!(error.is_invalid() && !error.maybe_enqueued(), "{error:?}");
        assert!(error.to_string().contains(text), "{error}");
    }
    let fails = [
        (program.pool().register::<Often>().cron::<Often>("0 3 * *"), "4 fields"),
        (program.pool().register::<Often>().cron::<Skips>("@daily"), "but not the job"),
        (program.pool().register::<Plain>().cron::<Plain>("@daily"), "cannot be read from `{}`"),
    ];
    for (pool, text) in fails {
        let error = pool.spawn().await.unwrap_err();
        assert!(error.is_invalid() && error.to_string().contains(text), "{error}");
    }
    let zones = ["Europe/Berlin", "UTC"].map(|zone| Schedule::cron("@daily").unwrap().zone(zone));
    let [berlin, utc] = zones.map(Result::unwrap);
    let pool = program.pool().register::<Often>().cron::<Often>(berlin).cron::<Often>(utc);
    let error = pool.spawn().await.unwrap_err();
    assert!(error.to_string().contains("in the zones Europe/Berlin and UTC"), "{error}");
    assert!(client.schedules().await.unwrap().schedules.is_empty());
}
