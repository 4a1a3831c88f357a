//! Pools whose clocks differ from this machine's, as their answers tell.

use std::sync::Arc;
use std::time::Duration;

use super::Control;
use super::queue::{ControlQueue, publish};
use super::wire::{Message, address_key, pool_key};
use crate::engine::{Ask, PoolId, PoolReport, Question};
use crate::error::Result;
use crate::finding::{Finding, FindingKind, Severity};
use crate::rabbitmq::topology::lookup::{Seen, look};
use crate::rabbitmq::topology::plan::Topology;
use crate::{host, period};

/// The offset beyond which a pool is told, in milliseconds.
const LARGE: u64 = 1_000;
/// How long the doctor waits for pools.
const PATIENCE: Duration = Duration::from_millis(500);

impl Control {
    /// Tells each pool whose clock differs by more than a second, so that its log says so. It
    /// is told again at each question, and logs it once an hour.
    pub(super) async fn tell_clocks(
        &self,
        queue: &ControlQueue,
        reports: impl Iterator<Item = &PoolReport>,
    ) {
        let messages: Vec<_> = reports.filter_map(|report| self.clock(queue, report)).collect();
        let messages: Vec<_> = messages
            .iter()
            .map(|(pool, message)| (self.names().control(), pool_key(*pool), message))
            .collect();
        if messages.is_empty() {
            return;
        }
        if let Err(error) = publish(&queue.up, &messages).await {
            tracing::debug!(%error, "could not notify pools that their clocks differ");
        }
    }

    fn clock(&self, queue: &ControlQueue, report: &PoolReport) -> Option<(PoolId, Message)> {
        let ahead_ms = report.clock_offset_ms.filter(|offset| offset.unsigned_abs() > LARGE)?;
        let question = Question::Clock { ahead_ms, of: host::name().to_owned() };
        let message = Message::Ask {
            // Nobody waits for the answer.
            number: self.calls.open().number,
            reply_to: address_key(queue.address),
            pool: Some(report.pool),
            question: serde_json::to_value(question).ok()?,
        };
        Some((report.pool, message))
    }

    /// The reports of the pools that answer, for the doctor. None if they cannot be asked.
    pub(crate) async fn reports(self: &Arc<Self>) -> Vec<PoolReport> {
        let asking = async {
            if !self.was_used().await? {
                return Ok(Vec::new());
            }
            let ask = Ask::all(Question::Report, Vec::new(), PATIENCE);
            Ok(self.ask(ask, |_| None).await?.reports().cloned().collect())
        };
        let reports: Result<_> = asking.await;
        reports.unwrap_or_else(|error| {
            tracing::debug!(%error, "could not query pools for the doctor");
            Vec::new()
        })
    }

    /// Whether pools may have been here: the doctor declares nothing.
    async fn was_used(&self) -> Result<bool> {
        let (up, topology) = (self.broker.up().await?, Topology::of_control(self.names()));
        Ok(look(&up, &topology.places()).await? == Seen::All)
    }
}

/// Findings about the clocks of pools.
pub(crate) fn examine_clocks(reports: &[PoolReport]) -> Vec<Finding> {
    reports.iter().filter_map(finding).collect()
}

/// The finding about the clock of a pool, if it certainly differs.
fn finding(report: &PoolReport) -> Option<Finding> {
    let offset = report.clock_offset_ms?;
    let difference = period::format(Duration::from_millis(offset.unsigned_abs()));
    let is_large = offset.unsigned_abs() > LARGE;
    let severity = if is_large { Severity::Warning } else { Severity::Note };
    let (way, effect) = if offset > 0 { ("ahead of", "too early") } else { ("behind", "too late") };
    let finding = Finding::new(
        FindingKind::Clock,
        severity,
        format!("pool {} on {}", report.pool, report.host),
    );
    let finding = finding
        .found(format!(
            "its clock is {difference} {way} the clock of this machine, {}",
            host::name()
        ))
        .matters(format!("jobs with `expires` that were enqueued here expire {effect} there"))
        .remedy("synchronize the clocks of both machines, for example with NTP");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::from_millis;

    #[test]
    fn a_clock_that_differs_is_a_finding() {
        let mut report = PoolReport::new(PoolId::new(), "web1".into(), from_millis(0), Vec::new());
        for (offset, expected) in [
            (None, None),
            (Some(300), Some((Severity::Note, "300ms ahead", "too early"))),
            (Some(65_000), Some((Severity::Warning, "1m5s ahead", "too early"))),
            (Some(-2_000), Some((Severity::Warning, "2s behind", "too late"))),
        ] {
            report.clock_offset_ms = offset;
            let found = finding(&report);
            assert_eq!(found.is_some(), expected.is_some(), "{offset:?}");
            let Some((found, (severity, what, why))) = found.zip(expected) else { continue };
            assert_eq!((found.kind(), found.severity()), (FindingKind::Clock, severity));
            assert!(found.what().contains(what) && found.why().contains(why), "{found:?}");
            assert!(found.about().contains("web1"));
        }
    }
}
