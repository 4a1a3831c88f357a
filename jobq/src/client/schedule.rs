use std::time::Duration;

use tokio::time::timeout;

use super::Client;
use super::declare::JobKind;
use super::settings::{SetHeaders, late};
use crate::admin::{Queues, Schedules};
use crate::awaitable::awaitable;
use crate::background;
use crate::engine::{Ask, Question};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Job, Missed, Payload, Priority, to_millis};
use crate::period::{IntoPeriod, PeriodError};
use crate::schedule::change::{self, Change};
use crate::schedule::spec::Spec;
use crate::schedule::{IntoSchedule, Schedule};

/// How long pools are told that a queue may have its first schedule.
const PATIENCE: Duration = Duration::from_secs(2);

/// A schedule to be stored, made by [`Client::schedule`]. Await it.
#[derive(Debug)]
#[must_use = "a schedule is stored only when this is awaited"]
pub struct ScheduleJob {
    client: Client,
    kind: JobKind,
    name: String,
    payload: Payload,
    times: Vec<Schedule>,
    zone: Option<String>,
    missed: Missed,
    jitter: Duration,
    headers: SetHeaders,
    priority: Option<Priority>,
    timeout: Option<Duration>,
    /// The first error of an argument.
    problem: Option<Error>,
}

impl ScheduleJob {
    pub(super) fn new<J: Job>(client: Client, name: String, job: &J) -> Self {
        Self {
            client,
            kind: JobKind::of::<J>(),
            name,
            payload: Payload::of_job(job),
            times: Vec::new(),
            zone: None,
            missed: Missed::default(),
            jitter: Duration::ZERO,
            headers: SetHeaders::default(),
            priority: None,
            timeout: None,
            problem: None,
        }
    }

    /// Adds the times of a [cron expression](Schedule::cron). A time of several expressions counts once.
    ///
    /// ```
    /// # use jobq::{Client, job};
    /// # #[job] async fn report(shop: u64) -> Result<(), jobq::BoxError> { Ok(()) }
    /// # async fn example(client: Client) -> jobq::Result<()> {
    /// let weekly = client.schedule("report-7", Report { shop: 7 }).cron("0 6 * * MON");
    /// weekly.zone("Europe/Berlin").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn cron(mut self, expression: impl IntoSchedule) -> Self {
        match expression.into_schedule() {
            Ok(times) => self.times.push(times),
            Err(error) => _ = self.problem.get_or_insert(error),
        }
        self
    }

    /// Adds the multiples of a [period](Schedule::every).
    ///
    /// ```
    /// # use jobq::{Client, job};
    /// # #[job] async fn poll(feed: u64) -> Result<(), jobq::BoxError> { Ok(()) }
    /// # async fn example(client: Client) -> jobq::Result<()> {
    /// client.schedule("feed-7", Poll { feed: 7 }).every("10m").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn every(self, period: impl IntoPeriod) -> Self {
        match Schedule::every(period) {
            Ok(times) => self.cron(times),
            Err(error) => self.wrong(error),
        }
    }

    /// Sets the time zone of the cron expressions, by its name in the IANA database, such as
    /// `"Europe/Berlin"`. Defaults to that of a [`Schedule`] that was given to [`cron`](Self::cron),
    /// else to UTC.
    pub fn zone(mut self, name: impl Into<String>) -> Self {
        self.zone = Some(name.into());
        self
    }

    /// Sets what happens to missed times. Defaults to [`Missed::One`].
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// Sets the limit of a delay with which each job is enqueued after it is due, so that thousands
    /// of schedules of `0 6 * * *` do not start at once. The delay is less than this, and depends on
    /// the name of the schedule and the due time. The job's [`due`](crate::JobContext::due) does not
    /// include it. Defaults to zero.
    pub fn jitter(mut self, longest: impl IntoPeriod) -> Self {
        let read = longest.into_period().map(|jitter| self.jitter = jitter);
        self.read(read)
    }

    /// Sets a header of each job; see [`Enqueue::header`](crate::Enqueue::header).
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.set(name, value);
        self
    }

    /// Sets the priority of each job; see [`Enqueue::priority`](crate::Enqueue::priority).
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Sets how long this call waits for the broker or the file, if that is less than the client's
    /// [`timeout`](crate::ClientBuilder::timeout). After a timeout, the schedule may be stored
    /// nevertheless.
    pub fn timeout(mut self, limit: impl IntoPeriod) -> Self {
        let read = limit.into_period().map(|limit| self.timeout = Some(limit));
        self.read(read)
    }

    fn read(self, read: Result<(), PeriodError>) -> Self {
        match read {
            Ok(()) => self,
            Err(problem) => self.wrong(Error::invalid(problem.to_string())),
        }
    }

    fn wrong(mut self, error: Error) -> Self {
        self.problem.get_or_insert(error);
        self
    }

    async fn store(mut self) -> Result<()> {
        let limit = self.timeout;
        let (spec, client, kind) = (self.spec()?, self.client, self.kind);
        let storing = async {
            client.declare_kind(&kind).await?;
            let (at_ms, by) = (to_millis(client.clock().now()), client.program().to_string());
            let change = Change::Put { spec, at_ms, by };
            match client.change_seat(kind.queue, &change).await {
                // Somebody has deleted the queue.
                Err(error) if error.is_not_found() => {
                    client.forget(&kind);
                    client.declare_kind(&kind).await?;
                    client.change_seat(kind.queue, &change).await
                }
                changed => changed,
            }
        };
        let storing = background::call(storing);
        match limit {
            None => storing.await,
            Some(limit) => timeout(limit, storing).await.unwrap_or_else(|_| Err(late(limit))),
        }
    }

    fn spec(&mut self) -> Result<Spec> {
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        self.kind.check()?;
        let name = &self.name;
        if name == self.kind.name {
            return Err(Error::invalid(format!(
                "`{name}` is the name of the schedule in the code of the job; choose another one, such \
                 as `{name}-1`"
            )));
        }
        let payload = std::mem::replace(&mut self.payload.0, Ok(Vec::new()))?;
        let mut headers = std::mem::take(&mut self.headers).check()?;
        headers.set_priority(self.kind.priority(self.priority)?);
        let zone = self.zone.take();
        let zone = zone.or_else(|| Some(self.times.first()?.zone_name().to_owned()));
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let spec = Spec {
            name: name.clone(),
            job: self.kind.name.to_owned(),
            // JSON is UTF-8.
            payload: String::from_utf8_lossy(&payload).into_owned(),
            times: self.times.iter().map(Schedule::text).collect(),
            zone: zone.unwrap_or_default(),
            missed: self.missed,
            jitter_ms: millis(self.jitter),
            expires_ms: self.kind.options.expires.map(millis),
            headers: headers.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        };
        spec.check(self.kind.queue)?;
        Ok(spec)
    }
}

awaitable!(ScheduleJob, ScheduleJobFuture, Result<()>, store, "The future of a [`ScheduleJob`].");

impl Client {
    /// Stores a schedule: a pool enqueues the job at its times, from now on. Set the times, then await
    /// it:
    ///
    /// ```
    /// # use jobq::{Client, job};
    /// # #[job] async fn report(shop: u64) -> Result<(), jobq::BoxError> { Ok(()) }
    /// # async fn example(client: Client) -> jobq::Result<()> {
    /// client.schedule("report-7", Report { shop: 7 }).cron("0 6 * * *").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// When it returns `Ok`, the schedule is stored durably in the queue of the job, even if no pool
    /// runs. It replaces a schedule of the same name and queue. A schedule that is equal changes
    /// nothing. The first time of a new or changed schedule is after this call. The schedule stays
    /// until [`unschedule`](Self::unschedule) removes it. For times that are known when the program is
    /// compiled, use the key `cron` of [`#[job]`](macro@crate::job).
    ///
    /// Of all the pools that work on the queue, one enqueues the jobs of its schedules. That pool
    /// needs the feature `schedules`, as this program does. A queue has at most 1,000 schedules of
    /// clients, and its schedules have at most 250 KiB in total. The pool refuses a schedule that
    /// exceeds a limit, and logs the refusal.
    ///
    /// # Errors
    ///
    /// A schedule without times; an invalid time, zone or name; a payload of more than 8 KiB;
    /// [`Refused`](ErrorKind::Refused) if 1,000 changes wait for a pool; otherwise as
    /// [`enqueue`](Self::enqueue).
    // By value, as `enqueue`.
    #[allow(clippy::needless_pass_by_value)]
    pub fn schedule<J: Job>(&self, name: impl Into<String>, job: J) -> ScheduleJob {
        ScheduleJob::new(self.clone(), name.into(), &job)
    }

    /// Removes the schedule of this name that a client has made. Jobs that it has enqueued still run.
    ///
    /// ```
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// client.unschedule("report-7").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Admin::remove_schedule`](crate::admin::Admin::remove_schedule), for
    /// [all queues](Queues::All).
    pub async fn unschedule(&self, name: &str) -> Result<()> {
        let admin = self.admin().by(self.program().to_string());
        admin.remove_schedule(name, Queues::All).await
    }

    /// The schedules of [all queues](Queues::All): see
    /// [`Admin::schedules`](crate::admin::Admin::schedules).
    ///
    /// # Errors
    ///
    /// As [`Admin::schedules`](crate::admin::Admin::schedules).
    pub async fn schedules(&self) -> Result<Schedules> {
        self.admin().schedules(Queues::All).await
    }

    /// Stores a change of the schedules of a queue, and tells its pools if it may be the first one.
    async fn change_seat(&self, queue: &str, change: &Change) -> Result<()> {
        let engine = self.engine();
        let seats = engine.seats().ok_or_else(no_schedules)?;
        let is_first = !seats.exists(queue).await?;
        seats.change(queue, change::write(change)).await?;
        if is_first && let Some(administer) = engine.administer() {
            let question = Question::Schedules { begun: Some(queue.to_owned()) };
            let ask = Ask::all(question, vec![queue.to_owned()], PATIENCE);
            if let Err(error) = administer.ask(ask).await {
                tracing::debug!(queue, %error, "could not tell pools of a new schedule");
            }
        }
        Ok(())
    }
}

/// The error of an engine without seats.
fn no_schedules() -> Error {
    let text = "this engine does not support schedules; use an engine that provides `Seats`";
    Error::new(ErrorKind::Unsupported, text)
}
