//! The metrics of a relay.

use ::metrics::{Counter, Gauge, Key, Label};

use super::{
    METADATA, Metric, OUTBOX, RELAY_LAG, RELAY_REFUSED, RELAY_WORKING, RELAYED, RESULT, RESULTS,
};

/// The handles of a relay.
#[derive(Debug)]
pub(crate) struct RelayMetrics {
    sent: Counter,
    refused: Counter,
    working: Gauge,
    lag: Gauge,
    left: Gauge,
}

impl RelayMetrics {
    /// The handles of a relay of this table.
    pub(crate) fn new(outbox: &str) -> Self {
        super::describe();
        let key = |metric: Metric, result: Option<&'static str>| {
            let mut labels = vec![Label::new(OUTBOX, outbox.to_owned())];
            labels.extend(result.map(|result| Label::from_static_parts(RESULT, result)));
            Key::from_parts(metric.name, labels)
        };
        let [accepted, refused, _] = RESULTS;
        ::metrics::with_recorder(|recorder| {
            let gauge = |metric| recorder.register_gauge(&key(metric, None), &METADATA);
            let rows = |result| recorder.register_counter(&key(RELAYED, Some(result)), &METADATA);
            Self {
                sent: rows(accepted),
                refused: rows(refused),
                working: gauge(RELAY_WORKING),
                lag: gauge(RELAY_LAG),
                left: gauge(RELAY_REFUSED),
            }
        })
    }

    /// Rows were sent, and rows were refused.
    pub(crate) fn count(&self, sent: u64, refused: u64) {
        self.sent.increment(sent);
        self.refused.increment(refused);
    }

    /// Whether this relay works.
    pub(crate) fn working(&self, is_working: bool) {
        self.working.set(f64::from(u8::from(is_working)));
        if !is_working {
            self.left(0.0, 0);
        }
    }

    /// The age of the oldest row that was not tried yet, in seconds, and the number of refused rows.
    pub(crate) fn left(&self, oldest: f64, refused: u32) {
        self.lag.set(oldest);
        self.left.set(f64::from(refused));
    }
}
