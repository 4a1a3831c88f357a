//! The view of the queues and the pools.

use std::collections::BTreeMap;
use std::time::SystemTime;

use jobq::Error;
use jobq::admin::text;
use jobq::admin::{Figure, Overview, PoolReport, QueueOverview};
use serde::Serialize;

use super::state::{Key, Row};
use crate::commands::{queues, workers};

/// The rows of the page of queues.
pub(super) fn queues(overview: &Overview, now: SystemTime) -> Vec<Row> {
    let row = |queue: &QueueOverview| Row {
        key: Key::Queue(queue.queue.clone()),
        cells: queues::row(queue, now).into(),
        details: queues::details(queue, now),
    };
    overview.queues.iter().map(row).collect()
}

/// The rows of the page of pools, or why they are unknown.
pub(super) fn pools(overview: &Overview, now: SystemTime) -> Result<Vec<Row>, String> {
    let row = |row: workers::Row| Row {
        key: Key::Pool(row.pool, row.job),
        cells: row.cells,
        details: Vec::new(),
    };
    match &overview.reports {
        Figure::Known(reports) => {
            Ok(reports.iter().flat_map(|pool| workers::rows(pool, now)).map(row).collect())
        }
        Figure::Unknown(why) => Err(why.to_string()),
    }
}

/// A look as a document.
#[derive(Serialize)]
pub(super) struct Document<'s> {
    at: String,
    overview: Option<&'s Overview>,
    pools: Option<&'s Vec<PoolReport>>,
    /// Why the others are missing.
    unknown: BTreeMap<&'static str, String>,
}

impl<'s> Document<'s> {
    pub(super) fn new(at: SystemTime, look: &'s Result<Overview, Error>) -> Self {
        let unknown = match look {
            Ok(overview) => {
                overview.reports.why().map(|why| ("pools", why.to_owned())).into_iter().collect()
            }
            Err(error) => ["overview", "pools"].map(|name| (name, error.to_string())).into(),
        };
        let overview = look.as_ref().ok();
        let pools = overview.and_then(|overview| overview.reports.known());
        Self { at: text::time_millis(at), overview, pools, unknown }
    }
}
