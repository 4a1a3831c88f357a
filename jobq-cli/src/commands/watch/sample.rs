//! One look at the queues and the pools.

use std::time::SystemTime;

use jobq::admin::{Overview, Pools, QueueOverview, Queues};
use jobq::{Client, Error};
use serde::Serialize;

use super::state::{Key, Row};
use crate::commands::{queues, workers};
use crate::output::time::rfc3339;

/// The queues and the pools at one time.
#[derive(Debug)]
pub(super) struct Sample {
    overview: Overview,
    pools: Pools,
}

pub(super) async fn sample(client: &Client, which: Queues) -> Result<Sample, Error> {
    let admin = client.admin();
    let overview = admin.overview(which.clone()).await?;
    let pools = admin.pools(which, workers::PATIENCE).await?;
    Ok(Sample { overview, pools })
}

impl Sample {
    /// The rows of the page of queues.
    pub(super) fn queues(&self, now: SystemTime) -> Vec<Row> {
        let row = |queue: &QueueOverview| Row {
            key: Key::Queue(queue.queue.clone()),
            cells: queues::row(queue, now).into(),
            details: queues::reasons(queue),
        };
        self.overview.queues.iter().map(row).collect()
    }

    /// The rows of the page of pools.
    pub(super) fn pools(&self, now: SystemTime) -> Vec<Row> {
        let of_pool = |report| workers::rows(report, now).into_iter();
        let row = |row: workers::Row| Row {
            key: Key::Pool(row.pool, row.job),
            cells: row.cells.into(),
            details: Vec::new(),
        };
        self.pools.pools.iter().flat_map(of_pool).map(row).collect()
    }
}

/// A look as a document.
#[derive(Serialize)]
pub(super) struct Document<'s> {
    at: String,
    overview: Option<&'s Overview>,
    pools: Option<workers::Document<'s>>,
    /// Why the others are missing.
    problem: Option<String>,
}

impl<'s> Document<'s> {
    pub(super) fn new(at: SystemTime, sample: &'s Result<Sample, Error>) -> Self {
        let (sample, problem) = match sample {
            Ok(sample) => (Some(sample), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Self {
            at: rfc3339(at),
            overview: sample.map(|sample| &sample.overview),
            pools: sample.map(|sample| workers::Document::new(&sample.pools)),
            problem,
        }
    }
}
