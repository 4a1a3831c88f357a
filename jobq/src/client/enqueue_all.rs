use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Instant, SystemTime};
use std::{fmt, iter};

use tokio::runtime::Handle;
use tokio::time::timeout;
use tracing::Instrument as _;

use super::enqueue::{envelope, priority_option, time_options};
use super::observer::SendingAll;
use super::settings::{SetHeaders, Times, late, within};
use super::{Client, JobKind};
use crate::awaitable::awaitable;
use crate::background;
use crate::engine::NotPushed;
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Headers, Job, JobId, Payload, Priority};
use crate::outbox::Row;
use crate::period::IntoPeriod;

/// The most ids to allocate in advance.
const MAX_RESERVED: usize = 100_000;

/// Many jobs to be enqueued, made by [`Client::enqueue_all`]. Await it.
#[must_use = "the jobs are enqueued only when this is awaited"]
pub struct EnqueueAll<'j> {
    client: Client,
    kind: JobKind,
    payloads: Box<dyn Iterator<Item = Payload> + Send + 'j>,
    times: Times,
    headers: SetHeaders,
    priority: Option<Priority>,
    location: &'static Location<'static>,
}

impl<'j> EnqueueAll<'j> {
    #[track_caller]
    pub(super) fn new<J, I>(client: Client, jobs: I) -> Self
    where
        J: Job,
        I: IntoIterator<Item = J, IntoIter: Send + 'j>,
    {
        Self {
            location: Location::caller(),
            client,
            kind: JobKind::of::<J>(),
            payloads: Box::new(jobs.into_iter().map(|job| Payload::of_job(&job))),
            times: Times::default(),
            headers: SetHeaders::default(),
            priority: None,
        }
    }

    time_options!();

    priority_option!();

    /// The rows of the jobs in the table `jobq_outbox`, for a transaction of your database: see
    /// [`Enqueue::row`](crate::Enqueue::row). Each row is made when the iterator is asked for it. The
    /// first error of a row should roll the transaction back.
    ///
    /// # Errors
    ///
    /// Settings of the call that are invalid, such as a [`timeout`](Self::timeout). The error of a job is
    /// an item of the iterator.
    pub fn rows(self) -> Result<impl Iterator<Item = Result<Row>> + Send + use<'j>> {
        let Self { client, kind, payloads, times, headers, priority, location } = self;
        kind.check()?;
        times.check_of_row()?;
        let (headers, priority) = (headers.check()?, kind.priority(priority)?);
        let writing = client.observer().writing(kind.queue, Some(kind.name), None);
        Ok(payloads.map(move |payload| {
            let row = writing.span().in_scope(|| {
                let payload = payload.0?;
                client.check_size(&payload)?;
                let id = JobId::new();
                let what = || kind.outgoing();
                let mut headers = client.hooks().call(id, what, location, headers.clone())?;
                headers.set_priority(priority);
                writing.add_to(&mut headers);
                let job = envelope((&kind, &times), &client, id, payload, headers);
                client.row(job)
            });
            writing.written(&row);
            row
        }))
    }

    async fn enqueue(self) -> Result<Vec<JobId>, EnqueueAllError> {
        let mut sending = self.client.observer().sending_all(&self.kind);
        let span = sending.span();
        let answer = self.send(&mut sending).instrument(span).await;
        let counts = answer.as_ref().map_or_else(EnqueueAllError::counts, |ids| [ids.len(), 0, 0]);
        sending.answered(counts, || Some(answer.as_ref().err()?.clone().into()));
        answer
    }

    async fn send(self, sending: &mut SendingAll) -> Result<Vec<JobId>, EnqueueAllError> {
        let Self { client, kind, payloads, times, headers, priority, location } = self;
        // The size hint of an iterator may be wrong.
        let mut ids = Vec::with_capacity(payloads.size_hint().0.min(MAX_RESERVED));
        let mut unwritten = Vec::new();
        let checked = || {
            times.check()?;
            Ok((headers.check()?, kind.priority(priority)?))
        };
        let ((headers, priority), checked) = match checked() {
            Ok(both) => (both, Ok(())),
            Err(error) => ((Headers::new(), Priority::Normal), Err(error)),
        };
        let (began, limit) = (Instant::now(), times.timeout_of_call());
        let ready = match checked {
            Ok(()) => within(limit, client.declare_kind(&kind)).await,
            Err(error) => Err(error),
        };
        let mut jobs = payloads.enumerate().filter_map(|(index, payload)| {
            let id = JobId::new();
            ids.push(id);
            sending.takes_one();
            let job = payload.0.and_then(|payload| {
                client.check_size(&payload)?;
                let mut headers =
                    client.hooks().call(id, || kind.outgoing(), location, headers.clone())?;
                headers.set_priority(priority);
                sending.add_to(&mut headers);
                Ok(envelope((&kind, &times), &client, id, payload, headers))
            });
            job.map_err(|error| unwritten.push((index, error))).ok()
        });
        let not_pushed = match &ready {
            Ok(()) => {
                // The program's iterator runs in the program's runtime.
                let program = Handle::try_current().ok();
                let taken = AtomicUsize::new(0);
                let mut jobs = iter::from_fn(|| {
                    let _entered = program.as_ref().map(Handle::enter);
                    jobs.next().inspect(|_| _ = taken.fetch_add(1, Ordering::Relaxed))
                });
                let pushing = async {
                    let pushing = client.engine().push_all(&mut jobs);
                    let Some(limit) = limit else { return Ok(pushing.await) };
                    let left = limit.saturating_sub(began.elapsed());
                    timeout(left, pushing).await.map_err(|_| late(limit))
                };
                match background::call(pushing).await {
                    Ok(not_pushed) => not_pushed,
                    Err(error) => {
                        let taken = taken.load(Ordering::Relaxed);
                        ended_early(&error, taken, jobs.count())
                    }
                }
            }
            Err(error) => jobs.map(|_| error.clone()).enumerate().collect(),
        };
        if unwritten.is_empty() && not_pushed.is_empty() {
            return Ok(ids);
        }
        Err(EnqueueAllError::of(ids, unwritten, not_pushed))
    }
}

/// The jobs of a call that the engine did not answer: those that it had taken, which may be stored,
/// and so many others.
fn ended_early(error: &Error, taken: usize, left: usize) -> Vec<NotPushed> {
    let refused = Error::new(error.kind(), error.to_string());
    let maybe = refused.clone().and_maybe_enqueued();
    let errors = iter::repeat_n(maybe, taken).chain(iter::repeat_n(refused, left));
    errors.enumerate().collect()
}

impl fmt::Debug for EnqueueAll<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnqueueAll").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// The error of an [`enqueue_all`](Client::enqueue_all) that did not accept all jobs. An index is
/// the position of a job in the iterator.
///
/// ```
/// # #[jobq::job] async fn remind(user_id: u64) -> Result<(), jobq::BoxError> { Ok(()) }
/// # async fn example(client: jobq::Client, jobs: Vec<Remind>) {
/// if let Err(error) = client.enqueue_all(jobs).await {
///     for (index, reason) in error.refused() {
///         eprintln!("job {index} is not enqueued: {reason}"); // it can be enqueued again
///     }
///     eprintln!("{} are, and {} may be", error.accepted().len(), error.unknown().len());
/// }
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct EnqueueAllError {
    accepted: Vec<(usize, JobId)>,
    refused: Vec<(usize, Error)>,
    unknown: Vec<(usize, Error)>,
}

impl EnqueueAllError {
    /// The report on jobs with these ids: `unwritten` jobs are listed by index, `not_pushed` jobs
    /// by position among the others.
    fn of(ids: Vec<JobId>, unwritten: Vec<(usize, Error)>, not_pushed: Vec<NotPushed>) -> Self {
        let mut report = Self::default();
        let (mut unwritten, mut not_pushed) =
            (unwritten.into_iter().peekable(), not_pushed.into_iter().peekable());
        let mut place = 0;
        for (index, id) in ids.into_iter().enumerate() {
            if let Some(refused) = unwritten.next_if(|(unwritten, _)| *unwritten == index) {
                report.refused.push(refused);
                continue;
            }
            match not_pushed.next_if(|(not_pushed, _)| *not_pushed == place) {
                None => report.accepted.push((index, id)),
                Some((_, error)) if error.maybe_enqueued() => report.unknown.push((index, error)),
                Some((_, error)) => report.refused.push((index, error)),
            }
            place += 1;
        }
        report
    }

    /// How many jobs were accepted, refused, and possibly accepted.
    fn counts(&self) -> [usize; 3] {
        [self.accepted.len(), self.refused.len(), self.unknown.len()]
    }

    /// The jobs that are in the queue.
    #[must_use]
    pub fn accepted(&self) -> &[(usize, JobId)] {
        &self.accepted
    }

    /// The jobs that are certainly not in the queue. They can safely be enqueued again.
    #[must_use]
    pub fn refused(&self) -> &[(usize, Error)] {
        &self.refused
    }

    /// The jobs that may be in the queue: no answer came. Enqueueing them again may duplicate them.
    #[must_use]
    pub fn unknown(&self) -> &[(usize, Error)] {
        &self.unknown
    }
}

impl fmt::Display for EnqueueAllError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [accepted, refused, unknown] = self.counts();
        let total = accepted + refused + unknown;
        write!(
            f,
            "{accepted} of {total} jobs were enqueued, {refused} refused, {unknown} unknown"
        )?;
        match self.refused.first().or(self.unknown.first()) {
            Some((index, error)) => write!(f, "; the first failure, at index {index}: {error}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for EnqueueAllError {}

#[diagnostic::do_not_recommend]
impl From<EnqueueAllError> for Error {
    fn from(error: EnqueueAllError) -> Self {
        let first = error.refused.first().or(error.unknown.first());
        let kind = first.map_or(ErrorKind::Refused, |(_, error)| error.kind());
        let told = Error::new(kind, error.to_string());
        if error.accepted.is_empty() && error.unknown.is_empty() {
            told
        } else {
            told.and_maybe_enqueued()
        }
    }
}

awaitable!(
    EnqueueAll<'j>,
    EnqueueAllFuture,
    Result<Vec<JobId>, EnqueueAllError>,
    enqueue,
    "The future of an [`EnqueueAll`]."
);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_job_is_reported_by_its_index() {
        let ids: Vec<_> = (0..7).map(|_| JobId::new()).collect();
        let error = |text| Error::new(ErrorKind::Refused, text);
        let unwritten = vec![(0, error("a")), (3, error("b"))];
        // Of those that were pushed, which are 1, 2, 4, 5 and 6.
        let not_pushed =
            vec![(1, error("c")), (2, error("d").and_maybe_enqueued()), (4, error("e"))];
        let report = EnqueueAllError::of(ids.clone(), unwritten, not_pushed);
        let told = |list: &[(usize, Error)]| -> Vec<_> {
            list.iter().map(|(index, error)| format!("{index}{error}")).collect()
        };
        assert_eq!(report.accepted(), [(1, ids[1]), (5, ids[5])]);
        assert_eq!(told(report.refused()), ["0a", "2c", "3b", "6e"]);
        assert_eq!(told(report.unknown()), ["4d"]);
    }

    #[test]
    fn what_an_engine_took_and_did_not_answer_is_unknown() {
        let errors = ended_early(&late(Duration::from_secs(2)), 2, 1);
        let told: Vec<_> = errors.iter().map(|(place, e)| (*place, e.maybe_enqueued())).collect();
        assert_eq!(told, [(0, true), (1, true), (2, false)]);
        assert!(errors.iter().all(|(_, error)| error.is_timeout()));
    }
}
