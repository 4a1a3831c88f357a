//! How a broker differs from declarations. Pure.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::rabbitmq::admin::doctor::compare::compare;
use crate::rabbitmq::admin::doctor::facts::{Facts, State};
use crate::rabbitmq::topology::declaration::Declaration;
use crate::rabbitmq::topology::levels::LEVELS;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::plan::Topology;

/// How a broker differs from declarations, from [`Admin::topology`](crate::admin::Admin::topology).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TopologyDiff {
    /// Exchanges, queues and bindings that are not there.
    pub missing: Vec<String>,
    /// Exchanges and queues that are there with other properties.
    pub different: Vec<Difference>,
    /// Parts of which it is unknown, with the reasons: bindings without the management API, and
    /// what this user may not look for.
    pub unknown: Vec<Difference>,
}

/// An exchange, a queue or a binding, with its difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// The exchange, queue or binding, by its name on the broker.
    pub about: String,
    /// The difference, or the reason why it is unknown or stays.
    pub why: String,
}

impl Difference {
    pub(super) fn new(about: impl Into<String>, why: impl Into<String>) -> Self {
        Self { about: about.into(), why: why.into() }
    }
}

impl TopologyDiff {
    /// Whether everything is certainly as declared.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.missing.is_empty() && self.different.is_empty() && self.unknown.is_empty()
    }
}

/// An error if declarations are of another namespace.
pub(super) fn check(topology: &Topology, names: &Names) -> Result<()> {
    let namespace = names.namespace();
    let is_own = |name: &str| {
        let rest = name.strip_prefix(namespace);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '.']))
    };
    match topology.places().into_iter().find(|place| !is_own(place.name())) {
        None => Ok(()),
        Some(other) => Err(Error::invalid(format!(
            "the declarations contain {}, which is not in namespace `{namespace}`: use the \
             namespace of the program that wrote them",
            other.title()
        ))),
    }
}

/// The differences between the facts about a broker and declarations. Delay levels above those that
/// are on the broker are no difference: the first job that needs one has it declared.
pub(super) fn diff(facts: &Facts, topology: &Topology, names: &Names) -> TopologyDiff {
    let topology = topology.without(&unused_levels(facts, topology, names));
    let mut diff = TopologyDiff::default();
    for (part, state) in compare(facts, &topology) {
        let title = if part.is_place() { part.title() } else { part.to_string() };
        let unknown = match state {
            State::Missing => {
                diff.missing.push(title);
                continue;
            }
            State::Different(why) => {
                diff.different.push(Difference::new(title, why));
                continue;
            }
            State::Refused(why) => why,
            State::Hidden => "this user has no permission to check whether it exists".to_owned(),
            State::Uncompared => {
                "it exists, but this user may not compare it with its declaration".to_owned()
            }
            State::Unanswered => "the broker did not answer, so no others were checked".to_owned(),
        };
        diff.unknown.push(Difference::new(title, unknown));
    }
    // The management API alone shows them.
    let unknown = match &facts.management {
        None => Some("AMQP does not show them: set the URL of the management API"),
        Some(shown) => shown.bindings.as_ref().err().map(String::as_str),
    };
    diff.unknown.extend(unknown.map(|why| Difference::new("bindings", why)));
    diff
}

/// The exchanges and queues of levels of which nothing is on the broker, and nothing of those above.
fn unused_levels(facts: &Facts, topology: &Topology, names: &Names) -> BTreeSet<String> {
    let is_missing =
        |place: &&Declaration| facts.places.get(&place.title()) == Some(&State::Missing);
    let mut unused = BTreeSet::new();
    for level in (0..LEVELS).rev() {
        let exchange = names.level(level);
        let of_level = |name: &str| name == exchange || names.level_of(name) == Some(level);
        let places = topology.places().into_iter().filter(|place| of_level(place.name()));
        let places: Vec<_> = places.collect();
        if !places.iter().all(is_missing) {
            break;
        }
        unused.extend(places.into_iter().map(|place| place.name().to_owned()));
    }
    unused
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::QueueSpec;
    use crate::error::ErrorKind;
    use crate::rabbitmq::admin::doctor::facts::{Binding, Management, Queue};

    type Change = Box<dyn Fn(&mut Facts)>;

    fn topology() -> Topology {
        Topology::from_queues("shop", &[QueueSpec::new("mail")])
    }

    /// The facts about a broker on which all is as declared.
    fn facts() -> Facts {
        let bindings = topology().declarations().iter().filter_map(Binding::of).collect();
        let management = Some(Management {
            queues: Ok(Vec::new()),
            nodes: Ok(Vec::new()),
            bindings: Ok(bindings),
            dead_lettering: Ok(Vec::new()),
            consumers: Ok(Vec::new()),
        });
        Facts { management, ..Facts::default() }
    }

    fn shown(facts: &mut Facts) -> &mut Management {
        facts.management.as_mut().unwrap()
    }

    #[test]
    fn a_part_is_missing_different_or_unknown() {
        let set = |title: &'static str, state: State| -> Change {
            Box::new(move |facts| drop(facts.places.insert(title.to_owned(), state.clone())))
        };
        let mail = "queue `shop:mail`";
        let refused = |kind| State::from(Error::new(kind, "no"));
        let table: [(Change, Option<(&str, &str)>); 10] = [
            (Box::new(|_| {}), None),
            (set(mail, State::Missing), Some(("missing", mail))),
            (
                set("exchange `shop.retry`", State::Missing),
                Some(("missing", "exchange `shop.retry`")),
            ),
            (set(mail, refused(ErrorKind::Conflict)), Some(("different", mail))),
            (set(mail, refused(ErrorKind::Refused)), Some(("unknown", mail))),
            (set(mail, State::Hidden), Some(("unknown", mail))),
            (set(mail, State::Uncompared), Some(("unknown", mail))),
            (set(mail, State::Unanswered), Some(("unknown", mail))),
            (Box::new(|facts| facts.management = None), Some(("unknown", "bindings"))),
            (
                Box::new(|facts| {
                    let bindings = shown(facts).bindings.as_mut().unwrap();
                    bindings.retain(|binding| binding.destination != "shop:mail@failed");
                }),
                Some(("missing", "binding shop.failed -> shop:mail@failed key=mail")),
            ),
        ];
        for (change, expected) in table {
            let mut facts = facts();
            change(&mut facts);
            let found = diff(&facts, &topology(), &Names::new("shop"));
            let missing = found.missing.iter().map(|about| ("missing", about.as_str()));
            let different = found.different.iter().map(|d| ("different", d.about.as_str()));
            let unknown = found.unknown.iter().map(|d| ("unknown", d.about.as_str()));
            let all: Vec<_> = missing.chain(different).chain(unknown).collect();
            assert_eq!(all, Vec::from_iter(expected));
            assert_eq!(found.is_same(), expected.is_none());
        }
    }

    /// The broker has levels below this one alone.
    fn facts_with_levels(levels: u32) -> Facts {
        let mut facts = facts();
        let names = Names::new("shop");
        let above = |name: &str| {
            let exchange = (levels..LEVELS).any(|level| names.level(level) == name);
            exchange || names.level_of(name).is_some_and(|level| level >= levels)
        };
        let topology = topology();
        let missing = topology.places().into_iter().filter(|place| above(place.name()));
        facts.places = missing.map(|place| (place.title(), State::Missing)).collect();
        shown(&mut facts).bindings.as_mut().unwrap().retain(|binding| !above(&binding.source));
        facts
    }

    #[test]
    fn levels_that_no_job_needed_yet_are_no_difference() {
        let diff = |facts: &Facts| diff(facts, &topology(), &Names::new("shop"));
        for levels in 0..=LEVELS {
            let facts = facts_with_levels(levels);
            assert_eq!(facts.places.is_empty(), levels == LEVELS);
            assert!(diff(&facts).is_same(), "{levels}: {:?}", diff(&facts));
        }
        // A gap, however, stops what waits above it.
        let mut facts = facts_with_levels(4);
        let gap = ["exchange `shop.level.1`", "queue `shop.level.2.7`"];
        facts.places.extend(gap.map(|title| (title.to_owned(), State::Missing)));
        assert_eq!(diff(&facts).missing, gap);
    }

    #[test]
    fn the_management_api_tells_of_what_a_user_may_not_declare() {
        let declaration = |name: &str| Queue {
            name: name.into(),
            arguments: serde_json::json!({"x-message-ttl": 5}),
            ..Queue::default()
        };
        let mut facts = facts();
        facts.places.insert("queue `shop:mail`".to_owned(), State::Uncompared);
        shown(&mut facts).queues = Ok(vec![declaration("shop:mail")]);
        let found = diff(&facts, &topology(), &Names::new("shop"));
        assert!(found.different[0].why.contains("x-message-ttl"), "{found:?}");
        assert!(found.unknown.is_empty(), "{found:?}");
    }

    #[test]
    fn declarations_of_another_namespace_are_refused() {
        for (namespace, is_own) in
            [("shop", true), ("jobq", false), ("sho", false), ("shop2", false)]
        {
            let checked = check(&topology(), &Names::new(namespace));
            assert_eq!(checked.is_ok(), is_own, "{namespace}: {checked:?}");
        }
    }
}
