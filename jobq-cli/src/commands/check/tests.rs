use jobq::admin::{PoolId, PoolQueue};

use super::*;

fn figures() -> Figures {
    Figures {
        pools: Figure::Known(1),
        unaccounted: Figure::Known(0),
        ready: Figure::Known(5),
        failed: Figure::Known(2),
        waited: Figure::Known(Some(Duration::from_secs(20))),
        state: State::Consumed,
        stood: false,
    }
}

#[test]
fn waits_that_do_not_end_are_breaches_of_their_queues_alone() {
    let report = |levels: Option<Passage>, waits: Option<Passage>| {
        let mut mail = PoolQueue::new("mail", 1);
        mail.waits = waits;
        let queues = vec![mail, PoolQueue::new("video", 1)];
        let started = std::time::SystemTime::UNIX_EPOCH;
        let mut report = PoolReport::new(PoolId::new(), String::new(), started, queues);
        report.levels = levels;
        report
    };
    let (passing, stuck_now) = (Some(Passage::Passing), Some(Passage::Stuck));
    let table = [
        (vec![report(None, None), report(passing, passing)], vec![]),
        (vec![report(Some(Passage::Unknown), Some(Passage::Late))], vec![]),
        (vec![report(passing, stuck_now), report(None, stuck_now)], vec![("mail", 2)]),
        (vec![report(stuck_now, passing), report(passing, passing)], vec![("@levels", 1)]),
    ];
    for (reports, expected) in table {
        let found = stuck(&["mail", "video"], &reports);
        let found: Vec<_> = found.iter().map(|b| (&*b.queue, b.found.unwrap())).collect();
        assert_eq!(found, expected, "{reports:?}");
    }
    let said = sentence(&stuck(&["mail"], &[report(None, stuck_now)])[0]);
    assert!(said.starts_with("mail: waiting jobs are stuck, as 1 of"), "{said}");
    // Only what was asked for.
    assert!(stuck(&["video"], &[report(None, stuck_now)]).is_empty());
}

#[test]
fn a_limit_that_cannot_be_checked_is_a_breach() {
    let none = Limits::default();
    let pools = |number| Limits { min_pools: Some(number), ..none.clone() };
    let failed = |number| Limits { failed_max: Some(number), ..none.clone() };
    let waited =
        |seconds| Limits { waited_max: Some(Duration::from_secs(seconds)), ..none.clone() };
    let unread = || Figure::unknown("no leader");
    let with = |change: fn(&mut Figures)| {
        let mut figures = figures();
        change(&mut figures);
        figures
    };
    let still: fn(&mut Figures) = |f| (f.waited, f.stood) = (Figure::Known(None), true);
    let table: [(Figures, Limits, Option<&str>); 23] = [
        (figures(), pools(1), None),
        (figures(), pools(2), Some("mail: pools: expected at least 2, found 1")),
        (with(|f| f.unaccounted = Figure::Known(3)), pools(1), None),
        (
            with(|f| f.unaccounted = Figure::Known(3)),
            pools(2),
            Some(
                "mail: pools: expected at least 2, found unknown (some consumers belong to no \
                 pool that answered)",
            ),
        ),
        (figures(), failed(2), None),
        (figures(), failed(1), Some("mail: failed: expected at most 1, found 2")),
        (
            Figures { failed: unread(), ..figures() },
            failed(9),
            Some("mail: failed: expected at most 9, found unknown (no leader)"),
        ),
        (Figures { ready: unread(), ..figures() }, failed(9), None),
        (figures(), Limits { ready_max: Some(5), ..none.clone() }, None),
        (figures(), waited(20), None),
        (figures(), waited(19), Some("mail: waited: expected at most 19s, found 20s")),
        // One look alone: the jobs may just have become due.
        (with(|f| f.waited = Figure::Known(None)), waited(1), None),
        (with(|f| f.stood = true), waited(20), None),
        (
            with(still),
            waited(600),
            Some(
                "mail: waited: expected at most 10m, found unknown (jobs wait, and none started \
                 in the last minute)",
            ),
        ),
        (
            Figures { state: State::Paused, ..with(still) },
            waited(30),
            Some(
                "mail: waited: expected at most 30s, found unknown (jobs wait, and none started \
                 in the last minute; the queue is paused)",
            ),
        ),
        (Figures { ready: Figure::Known(0), ..with(still) }, waited(30), None),
        (
            Figures { ready: unread(), ..with(still) },
            waited(30),
            Some("mail: waited: expected at most 30s, found unknown (no leader)"),
        ),
        (
            with(|f| f.state = State::Stuck),
            waited(30),
            Some(
                "mail: waited: expected at most 30s, found unknown (jobs wait, and every slot \
                 is held)",
            ),
        ),
        (
            with(|f| f.state = State::Unattended),
            waited(30),
            Some(
                "mail: waited: expected at most 30s, found unknown (jobs wait, and no pool \
                 takes them)",
            ),
        ),
        (
            with(|f| (f.state, f.ready) = (State::Withheld, Figure::Known(0))),
            waited(30),
            Some(
                "mail: waited: expected at most 30s, found unknown (a pool whose slots are \
                 held has taken jobs ahead, and they wait)",
            ),
        ),
        (with(|f| f.state = State::Withheld), failed(2), None),
        (with(|f| (f.state, f.ready) = (State::Halted, Figure::Known(0))), waited(30), None),
        (with(|f| f.state = State::Paused), waited(30), None),
    ];
    for (figures, limits, expected) in table {
        let found = breaches("mail", &figures, &limits);
        let sentences: Vec<_> = found.iter().map(sentence).collect();
        assert_eq!(sentences, expected.into_iter().collect::<Vec<_>>(), "{limits:?}");
        let expected = if expected.is_none() { End::Done } else { End::No };
        assert_eq!(end(1, &found, None), expected);
    }
    assert_eq!(end(0, &[], None), End::No);
    assert_eq!(end(1, &[], Some("the management API cannot be reached")), End::No);
}

#[test]
fn figures_that_are_unknown_for_one_reason_are_one_line() {
    let unknown = |queue: &str, figure, why: &str| Breach {
        queue: queue.into(),
        figure,
        limit: 1,
        found: None,
        unknown: Some(why.into()),
    };
    let failed =
        |queue: &str| Breach { found: Some(2), unknown: None, ..unknown(queue, "failed", "") };
    let alarm = "low on disk";
    for (breaches, expected) in [
        (vec![], &[][..]),
        (
            vec![failed("a"), failed("b")],
            &["a: failed: expected at most 1, found 2", "b: failed: expected at most 1, found 2"],
        ),
        (
            vec![unknown("a", "failed", alarm)],
            &["a: failed: expected at most 1, found unknown (low on disk)"],
        ),
        (
            vec![
                unknown("a", "pools", alarm),
                failed("a"),
                unknown("b", "pools", alarm),
                unknown("b", "waited_ms", alarm),
                unknown("c", "ready", "no leader"),
            ],
            &[
                "a, b: pools, waited: unknown (low on disk)",
                "a: failed: expected at most 1, found 2",
                "c: ready: expected at most 1, found unknown (no leader)",
            ],
        ),
    ] {
        assert_eq!(sentences(&breaches), expected, "{breaches:?}");
    }
}
