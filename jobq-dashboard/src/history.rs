//! The figures of the last hour, a point each ten seconds. Pure.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, SystemTime};

use jobq::admin::Overview;

/// The time between two points.
const STEP: Duration = Duration::from_secs(10);
/// The most points of a queue: an hour.
const POINTS: usize = 360;
/// The most queues.
const QUEUES: usize = 10_000;

/// Figures of a queue at one time; `None` for what was unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Point {
    pub(crate) ready: Option<u32>,
    pub(crate) completed: Option<u32>,
}

/// The figures of the last hour.
#[derive(Debug, Default)]
pub(crate) struct History {
    queues: BTreeMap<String, VecDeque<Point>>,
    /// The time of the last point.
    last: Option<SystemTime>,
}

impl History {
    /// Adds a point of each queue, if it is time for one.
    pub(crate) fn add(&mut self, overview: &Overview, now: SystemTime) {
        let mut steps = 1;
        if let Some(last) = self.last {
            match now.duration_since(last) {
                Ok(passed) if passed < STEP => return,
                // A time without samples is a gap.
                Ok(passed) => steps = (passed.as_secs() / STEP.as_secs()).clamp(1, POINTS as u64),
                Err(_) => {}
            }
        }
        self.last = Some(now);
        let small = |number: &u64| u32::try_from(*number).unwrap_or(u32::MAX);
        let points: BTreeMap<_, _> = overview
            .queues
            .iter()
            .take(QUEUES)
            .map(|queue| {
                let (ready, completed) = (queue.ready.known(), queue.completed.known());
                (&*queue.queue, Point { ready: ready.map(small), completed: completed.map(small) })
            })
            .collect();
        for queue in points.keys() {
            if !self.queues.contains_key(*queue) {
                self.queues.insert((*queue).to_owned(), VecDeque::new());
            }
        }
        self.queues.retain(|queue, series| {
            for _ in 1..steps {
                push(series, Point::default());
            }
            push(series, points.get(&**queue).copied().unwrap_or_default());
            points.contains_key(&**queue) || series.iter().any(|point| *point != Point::default())
        });
    }

    /// The last points of a queue, the oldest first.
    pub(crate) fn last(&self, queue: &str, points: usize) -> Vec<Point> {
        let Some(series) = self.queues.get(queue) else { return Vec::new() };
        series.iter().skip(series.len().saturating_sub(points)).copied().collect()
    }
}

fn push(series: &mut VecDeque<Point>, point: Point) {
    if series.len() == POINTS {
        series.pop_front();
    }
    series.push_back(point);
}
