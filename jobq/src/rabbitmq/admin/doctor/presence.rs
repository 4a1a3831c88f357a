//! Findings about missing and different exchanges, queues and bindings. Pure.

use super::compare::compare;
use super::facts::{Binding, Facts, State};
use super::few;
use super::role::{Role, role};
use crate::finding::{Finding, FindingKind as Kind, Severity};
use crate::rabbitmq::topology::declaration::Declaration;
use crate::rabbitmq::topology::names::{Names, ORPHAN};
use crate::rabbitmq::topology::plan::Topology;

/// The remedy for missing parts.
const REMEDY: &str = "a running pool declares it again within a minute, as do a new pool and \
     `Client::declare`; each needs configure permission on it";

/// The findings about the parts of a topology that are not certainly as declared.
pub(super) fn presence(facts: &Facts, names: &Names, topology: &Topology) -> Vec<Finding> {
    let (mut findings, mut uncompared, mut hidden) = (Vec::new(), Vec::new(), Vec::new());
    for (part, state) in compare(facts, topology) {
        let about = part.title();
        match state {
            State::Missing => findings.extend(missing(part, facts, names)),
            State::Different(found) => findings.push(different(about, found)),
            State::Refused(error) => findings.push(
                Finding::new(Kind::Unchecked, Severity::Warning, about)
                    .found(format!("could not be checked: {error}"))
                    .matters(
                        "this report does not cover whether it works and has the arguments that \
                         jobq needs",
                    ),
            ),
            State::Unanswered => findings.push(
                Finding::new(Kind::Unchecked, Severity::Warning, about)
                    .found("the broker did not report whether it exists, so no others were checked")
                    .matters("this report does not cover what else is missing or different")
                    .remedy("check the broker's load and log, and try again"),
            ),
            State::Uncompared => uncompared.push(about),
            State::Hidden => hidden.push(about),
        }
    }
    let unchecked = |about| Finding::new(Kind::Unchecked, Severity::Note, few(about));
    // The management API shows the arguments of queues. Exchanges have few.
    if !uncompared.is_empty() && facts.queues().is_none() {
        findings.push(
            unchecked(&uncompared)
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
    if !hidden.is_empty() {
        findings.push(
            unchecked(&hidden)
                .found("not checked: this user has no permission to look them up")
                .matters("this report does not cover whether they are missing or different")
                .remedy("run the doctor as a user with read permission on them"),
        );
    }
    findings
}

fn different(about: String, found: String) -> Finding {
    Finding::new(Kind::Arguments, Severity::Error, about)
        .found(found)
        .matters("jobq does not start with it; its jobs may be lost or never retried")
        .remedy("delete it once it is empty and unused, or use another namespace for this program")
}

/// The finding about a missing part. Parts of a queue that is missing itself, and bindings of missing
/// parts, are not expected.
fn missing(part: &Declaration, facts: &Facts, names: &Names) -> Option<Finding> {
    let is_unused = is_unused(facts, names);
    let finding = |kind, severity| {
        Finding::new(kind, severity, part.title()).found("is not declared").remedy(REMEDY)
    };
    let finding = match part {
        Declaration::Queue { name, .. } => {
            let owner = match names.queue_of(name) {
                Some(queue) if queue != ORPHAN => names.work(queue),
                _ => names.orphan(),
            };
            match role(names, name)? {
                Role::Work if *name == owner => finding(Kind::Queue, Severity::Note)
                    .matters("jobs that other clients publish for it fail as `unroutable`")
                    .remedy("start a pool, or call `Client::declare` when you deploy the program"),
                role if role == Role::Orphan || !facts.lacks("queue", &owner) => {
                    if is_unused {
                        return None;
                    }
                    finding(Kind::Queue, Severity::Error).matters(without(role))
                }
                _ => return None,
            }
        }
        _ if is_unused => return None,
        Declaration::Exchange { name, .. } => {
            finding(Kind::Routing, Severity::Error).matters(if *name == names.retry() {
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
        }
        Declaration::Binding { .. } | Declaration::ExchangeBinding { .. } => {
            let Binding { source, destination, destination_type, routing_key } = Binding::of(part)?;
            if facts.lacks("exchange", &source) || facts.lacks(&destination_type, &destination) {
                return None;
            }
            finding(Kind::Routing, Severity::Error)
                .found(format!("is missing for routing key `{routing_key}`"))
                .matters(if source == names.events() {
                    "events with these topics do not reach the queue"
                } else if source == names.orphan() {
                    "unroutable messages are lost silently"
                } else {
                    "messages with this key go to the orphan queue instead, and fail as `unroutable`"
                })
        }
    };
    Some(finding)
}

/// Whether the namespace is unused: its shared parts are missing.
fn is_unused(facts: &Facts, names: &Names) -> bool {
    let shared = [names.orphan(), names.retry(), names.deliver(), names.failed_jobs()];
    shared.iter().all(|name| facts.lacks("exchange", name)) && facts.lacks("queue", &names.orphan())
}

/// The consequence of a missing queue of this role.
fn without(role: Role) -> &'static str {
    match role {
        Role::Tier => "jobs whose retry waits there fail as `unroutable`",
        Role::Level | Role::Due => "jobs with a delay fail as `unroutable`",
        Role::Solo => "a job suspected of killing its worker cannot run alone",
        Role::Seat => "the schedules of the queue are gone, unless a pool that runs restores them",
        Role::Failed | Role::Orphan | Role::Work => {
            "the queue was deleted with its messages, and further messages for it have no \
             destination"
        }
    }
}

#[cfg(test)]
#[path = "presence_tests.rs"]
mod tests;
