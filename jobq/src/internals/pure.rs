//! The pure functions that every job passes through, with typical inputs, for benchmarks.

use std::hint::black_box;
use std::time::Duration;

use crate::job::{Delay, Ending, JobOptions, check_topic, topic};
use crate::rabbitmq;
use crate::{period, retry};

/// A call of one function.
pub type Part = Box<dyn Fn()>;

/// All calls, with their names.
#[must_use]
pub fn parts() -> Vec<(&'static str, Part)> {
    let growing = Delay::exponential(Duration::from_secs(10));
    let policy = JobOptions::new().retries(5).delay(growing);
    let mut parts = rabbitmq::pure::parts();
    let own: [(_, Part); 5] = [
        ("parse a period", { Box::new(|| _ = black_box(period::parse(black_box("1h 30m")))) }),
        ("format a period", {
            Box::new(|| _ = black_box(period::format(black_box(Duration::from_secs(5_400)))))
        }),
        ("decide on a retry", {
            Box::new(move || {
                black_box(retry::after(black_box(&policy), 3, false, &Ending::Failed, || 0.5));
            })
        }),
        ("check a topic", {
            Box::new(|| _ = black_box(check_topic(black_box("shop.order.created"))))
        }),
        ("match a topic", {
            Box::new(|| {
                black_box(topic::matches(black_box("shop.#.created"), "shop.order.created"));
            })
        }),
    ];
    parts.extend(own);
    parts
}
