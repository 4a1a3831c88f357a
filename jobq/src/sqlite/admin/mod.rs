//! What watches and steers the jobs of a file.

mod admit;
pub(super) mod control;
mod departing;
mod doctor;
pub(super) mod failed;
pub(super) mod pauses;
pub(super) mod pools;
mod questions;
pub(super) mod queues;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::events;
use super::inbox::Inbox;
use super::place::Place;
use crate::engine::{
    About, Administer, Admission, Admit, Answers, Ask, Controlled, Counts, Depart, Departing,
    Diagnose, Figure, Membership, NotPushed, Part, Pause, PoolReport, Question, QueueNames,
    QueueSpec, Scope, Visit, Visited, closed, run_to_end,
};
use crate::error::Result;
use crate::finding::Report;

use pools::Pools;

/// How long the doctor waits for pools.
const PATIENCE: Duration = Duration::from_millis(500);

/// The administration of an engine.
#[derive(Debug)]
pub(super) struct Admin {
    pub(super) inbox: Inbox,
    pub(super) pools: Arc<Pools>,
    pub(super) place: Place,
    pub(super) timeout: Duration,
}

#[async_trait]
impl Administer for Admin {
    async fn counts(&self, queue: &str) -> Result<Counts> {
        Ok(Counts::from_parts(&self.parts(queue).await?))
    }

    async fn parts(&self, queue: &str) -> Result<Vec<Part>> {
        let queue = queue.to_owned();
        self.inbox.read(move |store| queues::parts(store, &queue)).await
    }

    async fn failed_visit(&self, queue: &str, visit: Visit) -> Result<Visited> {
        run_to_end(failed::visit(self.inbox.clone(), queue.to_owned(), visit)).await
    }

    async fn queues(&self) -> Result<QueueNames> {
        let names = self.inbox.read(|store| queues::names(store)).await?;
        Ok(QueueNames::new(names, vec!["file"], true))
    }

    async fn pause(&self, queue: &str, pause: &Pause) -> Result<()> {
        let (queue, pause) = (queue.to_owned(), pause.clone());
        self.inbox.call(move |store| pauses::pause(store, &queue, &pause)).await
    }

    async fn resume(&self, queue: &str) -> Result<bool> {
        let queue = queue.to_owned();
        self.inbox.call(move |store| pauses::resume(store, &queue)).await
    }

    async fn paused(&self, queue: &str) -> Result<Figure<Option<Pause>>> {
        let queue = queue.to_owned();
        self.inbox.read(move |store| pauses::one(store, &queue)).await.map(Figure::Known)
    }

    async fn join(&self, pool: Arc<dyn Controlled>) -> Result<Membership> {
        pools::join(&self.inbox, &self.pools, pool).await
    }

    async fn ask(&self, ask: Ask) -> Result<Answers> {
        questions::ask(&self.inbox, &self.pools, ask).await
    }

    async fn unsubscribe(&self, queue: &str, pattern: &str) -> Result<()> {
        let (queue, pattern) = (queue.to_owned(), pattern.to_owned());
        self.inbox.call(move |store| events::unsubscribe(store, &queue, &pattern)).await
    }

    async fn delete(&self, queue: &QueueSpec, force: bool) -> Result<u64> {
        let queue = queue.name.clone();
        self.inbox.call(move |store| queues::delete(store, &queue, force)).await?
    }
}

#[async_trait]
impl Admit for Admin {
    async fn admit(&self, batch: Vec<Admission>) -> Vec<NotPushed> {
        admit::admit(&self.inbox, batch).await
    }
}

#[async_trait]
impl Depart for Admin {
    async fn queues_to_declare(&self) -> Result<Vec<QueueSpec>> {
        self.inbox.read(departing::queues).await
    }

    async fn depart(&self, scope: Scope) -> Result<Box<dyn Departing>> {
        departing::begin(&self.inbox, scope).await
    }
}

#[async_trait]
impl Diagnose for Admin {
    async fn about(&self) -> About {
        About::new(format!("SQLite {}, {}", rusqlite::version(), self.place))
    }

    async fn examine(&self, _: &[QueueSpec]) -> Result<Report> {
        // A writer that answers has its file open.
        self.inbox.read(|_| Ok(())).await?;
        let (place, timeout) = (self.place.clone(), self.timeout);
        let examining = tokio::task::spawn_blocking(move || doctor::examine(&place, timeout));
        let asking = self.ask(Ask::all(Question::Report, Vec::new(), PATIENCE));
        let (report, answers) = tokio::join!(examining, asking);
        let report = report.map_err(|_| closed())?;
        let unmet_needs =
            answers.iter().flat_map(Answers::reports).flat_map(PoolReport::unmet_needs);
        Ok(report.with(unmet_needs.collect()))
    }
}
