use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::engine::QueueSpec;
use crate::error::ErrorKind;
use crate::rabbitmq::admin::doctor::facts::{Binding, Consumer, State};
use crate::rabbitmq::topology::declaration::{Argument, Declaration};

fn names() -> Names {
    Names::new("jobq")
}

fn topology() -> Topology {
    Topology::from_queues("jobq", &[QueueSpec::new("mail").waits([Duration::from_secs(30)])])
}

/// Queues as jobq declares them, on these nodes.
fn sound(nodes: &[&str]) -> Vec<Queue> {
    let topology = topology();
    let queue = |declaration: &Declaration| {
        let Declaration::Queue { name, arguments } = declaration else {
            return None;
        };
        let value = |argument: &Argument| match argument {
            Argument::Number(number) => json!(number),
            Argument::Text(text) => json!(text),
            Argument::Truth(truth) => json!(truth),
        };
        let arguments: Value =
            arguments.iter().map(|(key, found)| (key.to_string(), value(found))).collect();
        let nodes: Vec<_> = nodes.iter().map(|node| (*node).to_owned()).collect();
        Some(Queue {
            name: name.clone(),
            kind: Some("quorum".into()),
            arguments,
            effective: json!({}),
            members: Some(nodes),
            ..Queue::default()
        })
    };
    topology.declarations().iter().filter_map(queue).collect()
}

fn bindings() -> Vec<Binding> {
    topology().declarations().iter().filter_map(Binding::of).collect()
}

fn node(name: &str) -> Node {
    Node { name: name.into(), running: true, ..Node::default() }
}

/// The facts of a healthy cluster.
fn healthy() -> Facts {
    let nodes = ["a", "b", "c"];
    Facts {
        vhost: "/".into(),
        version: Some("4.3.7".into()),
        heartbeat: 20,
        publishing: Publishing::Taken,
        management: Some(Management {
            queues: Ok(sound(&nodes)),
            nodes: Ok(nodes.map(node).into()),
            bindings: Ok(bindings()),
            dead_lettering: Ok(Vec::new()),
            consumers: Ok(Vec::new()),
        }),
        ..Facts::default()
    }
}

fn findings(facts: &Facts) -> Vec<Finding> {
    diagnose(facts, &names(), &topology())
}

fn found(facts: &Facts) -> Vec<(Kind, Severity)> {
    findings(facts).iter().map(|finding| (finding.kind(), finding.severity())).collect()
}

fn of_cluster(facts: &mut Facts) -> (&mut Vec<Queue>, &mut Vec<Node>) {
    match &mut facts.management {
        Some(Management { queues: Ok(queues), nodes: Ok(nodes), .. }) => (queues, nodes),
        other => panic!("{other:?}"),
    }
}

fn queue<'f>(facts: &'f mut Facts, name: &str) -> &'f mut Queue {
    of_cluster(facts).0.iter_mut().find(|queue| queue.name == name).unwrap()
}

#[test]
fn where_all_is_well_nothing_is_found() {
    assert_eq!(findings(&healthy()), []);
}

/// A management API that answers questions about dead-lettering alone.
fn refusing() -> Management {
    Management {
        queues: Err("no".into()),
        nodes: Err("no".into()),
        bindings: Err("no".into()),
        dead_lettering: Ok(Vec::new()),
        consumers: Err("no".into()),
    }
}

fn set(facts: &mut Facts, title: &str, state: State) {
    facts.places.insert(title.to_owned(), state);
}

/// A change of healthy facts, and what is found then.
type Row<'t> = (fn(&mut Facts), &'t [(Kind, Severity)]);

fn check(table: &[Row<'_>]) {
    for (index, (change, expected)) in table.iter().enumerate() {
        let mut facts = healthy();
        change(&mut facts);
        assert_eq!(found(&facts), *expected, "row {index}: {:#?}", findings(&facts));
        for finding in findings(&facts) {
            let said = [finding.about(), finding.what()];
            assert!(said.iter().all(|said| !said.is_empty()), "{finding:?}");
        }
    }
}

#[test]
fn each_fact_has_its_finding() {
    use Severity::{Error, Note, Warning};
    check(&[
        (|facts| facts.version = None, &[(Kind::Version, Warning)]),
        (|facts| facts.version = Some("rabbit".into()), &[(Kind::Version, Warning)]),
        (
            |facts| facts.version = Some("3.9.29".into()),
            &[(Kind::Version, Error), (Kind::AckTimeout, Warning)],
        ),
        (
            |facts| facts.version = Some("3.10.8".into()),
            &[(Kind::Version, Note), (Kind::AckTimeout, Warning)],
        ),
        (|facts| facts.version = Some("3.12.0".into()), &[(Kind::Version, Note)]),
        (|facts| facts.version = Some("4.0.5".into()), &[(Kind::Version, Note)]),
        (|facts| facts.version = Some("4.2.5".into()), &[(Kind::Version, Warning)]),
        (|facts| facts.version = Some("4.2.7".into()), &[]),
        (|facts| facts.version = Some("4.4.0-rc.1".into()), &[(Kind::Version, Note)]),
        (|facts| facts.temporary = QueueType::Quorum, &[(Kind::QueueTypes, Note)]),
        (|facts| facts.heartbeat = 0, &[(Kind::Heartbeat, Warning)]),
        (|facts| facts.publishing = Publishing::Unknown, &[]),
        (
            |facts| facts.publishing = Publishing::Blocked("low on disk".into()),
            &[(Kind::Alarm, Error)],
        ),
        (|facts| facts.publishing = Publishing::Silent("5s".into()), &[(Kind::Alarm, Error)]),
        (
            |facts| {
                set(facts, "queue `jobq:mail`", State::Missing);
                set(facts, "queue `jobq:mail@failed`", State::Missing);
            },
            &[(Kind::Queue, Note)],
        ),
        (|facts| set(facts, "queue `jobq:mail@failed`", State::Missing), &[(Kind::Queue, Error)]),
        (|facts| set(facts, "queue `jobq:mail`", State::Uncompared), &[]),
        (|facts| set(facts, "queue `jobq:mail`", State::Hidden), &[(Kind::Unchecked, Note)]),
        (
            |facts| {
                let error = crate::error::Error::new(ErrorKind::Conflict, "it differs");
                set(facts, "exchange `jobq`", error.into());
            },
            &[(Kind::Arguments, Error)],
        ),
    ]);
}

/// Adds high jobs that nobody takes to a queue with so many consumers.
fn with_high_jobs(facts: &mut Facts, consumers: u64) {
    let mail = queue(facts, "jobq:mail");
    mail.consumers = Some(consumers);
    let (messages, consumers) = (Some(3), Some(0));
    let high = Queue { name: "jobq:mail@high".into(), messages, consumers, ..mail.clone() };
    of_cluster(facts).0.push(high);
}

#[test]
fn each_fact_of_the_management_api_has_its_finding() {
    use Severity::{Error, Warning};
    check(&[
        (|facts| facts.management = None, &[(Kind::Unchecked, Warning)]),
        (|facts| facts.management = Some(refusing()), &[(Kind::Unchecked, Warning); 2]),
        (
            |facts| of_cluster(facts).1[0].running = false,
            &[(Kind::Node, Warning), (Kind::Replicas, Warning)],
        ),
        (|facts| of_cluster(facts).1[0].mem_alarm = true, &[(Kind::Alarm, Error)]),
        (|facts| of_cluster(facts).1[0].disk_free_alarm = true, &[(Kind::Alarm, Error)]),
        (|facts| of_cluster(facts).1[0].partitions = vec!["b".into()], &[(Kind::Node, Error)]),
        (
            |facts| {
                let members = Some(vec!["a".into(), "b".into()]);
                of_cluster(facts).1.truncate(2);
                of_cluster(facts).0.iter_mut().for_each(|queue| queue.members = members.clone());
            },
            &[(Kind::Replicas, Warning)],
        ),
        (
            |facts| queue(facts, "jobq:mail").members = Some(vec!["a".into()]),
            &[(Kind::Replicas, Warning)],
        ),
        (
            |facts| of_cluster(facts).1[1..].iter_mut().for_each(|node| node.running = false),
            &[(Kind::Node, Warning), (Kind::Node, Warning), (Kind::Replicas, Error)],
        ),
        // The state of hidden nodes is unknown.
        (
            |facts| {
                let queues = Ok(of_cluster(facts).0.clone());
                let bindings = Ok(bindings());
                let consumers = Ok(Vec::new());
                facts.management = Some(Management { queues, bindings, consumers, ..refusing() });
            },
            &[(Kind::Unchecked, Warning)],
        ),
        (
            |facts| {
                let (queue, tag) = ("jobq:mail".into(), "x".into());
                let other = Consumer { queue, tag, ..Consumer::default() };
                facts.management.as_mut().unwrap().consumers = Ok(vec![other]);
            },
            &[(Kind::Consumers, Warning)],
        ),
        // Nobody takes high jobs: the pools do not know of them. A paused queue has no consumers.
        (|facts| with_high_jobs(facts, 1), &[(Kind::Queue, Error)]),
        (|facts| with_high_jobs(facts, 0), &[]),
        (
            |facts| facts.management.as_mut().unwrap().consumers = Err("no".into()),
            &[(Kind::Unchecked, Warning)],
        ),
        (
            |facts| queue(facts, "jobq:mail").arguments["x-max-length"] = json!(5),
            &[(Kind::Arguments, Error)],
        ),
        (
            |facts| queue(facts, "jobq:mail").effective = json!({"max-length": 5}),
            &[(Kind::Policy, Error)],
        ),
        (
            |facts| queue(facts, "jobq:mail@failed").effective = json!({"message-ttl": 5}),
            &[(Kind::Policy, Warning)],
        ),
    ]);
}

#[test]
fn a_single_node_is_one_finding() {
    let mut facts = healthy();
    *of_cluster(&mut facts).0 = sound(&["a"]);
    *of_cluster(&mut facts).1 = vec![node("a")];
    let findings = findings(&facts);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert!(findings[0].what().contains("single node"));
}

#[test]
fn a_policy_is_named_with_its_queues_and_the_remedy() {
    let mut facts = healthy();
    facts.vhost = "shop".into();
    for found in of_cluster(&mut facts).0 {
        found.policy = Some("all".into());
        found.effective = json!({"max-length": 5});
    }
    queue(&mut facts, "jobq:mail").operator_policy = Some("ops".into());
    let findings = findings(&facts);
    // Work queue, tier, queue out of the levels, the levels, and the queues of failed jobs.
    assert_eq!(findings.len(), 6, "{findings:#?}");
    let about = |about: &str| findings.iter().find(|finding| finding.about() == about).unwrap();
    let work = about("queue `jobq:mail`");
    assert_eq!(work.what(), "policy `all` or operator policy `ops` sets `max-length` to 5");
    for said in [
        "`rabbitmqctl clear_policy -p shop all`",
        "`rabbitmqctl clear_operator_policy -p shop ops`",
    ] {
        assert!(work.advice().contains(said), "{work}");
    }
    assert_eq!(about("queue `jobq:mail@wait.30s`").severity(), Severity::Error);
    assert_eq!(about("queue `jobq.orphan`").severity(), Severity::Warning);
    let levels = findings.iter().find(|finding| finding.about().contains("jobq.level")).unwrap();
    assert!(levels.about().starts_with("queues `jobq.level."), "{levels}");
    assert!(levels.about().ends_with("and 113 more"), "{levels}");
}

#[test]
fn arguments_are_compared_both_ways() {
    let mut facts = healthy();
    let mail = queue(&mut facts, "jobq:mail");
    mail.arguments["x-delivery-limit"] = json!(20);
    mail.arguments["x-expires"] = json!(1_000);
    mail.arguments.as_object_mut().unwrap().remove("x-overflow");
    // The type may be the broker's default.
    mail.arguments.as_object_mut().unwrap().remove("x-queue-type");
    let different = findings(&facts);
    assert_eq!(different.len(), 1, "{different:#?}");
    assert_eq!(
        different[0].what(),
        "`x-delivery-limit` is 20, jobq needs 2147483647; `x-overflow` is missing, jobq needs \
         reject-publish; `x-expires` is 1000, jobq has none"
    );
    // A refusal by the broker is reported once.
    let refusal = crate::error::Error::new(ErrorKind::Conflict, "the first difference");
    set(&mut facts, "queue `jobq:mail`", refusal.into());
    assert_eq!(found(&facts), [(Kind::Arguments, Severity::Error)]);
    facts.places.clear();
    queue(&mut facts, "jobq:mail").kind = Some("classic".into());
    assert!(
        findings(&facts)[0].what().contains("`x-queue-type` is \"classic\", jobq needs quorum")
    );
}
