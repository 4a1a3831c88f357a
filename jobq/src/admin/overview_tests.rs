use super::*;

#[test]
fn an_unknown_figure_is_null_and_has_its_reason_beside_it() {
    let asked = Asked {
        reports: Some(Vec::new()),
        unaccounted: BTreeMap::from([("mail".to_owned(), Read::Known(2))]),
        problem: String::new(),
    };
    let view = asked.overview("mail".into(), Counts::new(5, 0, 0).into_parts(), Read::Known(None));
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
            unaccounted: BTreeMap::from([("mail".to_owned(), Read::Known(0))]),
            problem: String::new(),
        };
        let view = asked.overview("mail".into(), Vec::new(), Read::Known(None));
        let json = serde_json::to_value(view).unwrap();
        let found = (json["p50_ms"].as_f64(), json["p95_ms"].as_f64());
        assert_eq!(found, (p50, p95), "{json:#}");
        for name in ["p50_ms", "p95_ms"] {
            assert_eq!(json["unknown"][name].as_str(), why, "{json:#}");
        }
    }
    let asked = Asked { reports: None, unaccounted: BTreeMap::new(), problem: "no answer".into() };
    let view = asked.overview("mail".into(), Vec::new(), Read::Known(None));
    assert_eq!(view.durations.why(), Some("no answer"));
}

#[test]
fn whether_jobs_come_out_of_the_tiers_is_the_worst_that_pools_say() {
    use Passage::{Late, Passing, Stuck, Unknown};
    let tier = |seconds| Part::new(Place::Tier(Duration::from_secs(seconds)), 0);
    let waiting = |jobs: Read<u64>| Part::new(Place::Waiting, jobs);
    let (silent, unreported, early) = (
        Read::unknown("no answer"),
        Read::unknown("no pool reports it"),
        Read::unknown("no probe has come through yet"),
    );
    let table = [
        (Some(vec![Some(Passing)]), tier(1), Read::Known(Some(Passing))),
        (Some(vec![Some(Passing), Some(Stuck), Some(Late)]), tier(1), Read::Known(Some(Stuck))),
        (Some(vec![Some(Unknown), Some(Passing), None]), tier(1), Read::Known(Some(Passing))),
        (Some(vec![Some(Unknown), None]), tier(1), early),
        // Without a pool, and with one of an earlier version.
        (Some(vec![]), tier(60), unreported.clone()),
        (Some(vec![None]), tier(60), unreported.clone()),
        (Some(vec![]), waiting(Read::unknown("no URL")), unreported),
        (None, tier(60), silent),
        // Nothing is probed.
        (Some(vec![None]), tier(61), Read::Known(None)),
        (Some(vec![]), waiting(Read::Known(3)), Read::Known(None)),
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
        let view = asked.overview("mail".into(), vec![part.clone()], Read::Known(None));
        assert_eq!(view.waits, expected, "{reports:?} {part:?}");
    }
}
