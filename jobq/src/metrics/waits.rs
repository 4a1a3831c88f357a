//! The metrics of jobs that wait in a broker.

use ::metrics::{Key, Label};

use super::{LEVELS, METADATA, Metric, QUEUE, WAITS_LATE, WAITS_STUCK};
use crate::engine::Passage;

/// Sets how jobs come through the tiers of a queue, or with `None` the levels. A queue has these
/// metrics once it was in trouble.
pub(crate) fn comes_through(queue: Option<&str>, passage: Passage) {
    let set = |metric: Metric, is_on: bool| {
        let label = Label::new(QUEUE, queue.unwrap_or(LEVELS).to_owned());
        let key = Key::from_parts(metric.name, vec![label]);
        let gauge = ::metrics::with_recorder(|recorder| recorder.register_gauge(&key, &METADATA));
        gauge.set(f64::from(u8::from(is_on)));
    };
    set(WAITS_LATE, passage >= Passage::Late);
    set(WAITS_STUCK, passage >= Passage::Stuck);
}
