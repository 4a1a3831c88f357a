//! The effects of a policy on a queue of jobq. Pure.
//!
//! Which of the two applies, a policy or jobq's argument of the same name, depends on the key
//! (measured: 3.10, 4.0 and 4.3, by the configuration of the queue that `rabbitmqctl eval` shows):
//!
//! * the argument: `dead-letter-exchange`, `dead-letter-strategy`, `dead-letter-routing-key`;
//! * the lower one: `max-length`, `max-length-bytes`, `message-ttl`, `expires`, `delivery-limit` (a
//!   negative one is no limit), `consumer-timeout`;
//! * the policy: `overflow`, of operators too on 4.x. Any value but `reject-publish` is
//!   `drop-head`, and a queue with `drop-head` dead-letters at most once.

use std::time::Duration;

use serde_json::Value;

use super::facts::Queue;
use super::role::Role;
use crate::finding::Severity;
use crate::period;
use crate::rabbitmq::topology::plan::CONSUMER_TIMEOUT;

/// The keys that weaken a guarantee on some queue.
pub(super) const KEYS: [&str; 9] = [
    "overflow",
    "max-length",
    "max-length-bytes",
    "message-ttl",
    "expires",
    "delivery-limit",
    "dead-letter-routing-key",
    "consumer-timeout",
    "delayed-retry-type",
];

/// The effect of a policy key on a queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Effect {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) severity: Severity,
    pub(crate) why: String,
}

/// The effects of a queue's policies that weaken a guarantee.
pub(crate) fn effects(role: Role, queue: &Queue) -> Vec<Effect> {
    let Some(policy) = queue.effective.as_object() else {
        return Vec::new();
    };
    let drops = policy.get("overflow").is_some_and(|overflow| overflow != "reject-publish");
    let effect = |(key, value): (&String, &Value)| {
        let own = queue.arguments.get(format!("x-{key}")).and_then(Value::as_u64);
        let why = harm(role, key, value, own, drops)?;
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some(Effect { key: key.clone(), value, severity: severity(role, key), why })
    };
    policy.iter().filter(|(key, _)| KEYS.contains(&key.as_str())).filter_map(effect).collect()
}

/// How a policy's key harms a queue. `own` is the number in jobq's argument of that name, and `drops`
/// whether the policy has the queue remove its oldest messages when it is full.
fn harm(role: Role, key: &str, value: &Value, own: Option<u64>, drops: bool) -> Option<String> {
    use Role::{Due, Failed, Level, Orphan, Seat, Solo, Tier, Work};
    let after = value.as_u64().map_or_else(|| value.to_string(), time);
    let unlimited = value.as_i64().is_some_and(i64::is_negative);
    let lower =
        !unlimited && value.as_u64().is_none_or(|number| own.is_none_or(|own| number < own));
    let key = if key == "max-length-bytes" { "max-length" } else { key };
    let why: &str = match (key, role) {
        ("overflow", Work | Tier | Level | Due) if drops => {
            "for this key the policy overrides jobq's argument `reject-publish`: the broker \
             dead-letters at most once, and jobs in transit to another queue are lost if it is \
             killed"
        }
        ("max-length", Work | Tier | Level | Due) if drops => {
            "once the queue is full, the broker drops its oldest jobs"
        }
        ("max-length", Work) => {
            "once the queue is full, the broker refuses new jobs, and its retries and delayed jobs \
             wait for free space"
        }
        ("max-length", Tier) => "once the tier is full, the retries of its queue stop",
        ("max-length", Level) => {
            "once the level is full, the broker refuses delayed jobs and events"
        }
        ("max-length", Due) => {
            "once the queue is full, its delayed jobs block those of other queues"
        }
        ("max-length", Solo) => {
            "once the queue is full, jobs suspected of killing workers are deleted"
        }
        ("max-length", Seat) => "once the queue is full, schedules are deleted",
        ("message-ttl", Seat) => {
            &format!("schedules are deleted if no pool holds them for {after}")
        }
        ("expires", Seat) => {
            &format!("schedules are deleted after {after} without a pool that waits for them")
        }
        ("delivery-limit", Seat) if lower => {
            "the broker deletes the schedules when so many pools that held them have ended"
        }
        ("consumer-timeout", Seat) if lower => {
            &format!("after {after}, the broker has another pool enqueue the jobs of schedules")
        }
        ("delayed-retry-type", Seat) if value != "disabled" => {
            "when the pool that enqueues the jobs of schedules ends, the next one begins only after the \
             delay set by the policy"
        }
        ("max-length", Failed | Orphan) => {
            "once the queue is full, the oldest failed jobs are deleted"
        }
        ("message-ttl", Work | Solo) => {
            &format!("the broker drops jobs that have been ready for {after}")
        }
        ("message-ttl", Tier | Level) if lower => {
            &format!("jobs that wait here come back after {after}, which is too early")
        }
        ("message-ttl", Failed | Orphan) => &format!("failed jobs are deleted after {after}"),
        ("expires", Work | Tier | Level | Due | Solo) => {
            &format!("the queue is deleted with its jobs after {after} without a consumer")
        }
        ("expires", Failed | Orphan) => {
            &format!("failed jobs are deleted if nobody reads them for {after}")
        }
        ("delivery-limit", Work | Solo) if lower => {
            "the broker drops a job after this many deliveries, including those to workers that \
             stopped or died while they held it; jobq itself detects jobs that kill their workers"
        }
        ("delivery-limit", Failed | Orphan) if lower => {
            "the broker deletes failed jobs that were read this many times"
        }
        ("dead-letter-routing-key", Work) => "retries do not reach a tier and fail as unroutable",
        ("dead-letter-routing-key", Tier | Level) => {
            "jobs that waited here do not return to their queue"
        }
        ("consumer-timeout", Work | Solo) if lower => {
            &format!("after {after}, the broker takes back a running job, which runs again")
        }
        ("delayed-retry-type", Work | Solo) if value != "disabled" => {
            "jobs that a pool returns, or held when it died, start only after the delay set by the \
             policy"
        }
        ("delayed-retry-type", Failed | Orphan) if value != "disabled" && value != "returned" => {
            "after each read, failed jobs are hidden for the delay set by the policy"
        }
        _ => return None,
    };
    Some(why.to_owned())
}

/// Jobs that wait or run may be lost; failed ones have ended, and a job that starts later or once more
/// is not lost.
fn severity(role: Role, key: &str) -> Severity {
    match (key, role) {
        ("consumer-timeout" | "delayed-retry-type", _) | (_, Role::Failed | Role::Orphan) => {
            Severity::Warning
        }
        _ => Severity::Error,
    }
}

fn time(millis: u64) -> String {
    period::format(Duration::from_millis(millis))
}

/// jobq's limit for the run time of a job.
pub(crate) fn longest_run() -> String {
    time(CONSUMER_TIMEOUT.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    type Expected<'t> = &'t [(Role, Severity)];

    #[test]
    fn each_key_matters_where_it_does() {
        use Role::{Due, Failed, Level, Orphan, Seat, Solo, Tier, Work};
        use Severity::{Error, Warning};
        let none = &[];
        let all = &[
            (Work, Error),
            (Tier, Error),
            (Level, Error),
            (Due, Error),
            (Solo, Error),
            (Seat, Error),
            (Failed, Warning),
            (Orphan, Warning),
        ];
        let kept =
            &[(Work, Error), (Solo, Error), (Seat, Error), (Failed, Warning), (Orphan, Warning)];
        let held = &[(Work, Warning), (Solo, Warning), (Seat, Warning)];
        let passing_on = &[(Work, Error), (Tier, Error), (Level, Error), (Due, Error)];
        let table: &[(&str, Value, Expected<'_>)] = &[
            ("max-length", json!(5), all),
            ("max-length-bytes", json!(5), all),
            (
                "message-ttl",
                json!(60_000),
                // The queue out of the levels has a shorter one.
                &[
                    (Work, Error),
                    (Tier, Error),
                    (Level, Error),
                    (Solo, Error),
                    (Seat, Error),
                    (Failed, Warning),
                    (Orphan, Warning),
                ],
            ),
            // The wait of a tier and of a level is shorter.
            ("message-ttl", json!(4_000_000_000_u64), kept),
            ("expires", json!(60_000), all),
            ("delivery-limit", json!(20), kept),
            ("delivery-limit", json!(2_147_483_647), none),
            // No limit on 4.x, so that the argument's applies; refused on 3.10.
            ("delivery-limit", json!(-1), none),
            ("delivery-limit", json!(0), kept),
            (
                "dead-letter-routing-key",
                json!("elsewhere"),
                &[(Work, Error), (Tier, Error), (Level, Error)],
            ),
            ("consumer-timeout", json!(1_000), held),
            ("consumer-timeout", json!(90_000_000), none),
            ("dead-letter-exchange", json!("x"), none),
            ("overflow", json!("drop-head"), passing_on),
            // Not supported by quorum queues, which take it for `drop-head`.
            ("overflow", json!("reject-publish-dlx"), passing_on),
            ("overflow", json!("reject-publish"), none),
            ("dead-letter-strategy", json!("at-most-once"), none),
            (
                "delayed-retry-type",
                json!("all"),
                &[
                    (Work, Warning),
                    (Solo, Warning),
                    (Seat, Warning),
                    (Failed, Warning),
                    (Orphan, Warning),
                ],
            ),
            ("delayed-retry-type", json!("returned"), held),
            ("delayed-retry-type", json!("disabled"), none),
            ("consumer-disconnected-timeout", json!(5_000), none),
            ("max-in-memory-length", json!(1), none),
            ("target-group-size", json!(3), none),
        ];
        let arguments = |role| match role {
            Work | Solo | Seat => {
                json!({"x-delivery-limit": 2_147_483_647, "x-consumer-timeout": 86_400_000})
            }
            Tier | Level => json!({"x-message-ttl": 3_600_000}),
            Due => json!({"x-message-ttl": 10}),
            Failed | Orphan => json!({"x-delivery-limit": 2_147_483_647}),
        };
        for (key, value, expected) in table {
            for role in [Work, Tier, Level, Due, Solo, Seat, Failed, Orphan] {
                let queue = Queue {
                    arguments: arguments(role),
                    effective: json!({ *key: value }),
                    ..Queue::default()
                };
                let found = effects(role, &queue);
                let expected = expected.iter().find(|(other, _)| *other == role);
                let severity = found.first().map(|effect| effect.severity);
                assert!(found.is_empty() || KEYS.contains(key), "{key}");
                assert_eq!(severity, expected.map(|(_, severity)| *severity), "{key} on {role:?}");
                assert!(found.iter().all(|effect| effect.key == *key && !effect.why.is_empty()));
            }
        }
    }

    #[test]
    fn a_full_queue_refuses_jobs_or_loses_them() {
        let why = |overflow: &str| {
            let effective = json!({"max-length": 5, "overflow": overflow});
            let found = effects(Role::Work, &Queue { effective, ..Queue::default() });
            found.into_iter().find(|effect| effect.key == "max-length").unwrap().why
        };
        assert!(why("reject-publish").contains("the broker refuses new jobs"));
        assert!(why("drop-head").contains("the broker drops its oldest jobs"));
    }

    #[test]
    fn values_other_than_tables_have_no_effect() {
        for effective in [Value::Null, json!([]), json!("max-length"), json!({})] {
            let queue = Queue { effective, ..Queue::default() };
            assert_eq!(effects(Role::Work, &queue), []);
        }
        let odd = Queue { effective: json!({"message-ttl": "soon"}), ..Queue::default() };
        assert_eq!(
            effects(Role::Work, &odd)[0].why,
            "the broker drops jobs that have been ready for \"soon\""
        );
    }
}
