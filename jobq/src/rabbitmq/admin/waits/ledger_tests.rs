use super::*;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::probes::wait_queues;
use crate::rabbitmq::topology::requirements::Wanted;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A ledger of a queue with a tier of 10 s.
fn ledger() -> (Ledger, String) {
    let mut ledger = Ledger::default();
    let mail = crate::engine::QueueSpec::new("mail").waits([s(10)]);
    ledger.keep(wait_queues(&Names::new("jobq"), &Wanted::queues(&[mail]), 0));
    (ledger, "mail@10000@probe".to_owned())
}

fn due(ledger: &Ledger, now: u64) -> usize {
    ledger.due(s(now), 100).len()
}

#[test]
fn a_queue_is_probed_once_a_minute_whoever_sends() {
    let (mut ledger, key) = ledger();
    assert_eq!(due(&ledger, 0), 1);
    let ids = [(); 2].map(|()| Uuid::now_v7());
    ledger.sent(&key, ids[0], s(0));
    ledger.sent(&key, ids[0], s(1));
    assert_eq!((due(&ledger, 59), due(&ledger, 60)), (0, 1));
    // One that another pool sent, though the last did not come yet.
    ledger.sent(&key, ids[1], s(30));
    assert_eq!((due(&ledger, 89), due(&ledger, 90)), (0, 1));
    ledger.sent("other@1@probe", ids[1], s(80));
    assert_eq!(due(&ledger, 90), 1, "it is of another queue");
}

#[test]
fn a_probe_is_counted_among_jobs_until_it_is_due() {
    let (mut ledger, key) = ledger();
    ledger.sent(&key, Uuid::now_v7(), s(100));
    for (now, waiting) in [(100, 1), (109, 1), (110, 0), (500, 0)] {
        assert_eq!(ledger.waiting(Some("mail"), s(now)), waiting, "{now}");
    }
    assert_eq!((ledger.waiting(Some("other"), s(100)), ledger.waiting(None, s(100))), (0, 0));
}

#[test]
fn a_probe_that_does_not_come_is_late_and_then_stuck() {
    let (mut ledger, key) = ledger();
    let id = Uuid::now_v7();
    ledger.sent(&key, id, s(100));
    let table = [
        (139, Passage::Unknown, 0),
        (140, Passage::Late, 1),
        (141, Passage::Late, 0),
        (319, Passage::Late, 0),
        (320, Passage::Stuck, 1),
        (321, Passage::Stuck, 0),
    ];
    for (now, passage, told) in table {
        assert_eq!(ledger.judge(s(now)).len(), told, "{now}");
        assert_eq!(ledger.passage(Some("mail")), Some(passage), "{now}");
    }
    // One that is stuck gets few others.
    ledger.sent(&key, Uuid::now_v7(), s(320));
    assert_eq!((due(&ledger, 529), due(&ledger, 530)), (0, 1));
    let change = ledger.came(&key, id).expect("it is told");
    assert_eq!((&*change.name, change.passage), ("jobq:mail@wait.10s", Passage::Passing));
    assert_eq!(ledger.came(&key, Uuid::now_v7()), None);
    assert!(ledger.judge(s(359)).is_empty(), "the other is in time");
}

#[test]
fn those_sent_before_one_that_came_are_not_waited_for() {
    let (mut ledger, key) = ledger();
    let ids = [(); 3].map(|()| Uuid::now_v7());
    ids.iter().zip([0, 60, 120]).for_each(|(id, at)| ledger.sent(&key, *id, s(at)));
    ledger.came(&key, ids[1]);
    assert!(ledger.judge(s(159)).is_empty());
    assert_eq!(ledger.judge(s(160))[0].passage, Passage::Late);
    // Its place does not become free for newer ones alone.
    (0..100).for_each(|at| ledger.sent(&key, Uuid::now_v7(), s(200 + at)));
    assert_eq!(ledger.judge(s(340))[0].passage, Passage::Stuck, "by the oldest");
}

#[test]
fn an_interruption_counts_for_nothing_and_clears_no_trouble() {
    let (mut ledger, key) = ledger();
    ledger.sent(&key, Uuid::now_v7(), s(0));
    assert_eq!(ledger.due(s(1), 9).len(), 0);
    ledger.interrupt();
    // Nothing is on its way for which the next probe could wait.
    assert_eq!(ledger.due(s(1), 9).len(), 1);
    assert!(ledger.judge(s(1_000)).is_empty());
    ledger.came(&key, Uuid::now_v7());
    assert_eq!(ledger.passage(Some("mail")), Some(Passage::Passing));
    ledger.interrupt();
    assert_eq!(ledger.passage(Some("mail")), Some(Passage::Unknown));
    ledger.sent(&key, Uuid::now_v7(), s(1_000));
    ledger.judge(s(1_300));
    ledger.interrupt();
    ledger.sent(&key, Uuid::now_v7(), s(1_400));
    assert!(ledger.judge(s(1_441)).is_empty(), "no second warning");
    assert_eq!(ledger.passage(Some("mail")), Some(Passage::Stuck), "none has come since");
}

#[test]
fn the_worst_of_a_queue_is_told_and_the_levels_are_apart() {
    let names = Names::new("jobq");
    let mail = crate::engine::QueueSpec::new("mail").waits([s(1), s(10)]);
    let probed = wait_queues(&names, &Wanted::queues(&[mail]), 1);
    let mut ledger = Ledger::default();
    ledger.keep(probed.clone());
    ledger.came("mail@1000@probe", Uuid::now_v7());
    assert_eq!(ledger.passage(Some("mail")), Some(Passage::Unknown), "of one nothing is known");
    ledger.came("mail@10000@probe", Uuid::now_v7());
    assert_eq!(ledger.passage(Some("mail")), Some(Passage::Passing));
    assert_eq!(
        (ledger.passage(None), ledger.passage(Some("other"))),
        (Some(Passage::Unknown), None)
    );
    assert_eq!(ledger.due(s(0), 5).len(), 5, "a round is bounded");
    ledger.keep(probed.into_iter().filter(|probed| probed.queue.is_some()).collect());
    assert_eq!(
        (ledger.passage(None), ledger.passage(Some("mail"))),
        (None, Some(Passage::Passing))
    );
}
