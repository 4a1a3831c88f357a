use std::time::SystemTime;

use async_trait::async_trait;

use super::*;
use crate::engine::{PoolId, QueueSpec, Visit, Visited};

#[test]
fn an_unknown_figure_is_null_and_has_its_reason_beside_it() {
    let asked = Asked {
        reports: Some(Vec::new()),
        unaccounted: BTreeMap::from([("mail".to_owned(), Figure::Known(2))]),
        problem: String::new(),
    };
    let view =
        asked.overview("mail".into(), Counts::new(5, 0, 0).into_parts(), Figure::Known(None));
    let json = serde_json::to_value(view).unwrap();
    assert_eq!((&json["ready"], &json["in_flight"]), (&5.into(), &serde_json::Value::Null));
    for figure in ["in_flight", "ahead", "completed", "pools", "waited_ms", "p50_ms"] {
        assert_eq!(json[figure], serde_json::Value::Null, "{figure}");
        let why = &json["unknown"][figure];
        assert_eq!(why, "2 consumers belong to no pool that answered", "{figure}");
    }
    assert_eq!(json["state"], "unknown");
}

#[test]
fn durations_are_those_of_all_pools() {
    let pool = |completed, millis: &[u64]| {
        let mut pool = PoolQueue::new("mail", 1);
        pool.minute.completed = completed;
        let took = millis.iter().copied().map(Duration::from_millis);
        took.for_each(|took| pool.minute.durations.record(took));
        pool
    };
    let earlier = "a pool of an earlier version does not report durations";
    for (pools, p50, p95, why) in [
        (vec![], None, None, None),
        (vec![pool(0, &[])], None, None, None),
        (vec![pool(2, &[1, 1]), pool(0, &[])], Some(0.992), Some(0.992), None),
        (vec![pool(2, &[1, 1]), pool(1, &[8, 8, 8])], Some(7.936), Some(7.936), None),
        (vec![pool(2, &[1, 1]), pool(1, &[8])], Some(0.992), Some(7.936), None),
        (vec![pool(2, &[1, 1]), pool(1, &[])], None, None, Some(earlier)),
    ] {
        let report = |queue| {
            let started = std::time::SystemTime::UNIX_EPOCH;
            PoolReport::new(crate::engine::PoolId::new(), String::new(), started, vec![queue])
        };
        let asked = Asked {
            reports: Some(pools.into_iter().map(report).collect()),
            unaccounted: BTreeMap::from([("mail".to_owned(), Figure::Known(0))]),
            problem: String::new(),
        };
        let view = asked.overview("mail".into(), Vec::new(), Figure::Known(None));
        let json = serde_json::to_value(view).unwrap();
        let found = (json["p50_ms"].as_f64(), json["p95_ms"].as_f64());
        assert_eq!(found, (p50, p95), "{json:#}");
        for name in ["p50_ms", "p95_ms"] {
            assert_eq!(json["unknown"][name].as_str(), why, "{json:#}");
        }
    }
    let asked = Asked { reports: None, unaccounted: BTreeMap::new(), problem: "no answer".into() };
    let view = asked.overview("mail".into(), Vec::new(), Figure::Known(None));
    assert_eq!(view.durations.why(), Some("no answer"));
}

#[test]
fn whether_jobs_come_out_of_the_tiers_is_the_worst_that_pools_say() {
    use Passage::{Late, Passing, Stuck, Unknown};
    let tier = |seconds| Part::new(Place::Tier(Duration::from_secs(seconds)), 0);
    let waiting = |jobs: Figure<u64>| Part::new(Place::Waiting, jobs);
    let (silent, unreported, early) = (
        Figure::unknown("no answer"),
        Figure::unknown("no pool reports it"),
        Figure::unknown("no probe has come through yet"),
    );
    let table = [
        (Some(vec![Some(Passing)]), tier(1), Figure::Known(Some(Passing))),
        (Some(vec![Some(Passing), Some(Stuck), Some(Late)]), tier(1), Figure::Known(Some(Stuck))),
        (Some(vec![Some(Unknown), Some(Passing), None]), tier(1), Figure::Known(Some(Passing))),
        (Some(vec![Some(Unknown), None]), tier(1), early),
        // Without a pool, and with one of an earlier version.
        (Some(vec![]), tier(60), unreported.clone()),
        (Some(vec![None]), tier(60), unreported.clone()),
        (Some(vec![]), waiting(Figure::unknown("no URL")), unreported),
        (None, tier(60), silent),
        // Nothing is probed.
        (Some(vec![None]), tier(61), Figure::Known(None)),
        (Some(vec![]), waiting(Figure::Known(3)), Figure::Known(None)),
    ];
    for (reports, part, expected) in table {
        let report = |waits: &Option<Passage>| {
            let mut queue = PoolQueue::new("mail", 1);
            queue.waits = *waits;
            let started = std::time::SystemTime::UNIX_EPOCH;
            PoolReport::new(crate::engine::PoolId::new(), String::new(), started, vec![queue])
        };
        let asked = Asked {
            reports: reports.as_ref().map(|reports| reports.iter().map(report).collect()),
            unaccounted: BTreeMap::new(),
            problem: "no answer".into(),
        };
        let view = asked.overview("mail".into(), vec![part.clone()], Figure::Known(None));
        assert_eq!(view.waits, expected, "{reports:?} {part:?}");
    }
}

/// An engine that counts the probes of two pools among its jobs.
#[derive(Debug)]
struct Probed;

#[async_trait]
impl Administer for Probed {
    async fn counts(&self, _: &str) -> Result<Counts> {
        Ok(Counts::from_parts(&self.parts("mail").await?))
    }

    async fn parts(&self, _: &str) -> Result<Vec<Part>> {
        Ok(vec![Part::new(Place::Tier(Duration::from_secs(1)), 5)])
    }

    async fn in_levels(&self) -> Result<Figure<u64>> {
        Ok(Figure::Known(7))
    }

    async fn ask(&self, _: Ask) -> Result<Answers> {
        let reply = |(probes, level_probes)| {
            let mut queue = PoolQueue::new("mail", 1);
            queue.probes = probes;
            let (host, start) = (String::new(), SystemTime::UNIX_EPOCH);
            let mut report = PoolReport::new(PoolId::new(), host, start, vec![queue]);
            report.level_probes = level_probes;
            (report.pool, Reply::Report(report))
        };
        Ok(Answers::new([(1, 3), (2, 2)].map(reply).into(), BTreeMap::new()))
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

#[tokio::test]
async fn probes_are_no_jobs() {
    let names = QueueNames::new(BTreeSet::from(["mail".to_owned()]), vec!["named"], false);
    let found = overview(&Probed, names, Duration::ZERO).await.unwrap();
    let mail = &found.queues[0];
    assert_eq!((&mail.waiting, &mail.parts[0].jobs), (&3.into(), &5.into()));
    assert_eq!(found.in_levels, 4);
    assert!(without(Figure::Known(1), [2].into_iter()) == 0, "some have come out meanwhile");
}
