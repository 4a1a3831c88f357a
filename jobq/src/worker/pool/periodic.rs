//! The schedules of a pool's jobs.

use super::WorkerPool;
use crate::job::Job;
use crate::schedule::IntoSchedule;

impl WorkerPool {
    /// Sets the times of a job of the pool: a cron expression in UTC, or a
    /// [`Schedule`](crate::schedule::Schedule). They replace the times of its attribute. Use it for
    /// times from the configuration. Several calls for one job add times.
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
    /// A pool with an invalid cron expression does not start.
    pub fn cron<J: Job>(mut self, times: impl IntoSchedule) -> Self {
        self.registry.periodics.add(J::NAME, times.into_schedule());
        self
    }

    /// Sets whether the pool enqueues the jobs of schedules. Defaults to `true`.
    ///
    /// Of the pools that work on a queue, one at a time enqueues them. With `false`, this pool never
    /// does, and the schedules in its code are ignored. The pool still runs the jobs. Use it for a
    /// canary with new code, or for a pool inside a web process.
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
