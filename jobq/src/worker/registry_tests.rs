use serde::{Deserialize, Serialize};

use super::*;
use crate::job::{BoxError, Delay};
use crate::worker::{JobContext, State};

macro_rules! job {
    ($type:ident, $name:literal, $options:expr) => {
        #[derive(Serialize, Deserialize)]
        struct $type {}

        impl Job for $type {
            const NAME: &'static str = $name;
            const OPTIONS: JobOptions = $options;
        }
    };
}

job!(Plain, "plain", JobOptions::new());
job!(Twin, "plain", JobOptions::new());
job!(Misnamed, "a b", JobOptions::new());
job!(Mail, "mail", JobOptions::new().queue("status").concurrency(3));
job!(
    Letter,
    "letter",
    JobOptions::new().queue("status").delay(Delay::constant(Duration::from_secs(7)))
);
job!(Parcel, "parcel", JobOptions::new().queue("status").concurrency(4));
job!(Never, "never", JobOptions::new().concurrency(0));
job!(Hasty, "hasty", JobOptions::new().timeout(Duration::ZERO));
job!(Stale, "stale", JobOptions::new().expires(Duration::ZERO));

async fn run<J: Job>(_: J) -> Result<(), BoxError> {
    Ok(())
}

async fn with_state(_: JobContext, _: Plain, _: State<String>) -> Result<(), BoxError> {
    Ok(())
}

fn check(jobs: impl IntoIterator<Item = Registered>) -> Result<Queues> {
    Registry { jobs: jobs.into_iter().collect(), ..Registry::default() }.check(10, true)
}

#[test]
fn invalid_jobs_are_refused_with_a_remedy() {
    let table: [(Vec<Registered>, &[&str]); 9] = [
        (vec![], &["the pool has no jobs"]),
        (
            vec![Registered::of_function(run::<Plain>), Registered::of_function(run::<Twin>)],
            &["two jobs", "`plain`"],
        ),
        (
            vec![Registered::of_function(run::<Plain>), Registered::of_function(run::<Plain>)],
            &["`plain` is registered twice", "remove one"],
        ),
        (vec![Registered::of_function(run::<Misnamed>)], &["the job name `a b`", "' '"]),
        (
            vec![Registered::of_function(run::<Mail>), Registered::of_function(run::<Parcel>)],
            &["`status`", "3 from job `mail`", "4 from job `parcel`"],
        ),
        (vec![Registered::of_function(run::<Never>)], &["`never`", "concurrency 0"]),
        (vec![Registered::of_function(run::<Hasty>)], &["`hasty`", "`timeout`", "zero"]),
        (vec![Registered::of_function(run::<Stale>)], &["`stale`", "`expires`", "zero"]),
        (vec![Registered::of_function(with_state)], &["`plain`", "`alloc::string::String`"]),
    ];
    for (jobs, expected) in table {
        let error = check(jobs).unwrap_err();
        assert!(error.is_invalid());
        for part in expected {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}

#[test]
fn two_states_of_one_type_are_refused() {
    let mut registry = Registry::default();
    registry.jobs.push(Registered::of_function(with_state));
    registry.state(String::new());
    registry.state(String::new());
    assert!(registry.check(1, true).unwrap_err().to_string().contains("two states"));
}

#[test]
fn a_state_in_an_arc_is_told_from_a_missing_one() {
    let error = |registry: &Registry| registry.check(1, true).unwrap_err().to_string();
    let mut registry = Registry::default();
    registry.jobs.push(Registered::of_function(with_state));
    assert!(error(&registry).ends_with("add one to the pool with `.state(value)`"));
    registry.state(Arc::new(String::new()));
    let told = error(&registry);
    assert!(told.contains("the pool has an `Arc<alloc::string::String>`"), "{told}");
    registry.state(String::new());
    assert!(registry.check(1, true).is_ok());
}

#[test]
fn jobs_without_a_shorter_timeout_may_outlast_a_limit() {
    let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
    let jobs =
        [("none", None), ("short", Some(second)), ("as", Some(minute)), ("long", Some(2 * minute))];
    assert_eq!(may_outlast(jobs, minute), ["none", "long"]);
    assert!(may_outlast([("short", Some(second))], minute).is_empty());
}

#[test]
fn jobs_that_share_a_queue_share_its_settings() {
    let queues = check([
        Registered::of_function(run::<Letter>),
        Registered::of_function(run::<Mail>),
        Registered::of_function(run::<Plain>),
    ])
    .unwrap();
    let seconds =
        |queue: &str| -> Vec<u64> { queues[queue].waits.iter().map(Duration::as_secs).collect() };
    assert_eq!((seconds("status"), seconds("plain")), (vec![7, 30], vec![30]));
    assert_eq!((queues["status"].concurrency, queues["plain"].concurrency), (3, 10));
    assert_eq!(queues["status"].only_job, None);
    assert_eq!(queues["plain"].only_job, Some("plain"));
    assert_eq!(specs(&queues).len(), 2);
}
