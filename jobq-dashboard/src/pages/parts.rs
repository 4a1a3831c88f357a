//! Where the jobs of a queue are.

use askama::Template;
use jobq::admin::text;
use jobq::admin::{Part, Place, QueueOverview};

use crate::show::ShownFigure;

/// The table of the page of a queue.
#[derive(Template)]
#[template(path = "parts.html")]
pub(crate) struct Parts {
    rows: Vec<Row>,
    /// Whether other jobs of the queue may be in the delay levels.
    has_levels: bool,
}

struct Row {
    place: String,
    jobs: ShownFigure,
    meaning: &'static str,
}

impl Parts {
    pub(crate) fn of(queue: &QueueOverview) -> Self {
        Self {
            rows: queue.parts.iter().map(row).collect(),
            has_levels: queue.parts.iter().any(|part| part.place == Place::Due),
        }
    }
}

fn row(part: &Part) -> Row {
    let place = match part.place {
        Place::Tier(wait) => format!("waiting {}", text::duration(wait)),
        place => place.to_string(),
    };
    let meaning = match part.place {
        Place::High => "due, with a high priority: the next free slot takes them",
        Place::Ready => "due: the next free slot takes them",
        Place::Low => {
            "due, with a low priority: they start when no other jobs are due, and in one start in ten"
        }
        Place::Solo => "suspected of crashing their worker: each runs alone",
        Place::Waiting => "not due yet",
        Place::Tier(_) => "in the tier for this wait: most wait for their next attempt",
        Place::Due => "on their way out of the delay levels: they stay only if the queue is full",
        Place::Failed => "failed for good",
        _ => "",
    };
    Row { place, jobs: ShownFigure::number(&part.jobs), meaning }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jobq::admin::Figure;

    use super::*;

    #[test]
    fn each_place_has_a_row() {
        let wait = Duration::from_secs(90);
        let parts = [
            Part::new(Place::Tier(wait), 1_234),
            Part::new(Place::Due, Figure::unknown("no leader")),
        ];
        let rows: Vec<_> = parts.iter().map(row).collect();
        let [tier, due] = &rows[..] else { panic!("two rows") };
        assert_eq!((tier.place.as_str(), tier.jobs.text.as_str()), ("waiting 1m30s", "1,234"));
        assert_eq!((due.place.as_str(), due.jobs.why.as_deref()), ("due", Some("no leader")));
        let html = Parts { rows, has_levels: true }.render().unwrap();
        assert!(html.contains("<td class=\"n\" data-label=\"Jobs\"><span>1,234</span>"), "{html}");
        assert!(html.contains("delay levels, which all queues share"), "{html}");
    }
}
