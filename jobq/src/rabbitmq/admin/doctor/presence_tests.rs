use std::time::Duration;

use super::*;
use crate::engine::QueueSpec;
use crate::error::{Error, ErrorKind};

fn names() -> Names {
    Names::new("jobq")
}

fn topology() -> Topology {
    let spec = QueueSpec::new("mail").waits([Duration::from_secs(30)]).patterns(["user.*"]);
    Topology::from_queues("jobq", &[spec.solo()])
}

/// The bindings of a topology, as the management API shows them.
pub(in crate::rabbitmq::admin::doctor) fn bindings(topology: &Topology) -> Vec<Binding> {
    let binding = |source: &str, destination: &str, kind: &str, key: &str| Binding {
        source: source.to_owned(),
        destination: destination.to_owned(),
        destination_type: kind.to_owned(),
        routing_key: key.to_owned(),
    };
    let shown = |declaration: &Declaration| match declaration {
        Declaration::Binding { exchange, queue, by: By::All } => {
            Some(binding(exchange, queue, "queue", ""))
        }
        Declaration::Binding { exchange, queue, by: By::Key(key) } => {
            Some(binding(exchange, queue, "queue", key))
        }
        Declaration::ExchangeBinding { from, to, key } => Some(binding(from, to, "exchange", key)),
        Declaration::Exchange { .. } | Declaration::Queue { .. } => None,
    };
    topology.declarations().iter().filter_map(shown).collect()
}

#[test]
fn each_missing_part_is_named_with_its_consequence() {
    let table = [
        ("jobq.retry", "retries never run"),
        ("jobq.events", "no events can be published"),
        ("jobq.orphan", "lost silently"),
        ("jobq.level.3", "cannot be published to it"),
        ("jobq:mail@wait.30s", "whose retry waits there"),
        ("jobq:mail@due", "with a delay"),
        ("jobq.level.0.7", "with a delay"),
        ("jobq:mail@solo", "cannot run alone"),
        ("jobq:mail@failed", "have no destination"),
        ("jobq:orphan@failed", "have no destination"),
    ];
    let topology = topology();
    for (name, matters) in table {
        let mut facts = Facts::default();
        let is_exchange = topology.declarations().iter().any(
            |declaration| matches!(declaration, Declaration::Exchange { name: of, .. } if of == name),
        );
        let what = if is_exchange { "exchange" } else { "queue" };
        let list = if is_exchange { &mut facts.missing_exchanges } else { &mut facts.missing };
        list.push(name.to_owned());
        let found = missing(&facts, &names());
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        assert_eq!(found[0].severity(), Severity::Error, "{name}");
        assert_eq!(found[0].about(), format!("{what} `{name}`"));
        assert!(found[0].why().contains(matters), "{name}: {}", found[0].why());
        assert!(!found[0].advice().contains("delete"), "{name}");
        // Its bindings are missing as well, and are not reported.
        let found = missing_bindings(&bindings(&topology), &facts, &names(), &topology);
        assert_eq!(found, [], "{name}");
    }
}

#[test]
fn an_unused_namespace_misses_nothing() {
    let mut facts = Facts::default();
    for declaration in topology().declarations() {
        match declaration {
            Declaration::Exchange { name, .. } => facts.missing_exchanges.push(name.clone()),
            Declaration::Queue { name, .. } => facts.missing.push(name.clone()),
            _ => {}
        }
    }
    let found = missing(&facts, &names());
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].about(), found[0].severity()), ("queue `jobq:mail`", Severity::Note));
    // Another application has an exchange and a queue of these names.
    facts.missing.retain(|name| name != "jobq:mail");
    facts.missing_exchanges.retain(|name| name != "jobq");
    assert_eq!(missing(&facts, &names()), []);
    assert_eq!(missing_bindings(&[], &facts, &names(), &topology()), []);
}

#[test]
fn each_binding_that_is_gone_is_named() {
    let topology = topology();
    let all = bindings(&topology);
    assert_eq!(missing_bindings(&all, &Facts::default(), &names(), &topology), []);
    for gone in &all {
        let rest: Vec<_> = all.iter().filter(|binding| *binding != gone).cloned().collect();
        let found = missing_bindings(&rest, &Facts::default(), &names(), &topology);
        assert_eq!(found.len(), 1, "{gone:?}: {found:?}");
        let said = found[0].to_string();
        for name in [&gone.source, &gone.destination] {
            assert!(said.contains(&format!("`{name}`")), "{said}");
        }
        assert!(said.contains(&format!("`{}`", gone.routing_key)), "{said}");
        assert_eq!((found[0].kind(), found[0].severity()), (Kind::Routing, Severity::Error));
    }
}

#[test]
fn only_different_parts_are_to_be_deleted() {
    let error = |kind| Error::new(kind, "said so");
    let table = [
        (ErrorKind::Conflict, Kind::Arguments, Severity::Error, true),
        (ErrorKind::Refused, Kind::Unchecked, Severity::Warning, false),
        (ErrorKind::Timeout, Kind::Unchecked, Severity::Warning, false),
        (ErrorKind::NotFound, Kind::Unchecked, Severity::Warning, false),
    ];
    for (kind, expected, severity, is_to_be_deleted) in table {
        let refused = vec![("queue `jobq:mail`".to_owned(), error(kind))];
        let found = not_compared(&Facts { refused, ..Facts::default() });
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].kind(), found[0].severity()), (expected, severity));
        assert_eq!(found[0].to_string().contains("delete"), is_to_be_deleted, "{}", found[0]);
        assert!(found[0].to_string().contains("said so"), "{}", found[0]);
    }
}

#[test]
fn uncompared_parts_are_one_finding() {
    let some = |count: usize| (0..count).map(|n| format!("queue `q{n}`")).collect::<Vec<_>>();
    for (count, about) in [
        (1, "queue `q0`"),
        (3, "queue `q0`, queue `q1`, queue `q2`"),
        (9, "queue `q0`, queue `q1`, queue `q2` and 6 more"),
    ] {
        let mut facts = Facts { uncompared: some(count), ..Facts::default() };
        for facts in [&facts, &Facts { hidden: some(count), ..Facts::default() }] {
            let found = not_compared(facts);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!((found[0].about(), found[0].severity()), (about, Severity::Note));
            assert!(!found[0].to_string().contains("delete"), "{}", found[0]);
        }
        // The management API shows the arguments.
        let (queues, nodes, bindings) = (Ok(Vec::new()), Ok(Vec::new()), Ok(Vec::new()));
        facts.management =
            Management::Asked { queues, nodes, bindings, dead_lettering: Ok(Vec::new()) };
        assert_eq!(not_compared(&facts), []);
    }
    let facts = Facts { unanswered: Some("queue `q`".into()), ..Facts::default() };
    assert_eq!(not_compared(&facts)[0].severity(), Severity::Warning);
}
