use std::time::Duration;

use super::*;
use crate::engine::QueueSpec;

fn spec(name: &str, waits: &[u64]) -> QueueSpec {
    QueueSpec::new(name).waits(waits.iter().map(|ms| Duration::from_millis(*ms)))
}

#[test]
fn the_whole_topology_of_a_queue() {
    let mail = spec("mail", &[30_000, 600_000]).patterns(["user.*"]).solo().seat();
    let printed = Topology::new(&Names::new("jobq"), &Wanted::queues(&[mail])).to_string();
    let expected = "\
exchange jobq.orphan fanout
queue jobq.orphan x-delivery-limit=2147483647 x-queue-type=quorum
binding jobq.orphan -> jobq.orphan
exchange jobq direct alternate-exchange=jobq.orphan
exchange jobq.retry direct alternate-exchange=jobq.orphan
exchange jobq.deliver direct alternate-exchange=jobq.orphan
exchange jobq.failed direct alternate-exchange=jobq.orphan
exchange jobq.level.deliver topic alternate-exchange=jobq.orphan
exchange jobq.events topic
exchange jobq.control direct
exchange jobq.control.echo topic
exchange jobq.paused topic
queue jobq:orphan@failed x-delivery-limit=2147483647 x-queue-type=quorum
binding jobq.failed -> jobq:orphan@failed key=orphan
queue jobq:mail@wait.30s x-dead-letter-exchange=jobq.deliver x-dead-letter-strategy=at-least-once x-message-ttl=30000 x-overflow=reject-publish x-queue-type=quorum
binding jobq.retry -> jobq:mail@wait.30s key=mail@30000
queue jobq:mail@wait.10m x-dead-letter-exchange=jobq.deliver x-dead-letter-strategy=at-least-once x-message-ttl=600000 x-overflow=reject-publish x-queue-type=quorum
binding jobq.retry -> jobq:mail@wait.10m key=mail@600000
queue jobq:mail@failed x-delivery-limit=2147483647 x-queue-type=quorum
binding jobq.failed -> jobq:mail@failed key=mail
queue jobq:mail x-consumer-timeout=86400000 x-dead-letter-exchange=jobq.retry x-dead-letter-strategy=at-least-once x-delivery-limit=2147483647 x-overflow=reject-publish x-queue-type=quorum
binding jobq -> jobq:mail key=mail
binding jobq.deliver -> jobq:mail key=mail
binding jobq -> jobq:mail key=mail@30000
binding jobq.deliver -> jobq:mail key=mail@30000
binding jobq -> jobq:mail key=mail@600000
binding jobq.deliver -> jobq:mail key=mail@600000
queue jobq:mail@due x-dead-letter-exchange=jobq.deliver x-dead-letter-routing-key=mail x-dead-letter-strategy=at-least-once x-message-ttl=10 x-overflow=reject-publish x-queue-type=quorum
binding jobq.level.deliver -> jobq:mail@due key=*.*.*.*.*.*.*.*.q.mail
queue jobq:mail@solo x-consumer-timeout=86400000 x-delivery-limit=2147483647 x-queue-type=quorum x-single-active-consumer=true
binding jobq -> jobq:mail@solo key=mail@solo
queue jobq:mail@seat x-consumer-disconnected-timeout=5000 x-consumer-timeout=86400000 x-delivery-limit=2147483647 x-queue-type=quorum x-single-active-consumer=true
binding jobq.control -> jobq:mail@seat key=seat:mail
binding jobq.events -> jobq:mail key=user.*
binding jobq.level.deliver -> jobq:mail@due key=*.*.*.*.*.*.*.*.e.user.*
";
    assert_eq!(printed, expected);
}

#[test]
fn each_priority_has_a_work_queue_that_shares_the_tiers() {
    let plain = Topology::new(&Names::new("jobq"), &Wanted::queues(&[spec("mail", &[30_000])]));
    let mail = spec("mail", &[30_000]).priorities();
    let printed = Topology::new(&Names::new("jobq"), &Wanted::queues(&[mail])).to_string();
    let high = "\
binding jobq.retry -> jobq:mail@wait.30s key=mail@high@30000
queue jobq:mail@high x-consumer-timeout=86400000 x-dead-letter-exchange=jobq.retry x-dead-letter-strategy=at-least-once x-delivery-limit=2147483647 x-overflow=reject-publish x-queue-type=quorum
binding jobq -> jobq:mail@high key=mail@high
binding jobq.deliver -> jobq:mail@high key=mail@high
binding jobq -> jobq:mail@high key=mail@high@30000
binding jobq.deliver -> jobq:mail@high key=mail@high@30000
queue jobq:mail@high@due x-dead-letter-exchange=jobq.deliver x-dead-letter-routing-key=mail@high x-dead-letter-strategy=at-least-once x-message-ttl=10 x-overflow=reject-publish x-queue-type=quorum
binding jobq.level.deliver -> jobq:mail@high@due key=*.*.*.*.*.*.*.*.q.mail@high
";
    let lanes = printed.strip_prefix(&plain.to_string());
    assert_eq!(lanes, Some(&*format!("{high}{}", high.replace("@high", "@low"))));
}

#[test]
fn the_levels_are_a_chain_that_is_built_from_its_end() {
    let names = Names::new("jobq");
    let printed = Topology::new(&names, &Wanted::levels(levels::LEVELS)).to_string();
    let shared = Topology::new(&names, &Wanted::shared()).to_string();
    let levels = printed.strip_prefix(&shared).unwrap();
    let lines: Vec<_> = levels.lines().collect();
    assert_eq!(lines.len(), 8 * 2 + 116 * 2, "each exchange has a binding, and each queue");
    let first_level = [
        "exchange jobq.level.0 topic alternate-exchange=jobq.orphan",
        "binding jobq.level.0 -> jobq.level.deliver key=*.*.*.*.*.*.*.0.#",
        "queue jobq.level.0.1 x-dead-letter-exchange=jobq.level.deliver x-dead-letter-strategy=at-least-once x-message-ttl=100 x-overflow=reject-publish x-queue-type=quorum",
        "binding jobq.level.0 -> jobq.level.0.1 key=*.*.*.*.*.*.*.1.#",
    ];
    assert_eq!(lines[..4], first_level);
    let last = [
        "queue jobq.level.7.11 x-dead-letter-exchange=jobq.level.6 x-dead-letter-strategy=at-least-once x-message-ttl=295279001600 x-overflow=reject-publish x-queue-type=quorum",
        "binding jobq.level.7 -> jobq.level.7.11 key=11.#",
    ];
    assert_eq!(lines[lines.len() - 2..], last);
    for line in lines {
        let name = |text: &str| text.split(' ').nth(1).map(str::to_owned);
        let used = line.split_once("letter-exchange=").map(|(_, rest)| format!("x {rest}"));
        let used = used.or(line.split_once(" -> ").map(|(_, to)| format!("x {to}")));
        if let Some(used) = used.and_then(|used| name(&used)) {
            let made = format!(" {used} ");
            let before = printed.find(line).unwrap();
            assert!(printed[..before].contains(&made), "{line}");
        }
    }
}

#[test]
fn one_queue_named_twice_has_the_tiers_of_both() {
    let once = Topology::from_queues("jobq", &[spec("a", &[1_000, 2_000])]);
    assert_eq!(Topology::from_queues("jobq", &[spec("a", &[2_000]), spec("a", &[1_000])]), once);
    let none = Topology::from_queues("jobq", &[spec("a", &[])]);
    assert_eq!(Topology::from_queues("jobq", &[spec("a", &[0])]), none, "no tier for no wait");
}

#[test]
fn a_queue_may_be_called_orphan() {
    let printed = Topology::from_queues("jobq", &[spec("orphan", &[])]).to_string();
    assert_eq!(printed.matches("queue jobq:orphan@failed").count(), 1, "{printed}");
    assert!(printed.contains("queue jobq:orphan x-consumer-timeout"), "{printed}");
}

#[test]
fn every_name_fits() {
    let mut waits = spec(&"q".repeat(120), &[1, 315_359_999_999]);
    waits.waits.insert(Duration::MAX);
    waits.waits.insert(Duration::from_nanos(1));
    for declaration in Topology::from_queues(&"n".repeat(32), &[waits]).declarations() {
        let names = match declaration {
            Declaration::Exchange { name, .. } | Declaration::Queue { name, .. } => vec![name],
            Declaration::Binding { exchange, queue, .. } => vec![exchange, queue],
            Declaration::ExchangeBinding { from, to, .. } => vec![from, to],
        };
        assert!(names.iter().all(|name| name.len() <= 178), "{declaration}");
    }
}

#[test]
fn control_has_parts_of_its_own() {
    let names = Names::new("jobq");
    let shared = Topology::new(&names, &Wanted::shared()).to_string();
    let control = Topology::of_control(&names).to_string();
    assert!(shared.contains(&control) && control.lines().count() == 3, "{control}");
    let record = Topology::of_pause_record(&names, "mail").to_string();
    let expected = "queue jobq:mail@paused x-delivery-limit=2147483647 x-queue-type=quorum \
                    x-single-active-consumer=true\n\
                    binding jobq.control -> jobq:mail@paused key=record:mail\n";
    assert_eq!(record, expected);
}
