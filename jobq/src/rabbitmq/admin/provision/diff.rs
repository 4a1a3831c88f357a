//! How a broker differs from declarations. Pure.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::rabbitmq::admin::doctor::diagnosis::differences;
use crate::rabbitmq::admin::doctor::facts::{Binding, Facts, Management};
use crate::rabbitmq::topology::levels::LEVELS;
use crate::rabbitmq::topology::names::Names;
use crate::rabbitmq::topology::plan::{By, Declaration, Topology};

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
    let topology = &topology.without(&unused_levels(facts, topology, names));
    let mut diff = TopologyDiff::default();
    for place in topology.places() {
        let title = place.title();
        let is_missing = match place {
            Declaration::Exchange { name, .. } => facts.missing_exchanges.contains(name),
            _ => facts.missing.iter().any(|name| name == place.name()),
        };
        let refused = facts.refused.iter().find(|(about, _)| *about == title);
        match refused {
            _ if is_missing => diff.missing.push(title),
            Some((_, error)) if error.is_conflict() => {
                diff.different.push(Difference::new(title, error.to_string()));
            }
            Some((_, error)) => diff.unknown.push(Difference::new(title, error.to_string())),
            None if facts.hidden.contains(&title) => {
                let why = "this user has no permission to check whether it exists";
                diff.unknown.push(Difference::new(title, why));
            }
            None if facts.uncompared.contains(&title) => diff.uncompared(facts, place),
            None => {}
        }
    }
    if let Some(about) = &facts.unanswered {
        let why = "the broker did not answer, so no others were checked";
        diff.unknown.push(Difference::new(about.clone(), why));
    }
    diff.bindings(facts, topology);
    diff
}

/// The exchanges and queues of levels of which nothing is on the broker, and nothing of those above.
fn unused_levels(facts: &Facts, topology: &Topology, names: &Names) -> BTreeSet<String> {
    let is_missing =
        |name: &String| facts.missing.contains(name) || facts.missing_exchanges.contains(name);
    let mut unused = BTreeSet::new();
    for level in (0..LEVELS).rev() {
        let exchange = names.level(level);
        let of_level = |name: &&str| **name == exchange || names.level_of(name) == Some(level);
        let places = topology.places().into_iter().map(Declaration::name).filter(of_level);
        let places: Vec<_> = places.map(str::to_owned).collect();
        if !places.iter().all(is_missing) {
            break;
        }
        unused.extend(places);
    }
    unused
}

impl TopologyDiff {
    /// A queue or an exchange that this user may not declare, so that only the management API tells
    /// how it is.
    fn uncompared(&mut self, facts: &Facts, place: &Declaration) {
        let title = place.title();
        let shown = match (&facts.management, place) {
            (
                Management::Asked { queues: Ok(queues), .. },
                Declaration::Queue { name, arguments },
            ) => {
                let queue = queues.iter().find(|queue| queue.name == *name);
                queue.map(|queue| differences(arguments, queue))
            }
            _ => None,
        };
        match shown {
            Some(differences) if differences.is_empty() => {}
            Some(differences) => {
                self.different.push(Difference::new(title, differences.join("; ")));
            }
            None => {
                let why = "it exists, but this user may not compare it with its declaration";
                self.unknown.push(Difference::new(title, why));
            }
        }
    }

    /// The bindings, which the management API alone shows.
    fn bindings(&mut self, facts: &Facts, topology: &Topology) {
        let wanted = topology.declarations().iter().filter_map(binding);
        let found = match &facts.management {
            Management::Asked { bindings: Ok(found), .. } => found.iter().collect::<BTreeSet<_>>(),
            Management::Asked { bindings: Err(why), .. } => {
                return self.unknown.push(Difference::new("bindings", why.clone()));
            }
            Management::NotGiven => {
                let why = "AMQP does not show them: set the URL of the management API";
                return self.unknown.push(Difference::new("bindings", why));
            }
        };
        let missing = wanted.filter(|(_, binding)| !found.contains(binding));
        self.missing.extend(missing.map(|(title, _)| title));
    }
}

/// A declared binding with its title, as the management API shows it.
fn binding(declaration: &Declaration) -> Option<(String, Binding)> {
    let (source, destination, kind, key) = match declaration {
        Declaration::Binding { exchange, queue, by: By::Key(key) } => {
            (exchange, queue, "queue", &**key)
        }
        Declaration::Binding { exchange, queue, by: By::All } => (exchange, queue, "queue", ""),
        Declaration::ExchangeBinding { from, to, key } => (from, to, "exchange", &**key),
        Declaration::Exchange { .. } | Declaration::Queue { .. } => return None,
    };
    let binding = Binding {
        source: source.clone(),
        destination: destination.clone(),
        destination_type: kind.to_owned(),
        routing_key: key.to_owned(),
    };
    Some((declaration.to_string(), binding))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::QueueSpec;
    use crate::error::ErrorKind;
    use crate::rabbitmq::admin::doctor::facts::Queue;

    type Change = Box<dyn Fn(&mut Facts)>;

    fn topology() -> Topology {
        Topology::from_queues("shop", &[QueueSpec::new("mail")])
    }

    /// The facts about a broker on which all is as declared.
    fn facts() -> Facts {
        let bindings =
            topology().declarations().iter().filter_map(binding).map(|(_, b)| b).collect();
        let management = Management::Asked {
            queues: Ok(Vec::new()),
            nodes: Ok(Vec::new()),
            bindings: Ok(bindings),
            dead_lettering: Ok(Vec::new()),
        };
        Facts { management, ..Facts::default() }
    }

    #[test]
    fn a_part_is_missing_different_or_unknown() {
        let mail = || "queue `shop:mail`".to_owned();
        let error = |kind| Error::new(kind, "no");
        let table: [(Change, Option<(&str, &str)>); 10] = [
            (Box::new(|_| {}), None),
            (
                Box::new(|f| f.missing.push("shop:mail".into())),
                Some(("missing", "queue `shop:mail`")),
            ),
            (
                Box::new(|f| f.missing_exchanges.push("shop.retry".into())),
                Some(("missing", "exchange `shop.retry`")),
            ),
            (
                Box::new(move |f| f.refused.push((mail(), error(ErrorKind::Conflict)))),
                Some(("different", "queue `shop:mail`")),
            ),
            (
                Box::new(move |f| f.refused.push((mail(), error(ErrorKind::Refused)))),
                Some(("unknown", "queue `shop:mail`")),
            ),
            (Box::new(move |f| f.hidden.push(mail())), Some(("unknown", "queue `shop:mail`"))),
            (Box::new(move |f| f.uncompared.push(mail())), Some(("unknown", "queue `shop:mail`"))),
            (
                Box::new(move |f| f.unanswered = Some(mail())),
                Some(("unknown", "queue `shop:mail`")),
            ),
            (Box::new(|f| f.management = Management::NotGiven), Some(("unknown", "bindings"))),
            (
                Box::new(|f| {
                    if let Management::Asked { bindings: Ok(found), .. } = &mut f.management {
                        found.retain(|binding| binding.destination != "shop:mail@failed");
                    }
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
        for place in topology().places().into_iter().filter(|place| above(place.name())) {
            match place {
                Declaration::Exchange { name, .. } => facts.missing_exchanges.push(name.clone()),
                _ => facts.missing.push(place.name().to_owned()),
            }
        }
        if let Management::Asked { bindings: Ok(found), .. } = &mut facts.management {
            found.retain(|binding| !above(&binding.source));
        }
        facts
    }

    #[test]
    fn levels_that_no_job_needed_yet_are_no_difference() {
        let diff = |facts: &Facts| diff(facts, &topology(), &Names::new("shop"));
        for levels in 0..=LEVELS {
            let facts = facts_with_levels(levels);
            assert_eq!(facts.missing.is_empty(), levels == LEVELS);
            assert!(diff(&facts).is_same(), "{levels}: {:?}", diff(&facts));
        }
        // A gap, however, stops what waits above it.
        let mut facts = facts_with_levels(4);
        facts.missing.push("shop.level.2.7".into());
        facts.missing_exchanges.push("shop.level.1".into());
        assert_eq!(diff(&facts).missing, ["exchange `shop.level.1`", "queue `shop.level.2.7`"]);
    }

    #[test]
    fn the_management_api_tells_of_what_a_user_may_not_declare() {
        let declaration = |name: &str| Queue {
            name: name.into(),
            arguments: serde_json::json!({"x-message-ttl": 5}),
            ..Queue::default()
        };
        let mut facts = facts();
        facts.uncompared.push("queue `shop:mail`".into());
        if let Management::Asked { queues, .. } = &mut facts.management {
            *queues = Ok(vec![declaration("shop:mail")]);
        }
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
