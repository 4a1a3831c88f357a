//! Findings about missing and different exchanges, queues and bindings. Pure.

use std::collections::BTreeSet;

use super::facts::{Binding, Facts, Management};
use super::role::{Role, role};
use crate::finding::{Finding, FindingKind as Kind, Severity};
use crate::rabbitmq::topology::names::{Names, ORPHAN};
use crate::rabbitmq::topology::plan::{By, Declaration, Topology};

/// The remedy for missing parts.
const REMEDY: &str = "a running pool declares it again within a minute, as do a new pool and \
     `Client::declare`; each needs configure permission on it";

pub(super) fn queue_named(name: &str) -> String {
    format!("queue `{name}`")
}

/// The missing queues and exchanges. Parts of a queue that is missing itself are not expected.
pub(super) fn missing(facts: &Facts, names: &Names) -> Vec<Finding> {
    let (missing, is_unused) = (&facts.missing, is_unused(facts, names));
    let queue = |name: &String| {
        let finding = |severity| {
            Finding::new(Kind::Queue, severity, queue_named(name)).found("is not declared")
        };
        let owner = match names.queue_of(name) {
            Some(queue) if queue != ORPHAN => names.work(queue),
            _ => names.orphan(),
        };
        match role(names, name)? {
            Role::Work => Some(
                finding(Severity::Note)
                    .matters("jobs that other clients publish for it fail as `unroutable`")
                    .remedy("start a pool, or call `Client::declare` when you deploy the program"),
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
            .found("is not declared")
            .matters(if *name == names.retry() {
                "retries never run: the jobs stay in their queue, and no worker receives them"
            } else if *name == names.events() {
                "no events can be published"
            } else if *name == names.orphan() {
                "unroutable messages are lost silently"
            } else if [names.control(), names.control_echo(), names.paused()].contains(name) {
                "pools cannot be queried, and a pool that starts does not learn of a pause"
            } else {
                "jobs cannot be published to it, and jobs that must pass through it stay where \
                 they are"
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
        Role::Tier => "jobs whose retry waits there fail as `unroutable`",
        Role::Level | Role::Due => "jobs with a delay fail as `unroutable`",
        Role::Solo => "a job suspected of killing its worker cannot run alone",
        Role::Failed | Role::Orphan | Role::Work => {
            "the queue was deleted with its messages, and further messages for it have no \
             destination"
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
                .found(format!("is missing for routing key `{routing_key}`"))
                .matters(if *source == names.events() {
                    "events with these topics do not reach the queue"
                } else if *source == names.orphan() {
                    "unroutable messages are lost silently"
                } else {
                    "messages with this key go to the orphan queue instead, and fail as \
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
        .matters("jobq does not start with it; its jobs may be lost or never retried")
        .remedy("delete it once it is empty and unused, or use another namespace for this program")
}

/// The refused declarations, and the parts that could not be compared.
pub(super) fn not_compared(facts: &Facts) -> Vec<Finding> {
    let refused = facts.refused.iter().map(|(about, error)| {
        if error.is_conflict() {
            return different(about.clone(), error.to_string());
        }
        Finding::new(Kind::Unchecked, Severity::Warning, about.clone())
            .found(format!("could not be checked: {error}"))
            .matters(
                "this report does not cover whether it works and has the arguments that jobq needs",
            )
    });
    let unchecked = |severity, about: String| Finding::new(Kind::Unchecked, severity, about);
    let mut findings: Vec<_> = refused.collect();
    if let Some(about) = &facts.unanswered {
        findings.push(
            unchecked(Severity::Warning, about.clone())
                .found("the broker did not report whether it exists, so no others were checked")
                .matters("this report does not cover what else is missing or different")
                .remedy("check the broker's load and log, and try again"),
        );
    }
    // The management API shows the arguments of queues. Exchanges have few.
    let shown = matches!(facts.management, Management::Asked { queues: Ok(_), .. });
    if !facts.uncompared.is_empty() && !shown {
        findings.push(
            unchecked(Severity::Note, enumeration(&facts.uncompared))
                .found(
                    "not compared with jobq's declarations: this user has no permission to declare \
                     them",
                )
                .matters("another program may have declared them with other arguments")
                .remedy(
                    "nothing, if jobq declared them as a user with configure permission; otherwise \
                     run the doctor once as such a user, or with the management API",
                ),
        );
    }
    if !facts.hidden.is_empty() {
        findings.push(
            unchecked(Severity::Note, enumeration(&facts.hidden))
                .found("not checked: this user has no permission to look them up")
                .matters("this report does not cover whether they are missing or different")
                .remedy("run the doctor as a user with read permission on them"),
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
