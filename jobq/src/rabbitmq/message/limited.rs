//! Traces of a policy on a job, the only ones that AMQP shows.

use std::collections::HashSet;
use std::sync::Mutex;

use lapin::BasicProperties;

use super::deaths::died_by_policy;
use crate::guard::lock;
use crate::rabbitmq::topology::names::Names;

/// The queues whose jobs a policy was seen to remove.
#[derive(Debug, Default)]
pub(crate) struct LimitedQueues(Mutex<HashSet<String>>);

impl LimitedQueues {
    /// Warns once for each queue that a policy removes its jobs, if a job shows it.
    pub(crate) fn notice(&self, names: &Names, queue: &str, properties: &BasicProperties) {
        let Some(headers) = properties.headers() else {
            return;
        };
        let places = names.work_queues(queue).into_iter();
        let mut died = places.filter_map(|name| Some((died_by_policy(headers, &name)?, name)));
        let Some((reason, name)) = died.next() else {
            return;
        };
        let mut limited = lock(&self.0);
        if limited.insert(queue.to_owned()) {
            tracing::error!(
                queue,
                reason,
                "policy limits queue `{}`: the broker removes and loses jobs that no worker \
                 holds; find the policy with `rabbitmqctl list_policies` and \
                 `list_operator_policies`, and exclude jobq's queues from its pattern",
                name
            );
        }
    }
}
