use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;

use super::jobs::Jobs;
use super::ran::Attempted;
use crate::engine::{Delivery, Receipt, Settle};
use crate::error::Result;
use crate::job::{Envelope, Job, JobId, Payload, queue_of};

impl Jobs {
    /// Runs one attempt of a job outside of its queue. The payload passes through JSON, as on the
    /// wire. The jobs that it enqueues are enqueued; its own end changes no queue.
    ///
    /// ```
    /// # use jobq::testing::Jobs;
    /// # use jobq::{BoxError, job};
    /// #[job(retries = 3)]
    /// async fn charge(order: u64) -> Result<(), BoxError> {
    ///     Err("no money".into())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let jobs = Jobs::new().register::<Charge>().start().await;
    /// let end = jobs.run(Charge { order: 7 }).attempt(4).await;
    /// assert_eq!(end.failed_as(), Some(jobq::FailedReason::Exhausted));
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If the job panics or was not registered.
    #[allow(clippy::needless_pass_by_value)] // as `Client::enqueue`
    #[track_caller]
    pub fn run<J: Job>(&self, job: J) -> RunJob<'_> {
        assert!(
            self.worker.knows::<J>(),
            "job `{}` has no function here; add it by `.register` or `.handle` before `.start()`",
            J::NAME
        );
        RunJob::new(self, &job)
    }
}

/// One attempt of a job, made by [`Jobs::run`]. Await it.
#[derive(Debug)]
#[must_use = "the job runs only when this is awaited"]
pub struct RunJob<'j> {
    jobs: &'j Jobs,
    envelope: Envelope,
    attempt: u32,
}

impl<'j> RunJob<'j> {
    #[track_caller]
    pub(super) fn new<J: Job>(jobs: &'j Jobs, job: &J) -> Self {
        let payload = Payload::of_job(job).0.unwrap_or_else(|error| panic!("{error}"));
        let mut envelope = Envelope::new(queue_of::<J>(), payload);
        envelope.name = Some(J::NAME.into());
        envelope.enqueued_at = jobs.now();
        Self { jobs, envelope, attempt: 1 }
    }

    /// Sets the number of the attempt, from 1. Defaults to 1.
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt.max(1);
        self
    }

    /// Sets the id of the job. Defaults to a new one.
    pub fn id(mut self, id: JobId) -> Self {
        self.envelope.id = id;
        self
    }

    /// Sets the topic of the event that the job was made from.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.envelope.topic = Some(topic.into());
        self
    }

    /// Sets a header.
    ///
    /// # Panics
    ///
    /// If [`Headers::set`](crate::Headers::set) refuses it.
    #[track_caller]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        if let Err(error) = self.envelope.headers.set(name, value) {
            panic!("{error}");
        }
        self
    }
}

impl<'j> IntoFuture for RunJob<'j> {
    type Output = Attempted;
    type IntoFuture = Pin<Box<dyn Future<Output = Attempted> + Send + 'j>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { jobs, mut envelope, attempt } = self;
        envelope.attempts = attempt - 1;
        let delivery = Delivery::new(attempt, Box::new(Unqueued(Arc::new(envelope))));
        Box::pin(async move { jobs.attempt(delivery).await.0 })
    }
}

/// The receipt of a job that is in no queue.
#[derive(Debug)]
struct Unqueued(Arc<Envelope>);

#[async_trait]
impl Receipt for Unqueued {
    fn envelope(&self) -> &Arc<Envelope> {
        &self.0
    }

    async fn settle(self: Box<Self>, _: Settle) -> Result<()> {
        Ok(())
    }

    fn epoch(&self) -> u64 {
        0
    }
}
