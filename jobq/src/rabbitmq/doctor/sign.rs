//! What a policy left behind on a job: all that AMQP shows of it.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use lapin::BasicProperties;

use crate::rabbitmq::message::deaths::died_by_policy;
use crate::rabbitmq::topology::names::Names;

/// The queues of which a policy was seen to lose jobs.
#[derive(Debug, Default)]
pub(crate) struct LimitedQueues(Mutex<HashSet<String>>);

impl LimitedQueues {
    /// Tells, once for each queue, that a policy loses its jobs, where a job says so.
    pub(crate) fn notice(&self, names: &Names, queue: &str, properties: &BasicProperties) {
        let Some(headers) = properties.headers() else {
            return;
        };
        let name = names.work(queue);
        let Some(reason) = died_by_policy(headers, &name) else {
            return;
        };
        let mut limited = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if limited.insert(queue.to_owned()) {
            tracing::error!(
                queue,
                reason,
                "a policy limits the queue `{}`: the broker took jobs out of it that no worker had, \
                 and loses such jobs; `rabbitmqctl list_policies` and `list_operator_policies` show \
                 which, take jobq's queues out of its pattern",
                name
            );
        }
    }
}
