//! The messages of control, as JSON. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::engine::{Pause, PoolId, PoolReport, Question, Reply};

/// The version of the messages. A client ignores those of another version.
const VERSION: u32 = 1;
/// The routing key of messages to every client.
pub(super) const ALL: &str = "all";

/// The routing key of a pool.
pub(super) fn pool_key(pool: PoolId) -> String {
    format!("pool:{pool}")
}

/// The routing key of a control queue.
pub(super) fn address_key(address: Uuid) -> String {
    format!("to:{address}")
}

/// The routing key of the question whether a queue is paused, from this control queue.
pub(super) fn echo_key(queue: &str, address: Uuid) -> String {
    format!("{queue}.{address}")
}

/// The binding key of echoes to a control queue: the name of a queue may have several words.
pub(super) fn echo_pattern(address: Uuid) -> String {
    format!("#.{address}")
}

/// The binding key that means that a queue is paused.
pub(super) fn paused_pattern(queue: &str) -> String {
    format!("{queue}.*")
}

/// A message of control. A number is unique in the control queue that is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Message {
    /// A question or an order.
    Ask {
        number: u64,
        /// The routing key for answers.
        reply_to: String,
        /// The pool that is asked; absent for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pool: Option<PoolId>,
        /// A [`Question`], which a client of another version may not know.
        question: Value,
    },
    /// The answer of one pool.
    Answer {
        number: u64,
        pool: PoolId,
        /// The numbers of its consumers by queue, those of solo runs apart, if all pools were
        /// asked.
        consumers: BTreeMap<String, u32>,
        reply: Reply,
    },
    /// A queue was paused.
    Paused { queue: String, pause: Pause },
    /// A queue was resumed.
    Resumed { queue: String },
    /// Comes back to its sender if a queue is paused.
    Echo { number: u64 },
    /// Comes back to its sender, after the echo that was sent before.
    Fence { number: u64 },
}

/// A message with the version.
#[derive(Serialize, Deserialize)]
struct Versioned {
    v: u32,
    #[serde(flatten)]
    message: Value,
}

impl Message {
    pub(super) fn write(&self) -> Vec<u8> {
        let message = serde_json::to_value(self).unwrap_or_default();
        serde_json::to_vec(&Versioned { v: VERSION, message }).unwrap_or_default()
    }

    /// The message in these bytes, or why it cannot be read.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let Versioned { v, message } =
            serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if v != VERSION {
            return Err(format!("its version is {v}, but this client supports {VERSION}"));
        }
        serde_json::from_value(message).map_err(|error| error.to_string())
    }
}

/// The answer of a pool, with its report if that is `wanted` or is the answer. `answer` is how it
/// answers.
pub(super) fn answer(
    question: &Value,
    wanted: bool,
    answer: impl Fn(&Question) -> Reply,
) -> (Reply, Option<PoolReport>) {
    let reply = Question::deserialize(question).map(|question| answer(&question));
    let reply = reply.unwrap_or_else(|_| {
        let version = env!("CARGO_PKG_VERSION");
        Reply::Refused { why: format!("it runs jobq {version}, which does not support the query") }
    });
    let report = match &reply {
        Reply::Report(report) => Some(report.clone()),
        _ if !wanted => None,
        _ => match answer(&Question::Report) {
            Reply::Report(report) => Some(report),
            _ => None,
        },
    };
    (reply, report)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use serde_json::json;

    use super::*;
    use crate::engine::PoolQueue;

    fn report(pool: PoolId) -> Reply {
        let mut queue = PoolQueue::new("mail", 4);
        queue.consumers = vec!["jobq.1.mail".into(), "jobq.1.mail@solo".into()];
        let queues = vec![queue, PoolQueue::new("other", 1)];
        Reply::Report(PoolReport::new(pool, "web1".into(), SystemTime::UNIX_EPOCH, queues))
    }

    #[test]
    fn a_message_is_read_as_it_is_written() {
        let pool = PoolId::new();
        let question = serde_json::to_value(Question::Report).unwrap();
        let (number, queue) = (u64::MAX, "mail.welcome".to_owned());
        for message in [
            Message::Ask { number, reply_to: address_key(Uuid::nil()), pool: None, question },
            Message::Answer {
                number,
                pool,
                consumers: [("mail".to_owned(), 2)].into(),
                reply: report(pool),
            },
            Message::Paused { queue: queue.clone(), pause: Pause::default() },
            Message::Paused {
                queue: queue.clone(),
                pause: Pause::new(SystemTime::UNIX_EPOCH, "ann", "upgrade"),
            },
            Message::Resumed { queue },
            Message::Echo { number },
            Message::Fence { number: 0 },
        ] {
            let bytes = message.write();
            assert_eq!(Message::read(&bytes), Ok(message), "{}", String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn what_another_version_sends_is_not_read() {
        for (text, expected) in [
            (r#"{"v":1,"kind":"resumed","queue":"a"}"#, None),
            (r#"{"v":1,"kind":"resumed","queue":"a","more":1}"#, None),
            (r#"{"v":2,"kind":"resumed","queue":"a"}"#, Some("its version is 2")),
            (r#"{"v":1,"kind":"dance"}"#, Some("dance")),
            (r#"{"kind":"resumed","queue":"a"}"#, Some("`v`")),
            ("", Some("EOF")),
            ("[]", Some("")),
        ] {
            match (Message::read(text.as_bytes()), expected) {
                (Ok(_), None) => {}
                (Err(error), Some(said)) => assert!(error.contains(said), "{text}: {error}"),
                (read, _) => panic!("{text}: {read:?}"),
            }
        }
    }

    #[test]
    fn an_answer_has_the_report_if_that_is_wanted() {
        let pool = PoolId::new();
        let answers = |question: &Question| match question {
            Question::Report => report(pool),
            _ => Reply::Accepted,
        };
        for (question, wanted, expected, has_report) in [
            (json!({"ask": "report"}), true, report(pool), true),
            (json!({"ask": "report"}), false, report(pool), true),
            (json!({"ask": "quiet"}), true, Reply::Accepted, true),
            // An order to one pool.
            (json!({"ask": "quiet"}), false, Reply::Accepted, false),
        ] {
            let (reply, report) = answer(&question, wanted, answers);
            assert_eq!((reply, report.is_some()), (expected, has_report), "{question}");
        }
        let (reply, report) = answer(&json!({"ask": "sing"}), true, answers);
        assert!(matches!(reply, Reply::Refused { why } if why.contains("does not support")));
        assert!(report.is_some());
        assert_eq!(answer(&json!({"ask": "quiet"}), true, |_| Reply::Accepted).1, None);
    }

    #[test]
    fn a_question_about_one_queue_meets_no_other() {
        // A topic binding of words, as RabbitMQ matches it: here without `#` inside.
        let is_match = |pattern: &str, key: &str| {
            let (pattern, key): (Vec<_>, Vec<_>) =
                (pattern.split('.').collect(), key.split('.').collect());
            pattern.len() == key.len()
                && pattern.iter().zip(&key).all(|(word, other)| *word == "*" || word == other)
        };
        let address = Uuid::now_v7();
        let queues = ["mail", "mail.welcome", "welcome", "mail.welcome.now"];
        for asked in queues {
            let key = echo_key(asked, address);
            assert!(key.ends_with(&echo_pattern(address)[1..]));
            for paused in queues {
                assert_eq!(is_match(&paused_pattern(paused), &key), asked == paused);
            }
        }
    }
}
