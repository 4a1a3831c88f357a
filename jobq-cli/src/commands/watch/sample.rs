//! One look at the queues and the pools.

use std::collections::BTreeMap;
use std::time::SystemTime;

use jobq::admin::text;
use jobq::admin::{Figure, Overview, PoolReport, QueueOverview, Queues};
use jobq::{Client, Error};
use serde::Serialize;

use super::state::{Key, Row};
use crate::commands::{queues, workers};

/// The queues and the pools at one time.
#[derive(Debug)]
pub(super) struct Sample(Overview);

pub(super) async fn sample(client: &Client, which: Queues) -> Result<Sample, Error> {
    client.admin().overview(which).await.map(Sample)
}

impl Sample {
    /// The rows of the page of queues.
    pub(super) fn queues(&self, now: SystemTime) -> Vec<Row> {
        let row = |queue: &QueueOverview| Row {
            key: Key::Queue(queue.queue.clone()),
            cells: queues::row(queue, now).into(),
            details: queues::details(queue, now),
        };
        self.0.queues.iter().map(row).collect()
    }

    /// The rows of the page of pools, or why they are unknown.
    pub(super) fn pools(&self, now: SystemTime) -> Result<Vec<Row>, String> {
        let row = |row: workers::Row| Row {
            key: Key::Pool(row.pool, row.job),
            cells: row.cells.into(),
            details: Vec::new(),
        };
        match &self.0.reports {
            Figure::Known(reports) => {
                Ok(reports.iter().flat_map(|pool| workers::rows(pool, now)).map(row).collect())
            }
            Figure::Unknown(why) => Err(why.to_string()),
        }
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
    pub(super) fn new(at: SystemTime, sample: &'s Result<Sample, Error>) -> Self {
        let at = text::time_millis(at);
        match sample {
            Ok(Sample(overview)) => Self {
                at,
                overview: Some(overview),
                pools: overview.reports.known(),
                unknown: overview
                    .reports
                    .why()
                    .map(|why| ("pools", why.into()))
                    .into_iter()
                    .collect(),
            },
            Err(error) => Self {
                at,
                overview: None,
                pools: None,
                unknown: ["overview", "pools"].map(|name| (name, error.to_string())).into(),
            },
        }
    }
}
