//! Programs of an earlier version beside those of this one, on one broker and on one file. Each row is
//! played twice: what one does comes once from the earlier version, and once from this one.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use jobq_tests::earlier::{Mixed, program};
use jobq_tests::files::{NEWEST_SCHEMA, make_job_file};
use jobq_tests::raw::Raw;
use jobq_tests::test_store::{Store, until};
use serde_json::{Value, json};

static EARLIER: LazyLock<PathBuf> =
    LazyLock::new(|| program(Path::new(env!("CARGO_TARGET_TMPDIR"))));
/// The log lines of both versions about the short time that RabbitMQ 3.10 gives its jobs.
const SHORT_LIMIT: [&str; 2] =
    ["jobs without a shorter timeout", "jobs without a timeout below the limit"];
const TODAY: &str = env!("CARGO_BIN_EXE_mixed");
/// As in the program.
const HANGS: u32 = 1_000;
/// How long all probes may take: they are sent one a second, and the longest wait of one is 51 s.
const PROBED: Duration = Duration::from_secs(300);

/// Two programs on one store. One of them is of the earlier version.
struct Pair {
    store: Store,
    one: Mixed,
    other: Mixed,
    is_one_earlier: bool,
}

impl Pair {
    /// On two stores: the one is of the earlier version on the first, of this one on the second.
    async fn both_ways(make: impl AsyncFn() -> Store) -> [Self; 2] {
        let (today, earlier) = (Path::new(TODAY), EARLIER.as_path());
        let pair = async |is_one_earlier: bool| {
            let store = make().await;
            let [one, other] = if is_one_earlier { [earlier, today] } else { [today, earlier] };
            let (one, other) = (Mixed::start(one, &store), Mixed::start(other, &store));
            Self { store, one, other, is_one_earlier }
        };
        [pair(true).await, pair(false).await]
    }

    /// That of this version, and that of the earlier one.
    fn by_age(&mut self) -> (&mut Mixed, &mut Mixed) {
        if self.is_one_earlier {
            (&mut self.other, &mut self.one)
        } else {
            (&mut self.one, &mut self.other)
        }
    }

    /// Both complain of nothing but of what jobs returned, and of the short time that RabbitMQ 3.10
    /// gives them.
    fn log_nothing(&self) {
        for program in [&self.one, &self.other] {
            let log = program.log();
            let is_other = |line: &&str| {
                (line.contains(" WARN ") || line.contains(" ERROR "))
                    && !line.contains("attempt failed")
                    && !line.contains("job failed for good")
                    && !SHORT_LIMIT.iter().any(|text| line.contains(text))
            };
            let others: Vec<_> = log.lines().filter(is_other).collect();
            assert!(others.is_empty(), "earlier: {}: {others:#?}", self.is_one_earlier);
        }
    }
}

fn enqueue(number: u32, failures: u32, retry_in: Option<u32>, delay: u32) -> Value {
    json!({"enqueue": {
        "number": number, "failures": failures, "retry_in": retry_in, "delay": delay
    }})
}

fn is_failed(count: u64) -> impl Fn(&Value) -> bool {
    move |counts| counts[2] == count
}

/// The jobs and events of one run in the pool of the other: at once, after a failed attempt whose retry
/// passes through a tier, after one through the levels, and after a delay of each kind.
async fn jobs_run_in_the_other(make: impl AsyncFn() -> Store) {
    for mut pair in Pair::both_ways(make).await {
        pair.other.must(&json!("consume"));
        pair.one.must(&enqueue(1, 0, None, 0));
        pair.one.must(&enqueue(2, 1, None, 0));
        pair.one.must(&enqueue(3, 1, Some(300), 0));
        pair.one.must(&enqueue(4, 0, None, 200));
        pair.one.must(&enqueue(5, 0, None, 1_900));
        pair.one.must(&json!({"publish": {"number": 6, "delay": 0}}));
        pair.one.must(&json!({"publish": {"number": 7, "delay": 300}}));
        let mut runs = pair.other.runs(9).await;
        runs.sort_unstable();
        let expected = [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (4, 1), (5, 1), (6, 1), (7, 1)];
        assert_eq!(runs, expected);
        pair.one.until(&json!("counts"), |counts| *counts == json!([0, 0, 0])).await;
        pair.log_nothing();
    }
}

/// Pools of both take the jobs of one queue, and a job may go from one to the other at each attempt.
async fn pools_share_a_queue(make: impl AsyncFn() -> Store) {
    const JOBS: u32 = 40;
    for mut pair in Pair::both_ways(make).await {
        pair.one.must(&json!("consume"));
        pair.other.must(&json!("consume"));
        for number in 0..JOBS {
            let sender = if number % 2 == 0 { &mut pair.one } else { &mut pair.other };
            let retry_in = (number % 3 == 0).then_some(300);
            sender.must(&enqueue(number, 1, retry_in, 0));
        }
        let expected: Vec<_> = (0..u64::from(JOBS)).flat_map(|job| [(job, 1), (job, 2)]).collect();
        let mut runs = Vec::new();
        while runs.len() < expected.len() {
            runs.extend(pair.one.runs(0).await);
            runs.extend(pair.other.runs(0).await);
        }
        runs.sort_unstable();
        assert_eq!(runs, expected);
        pair.one.until(&json!("counts"), |counts| *counts == json!([0, 0, 0])).await;
        pair.log_nothing();
    }
}

/// Jobs fail at once where an operation retries them. The header `jobq-operations` stays with a job
/// in a pool of the earlier version, and its operations leave it where it is.
async fn operations_end(make: impl AsyncFn() -> Store) {
    const JOBS: u64 = 5;
    for mut pair in Pair::both_ways(make).await {
        pair.other.must(&json!("consume"));
        for number in 0..5 {
            pair.one.must(&enqueue(number, 100, None, 0));
        }
        // The operations that jobs name: those of this version.
        let mut operations = 0;
        for times in 1_u64.. {
            pair.one.until(&json!("counts"), is_failed(JOBS)).await;
            // Two attempts each time; all have begun anew.
            let mut runs = pair.other.runs(10).await;
            runs.sort_unstable();
            let expected: Vec<_> = (0..JOBS).flat_map(|job| [(job, 1), (job, 2)]).collect();
            assert_eq!(runs, expected, "{times}");
            // The earlier version shows none.
            let failed = pair.by_age().0.must(&json!("failed"));
            let named = failed.as_array().unwrap().iter().map(|job| match &job["operations"] {
                Value::String(ids) => ids.split(' ').count(),
                _ => 0,
            });
            assert_eq!(named.collect::<Vec<_>>(), [operations; 5], "{times}");
            let (operator, is_earlier) = match times {
                1 | 2 | 4 => (&mut pair.one, pair.is_one_earlier),
                3 | 5 => (&mut pair.other, !pair.is_one_earlier),
                _ => break,
            };
            operations += usize::from(!is_earlier);
            let done = match times {
                4 | 5 => json!({"settled": operator.must(&json!("retry_all"))}),
                // With several passes; the earlier version would settle jobs again.
                _ if !is_earlier => operator.must(&json!({"retry_at_rate": {"rate": 2.0}})),
                _ => operator.must(&json!({"retry_at_rate": {"rate": 10.0}})),
            };
            assert_eq!(done["settled"], JOBS, "{times}: {done}");
        }
        let failed = pair.one.must(&json!("failed"));
        let id = &failed[0]["id"];
        pair.other.must(&json!({"retry": {"id": id}}));
        assert_eq!(pair.other.runs(2).await.len(), 2);
        pair.one.until(&json!("counts"), is_failed(JOBS)).await;
        pair.log_nothing();
    }
}

/// A failed job that is retried with one attempt tells its outcome to whoever retried it.
async fn a_canary_is_told(make: impl AsyncFn() -> Store) {
    for mut pair in Pair::both_ways(make).await {
        pair.other.must(&json!("consume"));
        pair.one.must(&enqueue(1, 2, None, 0));
        pair.one.must(&enqueue(2, 2, None, 0));
        pair.one.until(&json!("counts"), is_failed(2)).await;
        let done = pair.one.must(&json!("retry_once"));
        // It fails again, and the other one stays.
        assert_eq!(
            (&done["settled"], &done["end"]["kind"]),
            (&json!(1), &json!("stopped")),
            "{done}"
        );
        let failed = done["end"]["why"]["canary_failed"].as_array();
        assert!(failed.is_some_and(|failed| failed.len() == 1), "{done}");
        pair.one.until(&json!("counts"), is_failed(2)).await;
    }
}

/// Reports, pauses, orders and cancellations; what a report has not is left out.
async fn pools_are_asked_and_told(make: impl AsyncFn() -> Store) {
    for mut pair in Pair::both_ways(make).await {
        pair.one.must(&json!("consume"));
        pair.other.must(&json!("consume"));
        let two = |pools: &Value| pools["pools"].as_array().is_some_and(|pools| pools.len() == 2);
        for _ in 0..2 {
            let pools = pair.one.until(&json!("pools"), two).await;
            assert_eq!(pools["unaccounted"], 0, "{pools}");
            let overview = pair.one.must(&json!("overview"));
            assert_eq!((&overview["pools"], &overview["state"]), (&json!(2), &json!("consumed")));
            std::mem::swap(&mut pair.one, &mut pair.other);
        }

        for _ in 0..2 {
            pair.one.must(&json!("pause"));
            let stopped = |pools: &Value| {
                let all = pools["pools"].as_array().into_iter().flatten();
                let states = all.filter_map(|pool| {
                    let queues = pool["queues"].as_array()?;
                    queues.iter().find(|queue| queue["queue"] == "work")
                });
                states.filter(|queue| queue["state"] == "paused").count() == 2
            };
            pair.other.until(&json!("pools"), stopped).await;
            assert_eq!(pair.other.must(&json!("overview"))["paused"]["why"], "mixed");
            assert_eq!(pair.other.must(&json!("resume")), true);
            std::mem::swap(&mut pair.one, &mut pair.other);
        }
        let id = pair.one.must(&enqueue(HANGS, 0, None, 0));
        let cancel = json!({"cancel": {"id": id}});
        // At first it may not run yet.
        until("the job to be cancelled", async || {
            let answers = pair.one.ask(&cancel).ok()?;
            answers.as_array()?.contains(&json!("asked")).then_some(())
        })
        .await;
        let pools = pair.one.until(&json!("pools"), two).await;
        for pool in pools["pools"].as_array().unwrap() {
            pair.one.must(&json!({"order": {"pool": pool["pool"], "stops": true}}));
        }
        let none = |pools: &Value| pools["pools"].as_array().is_some_and(Vec::is_empty);
        pair.other.until(&json!("pools"), none).await;
        pair.log_nothing();
    }
}

/// Failed jobs are looked at by one program at a time.
async fn the_lock_of_failed_jobs_is_the_same(make: impl AsyncFn() -> Store) {
    for mut pair in Pair::both_ways(make).await {
        pair.one.must(&json!("consume"));
        pair.one.must(&enqueue(1, 2, None, 0));
        pair.one.until(&json!("counts"), is_failed(1)).await;
        pair.one.must(&json!("hold"));
        assert_eq!(pair.other.must(&json!("look")), "Conflict");
        pair.one.must(&json!("release"));
        assert_eq!(pair.other.must(&json!("look")), Value::Null);
    }
}

/// Whether all probes of a pool come in time.
fn is_passing(pools: &Value) -> bool {
    pools["pools"].as_array().into_iter().flatten().any(|pool| {
        let mut queues = pool["queues"].as_array().into_iter().flatten();
        let waits = queues.find(|queue| queue["queue"] == "work").map(|queue| &queue["waits"]);
        pool["levels"] == "passing" && waits == Some(&json!("passing"))
    })
}

/// Probes of a pool of this version pass the tiers and levels of both, and no pool takes one for a job.
async fn probes_are_no_jobs(make: impl AsyncFn() -> Store) {
    let mut pairs = Pair::both_ways(make).await;
    for pair in &mut pairs {
        for program in [&mut pair.one, &mut pair.other] {
            program.must(&json!("declare_delays"));
            program.must(&json!("consume"));
        }
    }
    for pair in &mut pairs {
        let since = Instant::now();
        let (today, earlier) = pair.by_age();
        while !is_passing(&today.must(&json!("pools"))) {
            assert!(since.elapsed() < PROBED, "the probes do not come");
        }
        assert_eq!((today.runs(0).await, earlier.runs(0).await), (vec![], vec![]));
        let (space, raw) = (&pair.store.namespace, Raw::connect(&pair.store.url).await);
        for queue in [".orphan", ":orphan@failed", ":work", ":work@failed", ":heard@failed"] {
            assert_eq!(raw.take(&format!("{space}{queue}")).await, None, "{queue}");
        }
        pair.log_nothing();
    }
}

/// This version makes as many levels as a wait needs, the earlier one makes all of them.
async fn levels_fit_each_other(make: impl AsyncFn() -> Store) {
    for mut pair in Pair::both_ways(make).await {
        pair.one.must(&json!("consume"));
        let (today, earlier) = pair.by_age();
        today.must(&enqueue(1, 0, None, 300));
        earlier.must(&enqueue(2, 0, None, 300));
        earlier.must(&json!("declare_delays"));
        today.must(&json!("declare_delays"));
        earlier.must(&enqueue(3, 0, None, 1_700));
        today.must(&enqueue(4, 0, None, 1_700));
        for program in [today, earlier] {
            assert_eq!(program.must(&json!("doctor")), json!([]));
        }
        let mut runs = pair.one.runs(4).await;
        runs.sort_unstable();
        assert_eq!(runs, [(1, 1), (2, 1), (3, 1), (4, 1)]);
        pair.log_nothing();
    }
}

/// Both have the same schema, whichever makes the file. A file of a later one is refused in words.
async fn a_file_is_shared_and_a_newer_one_refused(make: impl AsyncFn() -> Store) {
    let (today, earlier) = (Path::new(TODAY), EARLIER.as_path());
    for [first, second] in [[today, earlier], [earlier, today]] {
        let store = make().await;
        let mut one = Mixed::start(first, &store);
        one.must(&enqueue(1, 0, None, 0));
        let mut other = Mixed::start(second, &store);
        other.must(&enqueue(2, 0, None, 0));
        for program in [&mut one, &mut other] {
            assert_eq!(program.must(&json!("counts")), json!([2, 0, 0]));
        }
    }
    let store = make().await;
    let later = store.url.strip_prefix("sqlite://").unwrap();
    make_job_file(Path::new(later), NEWEST_SCHEMA);
    let file = rusqlite::Connection::open(later).unwrap();
    file.execute_batch(&format!("PRAGMA user_version = {}", NEWEST_SCHEMA + 1)).unwrap();
    drop(file);
    let refusal = Mixed::start(earlier, &store).ask(&json!("counts")).unwrap_err();
    let expected = format!("written by a newer jobq (schema {}", NEWEST_SCHEMA + 1);
    assert!(refusal.contains(&expected), "{refusal}");
}

macro_rules! rows {
    ($engine:ident: $($row:ident),* $(,)?) => {
        mod $engine {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $row() {
                super::$row(jobq_tests::test_store::Store::$engine).await;
            })*
        }
    };
}

rows!(
    rabbitmq: jobs_run_in_the_other, pools_share_a_queue, operations_end, a_canary_is_told,
    pools_are_asked_and_told, the_lock_of_failed_jobs_is_the_same, probes_are_no_jobs,
    levels_fit_each_other,
);
rows!(
    sqlite: jobs_run_in_the_other, pools_share_a_queue, operations_end, a_canary_is_told,
    pools_are_asked_and_told, a_file_is_shared_and_a_newer_one_refused,
);
