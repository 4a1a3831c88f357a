use std::time::Duration;

use super::*;
use crate::engine::QueueSpec;
use crate::error::{Error, ErrorKind};
use crate::rabbitmq::admin::doctor::facts::Management;

fn names() -> Names {
    Names::new("jobq")
}

fn topology() -> Topology {
    let spec = QueueSpec::new("mail").waits([Duration::from_secs(30)]).patterns(["user.*"]);
    Topology::from_queues("jobq", &[spec.solo().seat()])
}

/// A broker with these bindings alone, on which these parts are in these states.
fn facts<'p>(
    bindings: Option<Vec<Binding>>,
    places: impl IntoIterator<Item = (&'p str, State)>,
) -> Facts {
    let management = bindings.map(|bindings| Management {
        queues: Err("no".to_owned()),
        nodes: Ok(Vec::new()),
        bindings: Ok(bindings),
        dead_lettering: Ok(Vec::new()),
        consumers: Ok(Vec::new()),
    });
    let places = places.into_iter().map(|(title, state)| (title.to_owned(), state)).collect();
    Facts { places, management, ..Facts::default() }
}

/// The bindings of the topology, as the management API shows them.
fn bindings() -> Vec<Binding> {
    topology().declarations().iter().filter_map(Binding::of).collect()
}

fn found(facts: &Facts) -> Vec<Finding> {
    presence(facts, &names(), &topology())
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
        ("jobq:mail@seat", "schedules of the queue are gone"),
        ("jobq:mail@failed", "have no destination"),
        ("jobq:orphan@failed", "have no destination"),
    ];
    let topology = topology();
    for (name, matters) in table {
        let places = topology.places();
        // An exchange comes before the queue of its name.
        let place = places.into_iter().find(|place| place.name() == name).unwrap();
        let title = place.title();
        let found_with = |bindings| found(&facts(bindings, [(&*title, State::Missing)]));
        let found = found_with(None);
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        assert_eq!(found[0].severity(), Severity::Error, "{name}");
        assert_eq!(found[0].about(), title);
        assert!(found[0].why().contains(matters), "{name}: {}", found[0].why());
        assert!(!found[0].advice().contains("delete"), "{name}");
        // Its bindings are missing as well, and are not reported.
        let rest = |binding: &Binding| binding.source != name && binding.destination != name;
        let rest = bindings().into_iter().filter(rest).collect();
        assert_eq!(found_with(Some(rest)), found, "{name}");
        assert_eq!(found_with(Some(bindings())), found, "{name}");
    }
}

#[test]
fn an_unused_namespace_misses_nothing() {
    let topology = topology();
    let titles: Vec<_> = topology.places().into_iter().map(Declaration::title).collect();
    let missing = |titles: &[String], bindings| {
        found(&facts(bindings, titles.iter().map(|title| (&**title, State::Missing))))
    };
    let found = missing(&titles, None);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].about(), found[0].severity()), ("queue `jobq:mail`", Severity::Note));
    // Another application has an exchange and a queue of these names.
    let mut titles = titles;
    titles.retain(|title| title != "queue `jobq:mail`" && title != "exchange `jobq`");
    assert_eq!(missing(&titles, Some(Vec::new())), []);
}

#[test]
fn each_binding_that_is_gone_is_named() {
    let all = bindings();
    assert_eq!(found(&facts(Some(all.clone()), [])), []);
    for gone in &all {
        let rest: Vec<_> = all.iter().filter(|binding| *binding != gone).cloned().collect();
        let found = found(&facts(Some(rest), []));
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
        let found = found(&facts(None, [("queue `jobq:mail`", error(kind).into())]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].kind(), found[0].severity()), (expected, severity));
        assert_eq!(found[0].to_string().contains("delete"), is_to_be_deleted, "{}", found[0]);
        assert!(found[0].to_string().contains("said so"), "{}", found[0]);
    }
}

#[test]
fn uncompared_parts_are_one_finding() {
    let specs: Vec<_> = (0..9).map(|n| QueueSpec::new(format!("q{n}"))).collect();
    let topology = Topology::from_queues("jobq", &specs);
    for (count, about) in [
        (1, "queue `jobq:q0`"),
        (3, "queue `jobq:q0`, queue `jobq:q1`, queue `jobq:q2`"),
        (9, "queue `jobq:q0`, queue `jobq:q1`, queue `jobq:q2` and 6 more"),
    ] {
        let titles: Vec<_> = (0..count).map(|n| format!("queue `jobq:q{n}`")).collect();
        let some = |state: State| facts(None, titles.iter().map(|t| (&**t, state.clone())));
        for state in [State::Uncompared, State::Hidden] {
            let found = presence(&some(state), &names(), &topology);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!((found[0].about(), found[0].severity()), (about, Severity::Note));
            assert!(!found[0].to_string().contains("delete"), "{}", found[0]);
        }
        // The management API shows the arguments.
        let management = Some(Management {
            queues: Ok(Vec::new()),
            nodes: Ok(Vec::new()),
            bindings: Err("no".to_owned()),
            dead_lettering: Ok(Vec::new()),
            consumers: Ok(Vec::new()),
        });
        let facts = Facts { management, ..some(State::Uncompared) };
        assert_eq!(presence(&facts, &names(), &topology), []);
    }
    let found = found(&facts(None, [("queue `jobq:mail`", State::Unanswered)]));
    assert_eq!(found[0].severity(), Severity::Warning);
}
