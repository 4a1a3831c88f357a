//! The effects of a policy on a queue of jobq. Pure.
//!
//! Arguments of jobq override policies, except for limits: of these the lower one applies.

use std::time::Duration;

use serde_json::Value;

use super::facts::Queue;
use super::role::Role;
use crate::finding::Severity;
use crate::period;
use crate::rabbitmq::topology::declarations::CONSUMER_TIMEOUT;

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
    let effect = |(key, value): (&String, &Value)| {
        let own = queue.arguments.get(format!("x-{key}")).and_then(Value::as_u64);
        let (severity, why) = effect(role, key, value, own)?;
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some(Effect { key: key.clone(), value, severity, why })
    };
    policy.iter().filter_map(effect).collect()
}

/// The effect of one key. `own` is the number in jobq's argument of that name.
fn effect(role: Role, key: &str, value: &Value, own: Option<u64>) -> Option<(Severity, String)> {
    use Role::{Due, Failed, Level, Orphan, Solo, Tier, Work};
    use Severity::{Error, Warning};
    let after = || value.as_u64().map_or_else(|| value.to_string(), time);
    let lower = value.as_u64().is_none_or(|number| own.is_none_or(|own| number < own));
    let (severity, why) = match (key, role) {
        ("max-length" | "max-length-bytes", Work) => (
            Error,
            "once it is full, the broker refuses new jobs, and its retries and delayed jobs wait for \
             a place in it"
                .into(),
        ),
        ("max-length" | "max-length-bytes", Tier) => {
            (Error, "once it is full, the retries of its queue come to a halt".into())
        }
        ("max-length" | "max-length-bytes", Level) => {
            (Error, "once it is full, the broker refuses jobs and events with a delay".into())
        }
        ("max-length" | "max-length-bytes", Due) => {
            (Error, "once it is full, its delayed jobs hold up those of other queues".into())
        }
        ("max-length" | "max-length-bytes", Solo) => {
            (Error, "once it is full, jobs that workers died of are deleted".into())
        }
        ("max-length" | "max-length-bytes", Failed | Orphan) => {
            (Warning, "once it is full, the oldest failed jobs are deleted".into())
        }
        ("message-ttl", Work | Solo) => {
            (Error, format!("the broker loses a job that is ready for {}", after()))
        }
        ("message-ttl", Tier | Level) if lower => {
            (Error, format!("jobs that have to wait here come back after {}, too early", after()))
        }
        ("message-ttl", Failed | Orphan) => {
            (Warning, format!("failed jobs are deleted after {}", after()))
        }
        ("expires", Work | Tier | Level | Due | Solo) => (
            Error,
            format!("the queue is deleted with its jobs when nobody consumes it for {}", after()),
        ),
        ("expires", Failed | Orphan) => {
            (Warning, format!("failed jobs are deleted when nobody looks at them for {}", after()))
        }
        ("delivery-limit", Work | Solo) if lower => (
            Error,
            "the broker loses a job that it had to deliver so often, and it counts workers that \
             stopped or died with the job in hand; jobq itself finds jobs that kill"
                .into(),
        ),
        ("delivery-limit", Failed | Orphan) if lower => {
            (Warning, "the broker deletes failed jobs that were looked at so often".into())
        }
        ("dead-letter-routing-key", Work) => {
            (Error, "jobs to be retried find no tier, and fail as unroutable".into())
        }
        ("dead-letter-routing-key", Tier | Level) => {
            (Error, "jobs that waited here go elsewhere, and not back to their queue".into())
        }
        ("consumer-timeout", Work | Solo) if lower => (
            Warning,
            format!("the broker takes back a job that runs for {}: it runs again", after()),
        ),
        _ => return None,
    };
    Some((severity, why))
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
        use Role::{Due, Failed, Level, Orphan, Solo, Tier, Work};
        use Severity::{Error, Warning};
        let none = &[];
        let all = &[
            (Work, Error),
            (Tier, Error),
            (Level, Error),
            (Due, Error),
            (Solo, Error),
            (Failed, Warning),
            (Orphan, Warning),
        ];
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
                    (Failed, Warning),
                    (Orphan, Warning),
                ],
            ),
            // The wait of a tier and of a level is shorter.
            (
                "message-ttl",
                json!(4_000_000_000_u64),
                &[(Work, Error), (Solo, Error), (Failed, Warning), (Orphan, Warning)],
            ),
            ("expires", json!(60_000), all),
            (
                "delivery-limit",
                json!(20),
                &[(Work, Error), (Solo, Error), (Failed, Warning), (Orphan, Warning)],
            ),
            ("delivery-limit", json!(2_147_483_647), none),
            (
                "dead-letter-routing-key",
                json!("elsewhere"),
                &[(Work, Error), (Tier, Error), (Level, Error)],
            ),
            ("consumer-timeout", json!(1_000), &[(Work, Warning), (Solo, Warning)]),
            ("consumer-timeout", json!(90_000_000), none),
            ("dead-letter-exchange", json!("x"), none),
            ("overflow", json!("drop-head"), none),
            ("dead-letter-strategy", json!("at-most-once"), none),
            ("max-in-memory-length", json!(1), none),
            ("target-group-size", json!(3), none),
        ];
        let arguments = |role| match role {
            Work | Solo => {
                json!({"x-delivery-limit": 2_147_483_647, "x-consumer-timeout": 86_400_000})
            }
            Tier | Level => json!({"x-message-ttl": 3_600_000}),
            Due => json!({"x-message-ttl": 10}),
            Failed | Orphan => json!({"x-delivery-limit": 2_147_483_647}),
        };
        for (key, value, expected) in table {
            for role in [Work, Tier, Level, Due, Solo, Failed, Orphan] {
                let queue = Queue {
                    arguments: arguments(role),
                    effective: json!({ *key: value }),
                    ..Queue::default()
                };
                let found = effects(role, &queue);
                let expected = expected.iter().find(|(other, _)| *other == role);
                let severity = found.first().map(|effect| effect.severity);
                assert_eq!(severity, expected.map(|(_, severity)| *severity), "{key} on {role:?}");
                assert!(found.iter().all(|effect| effect.key == *key && !effect.why.is_empty()));
            }
        }
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
            "the broker loses a job that is ready for \"soon\""
        );
    }
}
