//! The schedules of a pool's jobs.

use super::WorkerPool;
use crate::job::Job;
use crate::schedule::IntoSchedule;

impl WorkerPool {
    /// Enqueues a job of the pool at the times of a cron expression or of a
    /// [`Schedule`](crate::schedule::Schedule), in place of those of its attribute: for times that come
    /// from the configuration. Several calls for one job add up.
    ///
    /// The job is enqueued without arguments, as with the key `cron` of [`#[job]`](macro@crate::job).
    ///
    /// ```
    /// use jobq::schedule::Schedule;
    /// use jobq::{BoxError, Client, WorkerPool, job};
    ///
    /// #[job]
    /// async fn report() -> Result<(), BoxError> {
    ///     Ok(())
    /// }
    ///
    /// # fn example(client: Client) -> jobq::Result<()> {
    /// let text = std::env::var("REPORT_CRON").unwrap_or_else(|_| "0 6 * * *".to_owned());
    /// let times = Schedule::cron(&text)?.zone("Europe/Berlin")?;
    /// let pool = WorkerPool::new(&client).register::<Report>().cron::<Report>(times);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A pool with a text that is no cron expression does not start.
    pub fn cron<J: Job>(mut self, times: impl IntoSchedule) -> Self {
        self.registry.periodics.add(J::NAME, times.into_schedule());
        self
    }

    /// Whether the pool enqueues the jobs of schedules. Defaults to `true`.
    ///
    /// Of the pools that work on a queue, one at a time does so. With `false` this one never does, and
    /// the schedules in its code count for nothing: for a canary with new code, or a pool inside a web
    /// process. The pool runs the jobs nevertheless.
    ///
    /// ```
    /// # use jobq::{Client, WorkerPool, job};
    /// # #[job] async fn report() -> Result<(), jobq::BoxError> { Ok(()) }
    /// # fn example(client: Client) {
    /// let pool = WorkerPool::new(&client).register::<Report>().schedules(false);
    /// # }
    /// ```
    pub fn schedules(mut self, enqueue: bool) -> Self {
        self.registry.periodics.enabled = enqueue;
        self
    }
}
