//! Findings about consumers of other clients on queues of jobq. Pure.
//!
//! jobq recognizes its own consumers by their tags: those of pools name the pool and the
//! queue, and those that read failed jobs are numbers.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::facts::Consumer;
use super::few;
use super::role::{Role, role};
use crate::finding::{Finding, FindingKind, Severity};
use crate::rabbitmq::topology::names::{Names, SEAT_TAG};

/// The consumers that are not jobq's: one finding for each queue.
pub(super) fn others(consumers: &[Consumer], names: &Names) -> Vec<Finding> {
    let mut found = BTreeMap::<(&str, Role), Vec<&Consumer>>::new();
    for consumer in consumers {
        let Some(role) = role(names, &consumer.queue) else {
            continue;
        };
        if !is_own(role, names, consumer) {
            found.entry((&consumer.queue, role)).or_default().push(consumer);
        }
    }
    let finding = |((queue, role), theirs): ((&str, Role), Vec<&Consumer>)| {
        let (count, who) = (theirs.len(), theirs.iter().copied().map(origin));
        let who = few(&who.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>());
        let consumers = if count == 1 { "consumer that is" } else { "consumers that are" };
        Finding::new(FindingKind::Consumers, Severity::Warning, format!("queue `{queue}`"))
            .found(format!("has {count} {consumers} not jobq's: {who}"))
            .matters(loss(role))
            .remedy(
                "stop that client, and take away its user's read permission on jobq's queues; for \
                 events, give it a queue of its own with a binding to the exchange of events",
            )
    };
    found.into_iter().map(finding).collect()
}

/// Whether the tag is one that jobq gives to its consumers of such a queue.
fn is_own(role: Role, names: &Names, consumer: &Consumer) -> bool {
    let (queue, tag) = (&consumer.queue, consumer.tag.as_str());
    let is_of_pool = |key: &str| {
        let pool =
            tag.strip_prefix("jobq.").and_then(|tag| tag.strip_suffix(key)?.strip_suffix('.'));
        pool.is_some_and(|pool| Uuid::parse_str(pool).is_ok())
    };
    // Consumers without a pool, and those of pools that take no orders.
    let is_unnamed = tag == "0";
    let user_queue = names.queue_of(queue).unwrap_or_default();
    match role {
        Role::Work => is_unnamed || names.lane_of(queue).is_some_and(is_of_pool),
        Role::Solo => is_unnamed || is_of_pool(&Names::solo_key(user_queue)),
        Role::Orphan => is_unnamed,
        Role::Seat => tag == SEAT_TAG,
        Role::Failed => tag.len() == 5 && tag.bytes().all(|byte| byte.is_ascii_digit()),
        Role::Tier | Role::Level | Role::Due => false,
    }
}

/// The user, host and tag of a consumer, as far as the management API shows them.
fn origin(Consumer { tag, user, host, .. }: &Consumer) -> String {
    let tag = format!("tag `{tag}`");
    match (user, host) {
        (Some(user), Some(host)) => format!("user `{user}` on {host}, {tag}"),
        (Some(user), None) => format!("user `{user}`, {tag}"),
        (None, _) => tag,
    }
}

fn loss(role: Role) -> &'static str {
    match role {
        Role::Work | Role::Solo => {
            "a job that another client takes is hidden from jobq until it is returned, and gone \
             once it is acknowledged: no worker runs it"
        }
        Role::Failed => {
            "a failed job that another client takes is hidden from jobq until it is returned, and \
             gone once it is acknowledged; meanwhile no failed job can be listed or retried"
        }
        Role::Orphan => {
            "an unroutable message that another client takes is neither sent again nor found \
             among the failed jobs"
        }
        Role::Seat => {
            "the schedules of the queue are hidden from its pools, and none of their jobs is enqueued"
        }
        Role::Tier | Role::Level | Role::Due => {
            "a waiting job that another client takes does not come back when it is due, and is \
             gone once it is acknowledged"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn consumer(queue: &str, tag: &str) -> Consumer {
        Consumer {
            queue: queue.into(),
            tag: tag.into(),
            user: Some("bob".into()),
            host: Some("10.0.0.7".into()),
        }
    }

    #[test]
    fn jobqs_own_consumers_are_told_by_their_tags() {
        let names = Names::new("jobq");
        let pool = "0190b6d6-7d6c-7a3a-8a4e-0123456789ab";
        let of_pool = |key: &str| format!("jobq.{pool}.{key}");
        let table = [
            ("jobq:mail", of_pool("mail"), true),
            ("jobq:mail.v2", of_pool("mail.v2"), true),
            ("jobq:mail@solo", of_pool("mail@solo"), true),
            ("jobq:mail", "0".into(), true),
            ("jobq:mail@solo", "0".into(), true),
            ("jobq.orphan", "0".into(), true),
            ("jobq:mail@seat", "seat".into(), true),
            ("jobq:mail@failed", "00000".into(), true),
            ("jobq:mail@failed", "00012".into(), true),
            // Not queues of jobs.
            ("jobq:mail@failed.lock", "x".into(), true),
            ("other", "x".into(), true),
            ("jobqs:mail", "x".into(), true),
            // Others.
            ("jobq:mail", "ctag-1".into(), false),
            ("jobq:mail", String::new(), false),
            ("jobq:mail", of_pool("video"), false),
            ("jobq:mail", of_pool("mail@solo"), false),
            ("jobq:mail", "jobq.mail".into(), false),
            ("jobq:mail", "jobq.me.mail".into(), false),
            ("jobq:mail", "00000".into(), false),
            ("jobq:mail@solo", of_pool("mail"), false),
            ("jobq:mail@failed", of_pool("mail"), false),
            ("jobq:mail@failed", "0".into(), false),
            ("jobq:mail@failed", "abcde".into(), false),
            ("jobq:mail@wait.30s", "0".into(), false),
            ("jobq:mail@due", "x".into(), false),
            ("jobq.level.0.1", "x".into(), false),
            ("jobq.orphan", "x".into(), false),
            ("jobq:mail@seat", "0".into(), false),
        ];
        for (queue, tag, is_own) in table {
            let found = others(&[consumer(queue, &tag)], &names);
            assert_eq!(found.is_empty(), is_own, "{queue} {tag}: {found:?}");
            assert!(found.iter().all(|found| found.about() == format!("queue `{queue}`")));
        }
    }

    #[test]
    fn a_queue_is_named_once_with_its_other_consumers() {
        let names = Names::new("jobq");
        let of_mqtt = Consumer { user: None, host: None, ..consumer("jobq:mail", "b") };
        let of_nobody = Consumer { host: None, ..consumer("jobq:mail", "c") };
        let all =
            [consumer("jobq:mail", "a"), of_mqtt, of_nobody, consumer("jobq:mail@failed", "d")];
        let found = others(&all, &names);
        let said: Vec<_> = found.iter().map(|found| (found.about(), found.what())).collect();
        let expected = [
            (
                "queue `jobq:mail`",
                "has 3 consumers that are not jobq's: tag `b`, user `bob` on 10.0.0.7, tag `a`, \
                 user `bob`, tag `c`",
            ),
            (
                "queue `jobq:mail@failed`",
                "has 1 consumer that is not jobq's: user `bob` on 10.0.0.7, tag `d`",
            ),
        ];
        assert_eq!(said, expected);
        for found in &found {
            assert_eq!(found.severity(), Severity::Warning);
            assert!(!found.why().is_empty() && found.advice().contains("stop that client"));
        }
    }
}
