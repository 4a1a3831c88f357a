//! Findings about missing and different exchanges, queues and bindings. Pure.

use std::collections::BTreeSet;

use super::facts::{Binding, Facts, Management};
use super::role::{Role, role};
use crate::finding::{Finding, FindingKind as Kind, Severity};
use crate::rabbitmq::topology::names::{Names, ORPHAN};
use crate::rabbitmq::topology::plan::{By, Declaration, Topology};

/// The remedy for missing parts.
const REMEDY: &str = "a pool that runs declares it again within a minute, as does one that \
                      starts, and `Client::declare`: each needs the permission to configure it";

pub(super) fn queue_named(name: &str) -> String {
    format!("queue `{name}`")
}

/// The missing queues and exchanges. Parts of a queue that is missing itself are not expected.
pub(super) fn missing(facts: &Facts, names: &Names) -> Vec<Finding> {
    let (missing, is_unused) = (&facts.missing, is_unused(facts, names));
    let queue = |name: &String| {
        let finding = |severity| {
            Finding::new(Kind::Queue, severity, queue_named(name)).found("it is not declared")
        };
        let owner = match names.queue_of(name) {
            Some(queue) if queue != ORPHAN => names.work(queue),
            _ => names.orphan(),
        };
        match role(names, name)? {
            Role::Work => Some(
                finding(Severity::Note)
                    .matters("what other clients publish for it fails as `unroutable`")
                    .remedy("start a pool, or call `Client::declare` when the program is deployed"),
            ),
            role if is_unused && role != Role::Work => None,
            role if role == Role::Orphan || !missing.contains(&owner) => {
                Some(finding(Severity::Error).matters(without(role)).remedy(REMEDY))
            }
            _ => None,
        }
    };
    let exchange = |name: &String| {
        Finding::new(Kind::Routing, Severity::Error, format!("exchange `{name}`"))
            .found("it is not declared")
            .matters(if *name == names.retry() {
                "retries never come: the jobs stay in their queue, where nobody takes them"
            } else if *name == names.events() {
                "no event can be published"
            } else if *name == names.orphan() {
                "a message that finds no queue is lost without a word"
            } else if [names.control(), names.control_echo(), names.paused()].contains(name) {
                "pools cannot be asked, and a pool that starts does not learn of a pause"
            } else {
                "jobs cannot be published to it, and those that are to pass it stay where they are"
            })
            .remedy(REMEDY)
    };
    let exchanges = if is_unused { &[] } else { facts.missing_exchanges.as_slice() };
    missing.iter().filter_map(queue).chain(exchanges.iter().map(exchange)).collect()
}

/// Whether the namespace is unused: its shared parts are missing.
fn is_unused(facts: &Facts, names: &Names) -> bool {
    let shared = [names.orphan(), names.retry(), names.deliver(), names.failed_jobs()];
    shared.iter().all(|name| facts.missing_exchanges.contains(name))
        && facts.missing.contains(&names.orphan())
}

/// The consequence of a missing queue of this role.
fn without(role: Role) -> &'static str {
    match role {
        Role::Tier => "jobs whose retry waits there fail as `unroutable` instead",
        Role::Level | Role::Due => "jobs with a delay fail as `unroutable` instead",
        Role::Solo => "a job that may have killed its worker cannot be run alone",
        Role::Failed | Role::Orphan | Role::Work => {
            "somebody deleted it and what it held, and what is to come there has no place"
        }
    }
}

/// The missing bindings between existing parts.
pub(super) fn missing_bindings(
    found: &[Binding],
    facts: &Facts,
    names: &Names,
    topology: &Topology,
) -> Vec<Finding> {
    if is_unused(facts, names) {
        return Vec::new();
    }
    let found: BTreeSet<_> = found.iter().collect();
    let is_queue_there = |name: &String| !facts.missing.contains(name);
    let is_exchange_there = |name: &String| !facts.missing_exchanges.contains(name);
    let finding = |declaration: &Declaration| {
        let (source, destination, kind, routing_key, are_there) = match declaration {
            Declaration::Binding { exchange, queue, by } => {
                let key = match by {
                    By::All => "",
                    By::Key(key) => key,
                };
                let are_there = is_exchange_there(exchange) && is_queue_there(queue);
                (exchange, queue, "queue", key, are_there)
            }
            Declaration::ExchangeBinding { from, to, key } => {
                let are_there = is_exchange_there(from) && is_exchange_there(to);
                (from, to, "exchange", key.as_str(), are_there)
            }
            Declaration::Exchange { .. } | Declaration::Queue { .. } => return None,
        };
        let wanted = Binding {
            source: source.clone(),
            destination: destination.clone(),
            destination_type: kind.to_owned(),
            routing_key: routing_key.to_owned(),
        };
        let is_missing = are_there && !found.contains(&wanted);
        is_missing.then(|| {
            let about = declaration.title();
            Finding::new(Kind::Routing, Severity::Error, about)
                .found(format!("that with the routing key `{routing_key}` is not there"))
                .matters(if *source == names.events() {
                    "events of these topics do not come to the queue"
                } else if *source == names.orphan() {
                    "a message that finds no queue is lost without a word"
                } else {
                    "what is sent there by this key comes to the orphan queue instead, and fails as \
                     `unroutable`"
                })
                .remedy(REMEDY)
        })
    };
    topology.declarations().iter().filter_map(finding).collect()
}

/// The finding of a queue or an exchange that differs from jobq's declaration.
pub(super) fn different(about: String, found: String) -> Finding {
    Finding::new(Kind::Arguments, Severity::Error, about)
        .found(found)
        .matters("jobq does not start on it; jobs that it holds may be lost or never retried")
        .remedy("delete it once it is empty and unused, or give this program another namespace")
}

/// The refused declarations, and the parts that could not be compared.
pub(super) fn not_compared(facts: &Facts) -> Vec<Finding> {
    let refused = facts.refused.iter().map(|(about, error)| {
        if error.is_conflict() {
            return different(about.clone(), error.to_string());
        }
        Finding::new(Kind::Unchecked, Severity::Warning, about.clone())
            .found(format!("it could not be looked at: {error}"))
            .matters("whether it works, and is as jobq needs it, is not in this report")
    });
    let unchecked = |severity, about: String| Finding::new(Kind::Unchecked, severity, about);
    let mut findings: Vec<_> = refused.collect();
    if let Some(about) = &facts.unanswered {
        findings.push(
            unchecked(Severity::Warning, about.clone())
                .found("the broker did not say whether it is there, and was asked for no other")
                .matters("what else is missing or different is not in this report")
                .remedy("look at the broker's load and its log, and try again"),
        );
    }
    // The management API shows the arguments of queues. Exchanges have few.
    let shown = matches!(facts.management, Management::Asked { queues: Ok(_), .. });
    if !facts.uncompared.is_empty() && !shown {
        findings.push(
            unchecked(Severity::Note, enumeration(&facts.uncompared))
                .found("there, and not compared with what jobq needs: this user may not declare them")
                .matters("another program could have declared them otherwise")
                .remedy(
                    "nothing, if a user who may configure them declared them by jobq; else look once \
                     as such a user, or with the management API",
                ),
        );
    }
    if !facts.hidden.is_empty() {
        findings.push(
            unchecked(Severity::Note, enumeration(&facts.hidden))
                .found("this user may not ask whether they are there")
                .matters("what of them is missing or different is not in this report")
                .remedy("look as a user who may read them"),
        );
    }
    findings
}

/// The first few names.
fn enumeration(names: &[String]) -> String {
    match names {
        [first, second, third, _, rest @ ..] => {
            format!("{first}, {second}, {third} and {} more", rest.len() + 1)
        }
        few => few.join(", "),
    }
}

#[cfg(test)]
#[path = "presence_tests.rs"]
pub(super) mod tests;
