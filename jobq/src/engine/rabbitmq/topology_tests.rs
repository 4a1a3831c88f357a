use super::*;

fn spec(name: &str, waits: &[u64]) -> QueueSpec {
    let waits = waits.iter().map(|ms| Duration::from_millis(*ms)).collect();
    QueueSpec { name: name.to_owned(), waits }
}

#[test]
fn the_whole_topology_of_a_queue() {
    let (names, tiers) = (Names::new("jobq"), [30_000, 600_000].into());
    let printed = Topology::new(&names, [("mail", &tiers)], false).to_string();
    let expected = "\
exchange jobq.orphan fanout
queue jobq.orphan x-delivery-limit=2147483647 x-queue-type=quorum
binding jobq.orphan -> jobq.orphan
exchange jobq direct alternate-exchange=jobq.orphan
exchange jobq.deliver direct alternate-exchange=jobq.orphan
exchange jobq.failed direct alternate-exchange=jobq.orphan
exchange jobq.level.deliver topic alternate-exchange=jobq.orphan
queue jobq:orphan@failed x-delivery-limit=2147483647 x-queue-type=quorum
binding jobq.failed -> jobq:orphan@failed key=orphan
exchange jobq:mail@retry headers alternate-exchange=jobq.orphan
queue jobq:mail@wait.30s x-dead-letter-exchange=jobq.deliver x-dead-letter-strategy=at-least-once x-message-ttl=30000 x-overflow=reject-publish x-queue-type=quorum
binding jobq:mail@retry -> jobq:mail@wait.30s jobq-wait=30000
queue jobq:mail@wait.10m x-dead-letter-exchange=jobq.deliver x-dead-letter-strategy=at-least-once x-message-ttl=600000 x-overflow=reject-publish x-queue-type=quorum
binding jobq:mail@retry -> jobq:mail@wait.10m jobq-wait=600000
queue jobq:mail@failed x-delivery-limit=2147483647 x-queue-type=quorum
binding jobq.failed -> jobq:mail@failed key=mail
queue jobq:mail x-consumer-timeout=86400000 x-dead-letter-exchange=jobq:mail@retry x-dead-letter-routing-key=mail x-dead-letter-strategy=at-least-once x-delivery-limit=2147483647 x-overflow=reject-publish x-queue-type=quorum
binding jobq -> jobq:mail key=mail
binding jobq.deliver -> jobq:mail key=mail
binding jobq.level.deliver -> jobq:mail key=*.*.*.*.*.*.*.*.*.*.*.q.mail
";
    assert_eq!(printed, expected);
}

#[test]
fn the_levels_are_a_chain_that_is_built_from_its_end() {
    let names = Names::new("jobq");
    let printed = Topology::new(&names, [], true).to_string();
    let shared = Topology::new(&names, [], false).to_string();
    let levels = printed.strip_prefix(&shared).unwrap();
    let lines: Vec<_> = levels.lines().collect();
    assert_eq!(lines.len(), 11 * 2 + 72 * 2, "each exchange has a passage, each queue a binding");
    let first_level = [
        "exchange jobq.level.0 topic alternate-exchange=jobq.orphan",
        "binding jobq.level.0 -> jobq.level.deliver key=*.*.*.*.*.*.*.*.*.*.0.#",
        "queue jobq.level.0.1 x-dead-letter-exchange=jobq.level.deliver x-dead-letter-strategy=at-least-once x-message-ttl=100 x-overflow=reject-publish x-queue-type=quorum",
        "binding jobq.level.0 -> jobq.level.0.1 key=*.*.*.*.*.*.*.*.*.*.1.#",
    ];
    assert_eq!(lines[..4], first_level);
    let last = [
        "queue jobq.level.10.2 x-dead-letter-exchange=jobq.level.9 x-dead-letter-strategy=at-least-once x-message-ttl=214748364800 x-overflow=reject-publish x-queue-type=quorum",
        "binding jobq.level.10 -> jobq.level.10.2 key=2.#",
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
    let once = Topology::of("jobq", &[spec("a", &[1_000, 2_000])]);
    assert_eq!(Topology::of("jobq", &[spec("a", &[2_000]), spec("a", &[1_000])]), once);
    let none = Topology::of("jobq", &[spec("a", &[])]);
    assert_eq!(Topology::of("jobq", &[spec("a", &[0])]), none, "no tier for no wait");
}

#[test]
fn a_queue_may_be_called_orphan() {
    let printed = Topology::of("jobq", &[spec("orphan", &[])]).to_string();
    assert_eq!(printed.matches("queue jobq:orphan@failed").count(), 1, "{printed}");
    assert!(printed.contains("queue jobq:orphan x-consumer-timeout"), "{printed}");
}

#[test]
fn every_name_fits() {
    let mut waits = spec(&"q".repeat(120), &[1, 315_359_999_999]);
    waits.waits.insert(Duration::MAX);
    waits.waits.insert(Duration::from_nanos(1));
    for declaration in Topology::of(&"n".repeat(32), &[waits]).declarations() {
        let names = match declaration {
            Declaration::Exchange { name, .. } | Declaration::Queue { name, .. } => vec![name],
            Declaration::Binding { exchange, queue, .. } => vec![exchange, queue],
            Declaration::Passage { from, to, .. } => vec![from, to],
        };
        assert!(names.iter().all(|name| name.len() <= 178), "{declaration}");
    }
}

#[test]
fn a_queue_is_told_from_the_names_made_of_it() {
    let names = Names::new("shop");
    let table = [
        ("shop:mail.welcome", Some("mail.welcome")),
        ("shop:mail@failed", Some("mail")),
        ("shop:mail@wait.1h30m", Some("mail")),
        ("shop.orphan", None),
        ("shop", None),
        ("shopping:mail", None),
        ("", None),
    ];
    for (name, queue) in table {
        assert_eq!(names.queue_of(name), queue, "{name}");
    }
}
