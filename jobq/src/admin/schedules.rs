use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;
use tokio::time::{sleep, timeout};

use super::{Admin, Queues};
use crate::background;
use crate::engine::{Administer, Ask, Engine, Question, QueueNames, Reply, Seats};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{JobId, to_millis};
use crate::schedule::book::Book;
use crate::schedule::change::{self, Change};
use crate::schedule::{ScheduleReport, SeatReport};

/// How long the pools that hold schedules are waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a seat that no pool has shown is waited for, and its next change.
const SEAT: Duration = Duration::from_secs(2);
const CHANGE: Duration = Duration::from_millis(50);
/// How many seats are taken at once.
const AT_ONCE: usize = 20;
/// The most characters of the name of who pauses.
const MAX_ACTOR: usize = 100;
/// The waits before schedules are read again for one that is not found: a pool may be about to merge
/// it.
const AGAIN: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(400), Duration::from_secs(1)];

/// The schedules of a client's queues.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Schedules {
    /// The schedules, by queue and name.
    pub schedules: Vec<ScheduleReport>,
    /// The last changes that pools refused, by queue, each with the reason.
    pub refused: BTreeMap<String, Vec<String>>,
    /// The queues whose schedules are unknown, each with the reason.
    pub unknown: BTreeMap<String, String>,
    /// Whether there may be further queues with schedules; see [`Queues::All`].
    pub more: bool,
}

impl Admin {
    /// Returns the schedules of queues: those in the code of pools that run, or ran within the last
    /// half hour, and those that clients made. It asks the pools that enqueue the jobs of schedules.
    /// For a queue without such a pool, it reads the schedules from the broker or the file.
    ///
    /// ```
    /// use std::time::SystemTime;
    ///
    /// use jobq::admin::Queues;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> jobq::Result<()> {
    /// # let client = jobq::Client::connect("sqlite::memory:").await?;
    /// for schedule in client.admin().schedules(Queues::All).await?.schedules {
    ///     for due in schedule.next(SystemTime::now(), 3)? {
    ///         println!("{} is due at {}", schedule.name, schedule.local(due));
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// An invalid queue name; an engine that cannot be reached, refuses the call, or does not support
    /// schedules.
    pub async fn schedules(&self, which: Queues) -> Result<Schedules> {
        background::call(async {
            let names = self.names(which).await?;
            read(&*self.engine, self.administration()?, names).await
        })
        .await
    }

    /// Pauses a schedule of these queues. No job is enqueued for the times that pass until it is
    /// resumed, not even later.
    ///
    /// ```
    /// # async fn example(client: jobq::Client) -> jobq::Result<()> {
    /// use jobq::admin::Queues;
    ///
    /// client.admin().by("ann").pause_schedule("report-7", Queues::All).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) if no queue has the schedule, and
    /// [`Conflict`](ErrorKind::Conflict) if two have it; otherwise as
    /// [`schedules`](Self::schedules).
    pub async fn pause_schedule(&self, name: &str, which: Queues) -> Result<()> {
        let at_ms = to_millis(self.engine.clock().now());
        let by = self.actor.chars().take(MAX_ACTOR).collect();
        let change = Change::Pause { name: name.to_owned(), at_ms, by };
        self.change_schedule("pause", name, which, change).await
    }

    /// Resumes a schedule. The next job is due at the next of its times.
    ///
    /// # Errors
    ///
    /// As [`pause_schedule`](Self::pause_schedule).
    pub async fn resume_schedule(&self, name: &str, which: Queues) -> Result<()> {
        let at_ms = to_millis(self.engine.clock().now());
        let change = Change::Resume { name: name.to_owned(), at_ms };
        self.change_schedule("resume", name, which, change).await
    }

    /// Removes a schedule that a client has made.
    ///
    /// # Errors
    ///
    /// [`Conflict`](ErrorKind::Conflict) if the schedule is part of the code of pools; otherwise as
    /// [`pause_schedule`](Self::pause_schedule).
    pub async fn remove_schedule(&self, name: &str, which: Queues) -> Result<()> {
        let change = Change::Remove { name: name.to_owned() };
        self.change_schedule("remove", name, which, change).await
    }

    /// Enqueues the job of a schedule once, even while the schedule is paused, and returns the job's
    /// id. If no pool runs, the first one that starts enqueues the job.
    ///
    /// # Errors
    ///
    /// As [`pause_schedule`](Self::pause_schedule).
    pub async fn run_schedule(&self, name: &str, which: Queues) -> Result<JobId> {
        let id = JobId::new();
        let change = Change::Run { name: name.to_owned(), id };
        self.change_schedule("run", name, which, change).await.map(|()| id)
    }

    async fn change_schedule(
        &self,
        action: &'static str,
        name: &str,
        which: Queues,
        change: Change,
    ) -> Result<()> {
        let changed = background::call(self.store_change(name, which, change)).await;
        let (actor, is_finished) = (&self.actor, changed.is_ok());
        tracing::info!(
            target: "jobq::audit",
            actor, action, schedule = name, is_finished,
            "schedule changed"
        );
        changed
    }

    async fn store_change(&self, name: &str, which: Queues, change: Change) -> Result<()> {
        let (queue, in_code) = self.queue_of_schedule(name, which).await?;
        if in_code && matches!(change, Change::Remove { .. }) {
            let text = format!(
                "schedule `{name}` is part of the code of pools, and is removed half an hour after the \
                 last pool that has it is gone; pause it until then"
            );
            return Err(Error::new(ErrorKind::Conflict, text));
        }
        seats(&*self.engine)?.change(&queue, change::write(&change)).await
    }

    /// The queue that has a schedule, and whether the schedule is part of code.
    async fn queue_of_schedule(&self, name: &str, which: Queues) -> Result<(String, bool)> {
        let mut again = AGAIN.into_iter();
        loop {
            let names = self.names(which.clone()).await?;
            let found = read(&*self.engine, self.administration()?, names).await?;
            let queues = found.schedules.iter().filter(|schedule| schedule.name == name);
            let queues: Vec<_> = queues.collect();
            match (&queues[..], again.next()) {
                ([schedule], _) => return Ok((schedule.queue.clone(), schedule.in_code)),
                // A pool that holds them does not answer.
                ([], _) if found.unknown.len() == 1 && names_one(&which) => {
                    let queue = found.unknown.into_keys().next();
                    return Ok((queue.unwrap_or_default(), false));
                }
                ([], Some(wait)) => sleep(wait).await,
                ([], None) => return Err(not_found(name, &found)),
                (several, _) => {
                    let queues: Vec<_> = several.iter().map(|one| one.queue.as_str()).collect();
                    let text = format!(
                        "several queues have a schedule `{name}`: `{}`; name one of them",
                        queues.join("`, `")
                    );
                    return Err(Error::new(ErrorKind::Conflict, text));
                }
            }
        }
    }
}

fn names_one(which: &Queues) -> bool {
    matches!(which, Queues::Named(names) if names.len() == 1)
}

fn not_found(name: &str, found: &Schedules) -> Error {
    let unknown: Vec<_> =
        found.unknown.iter().map(|(queue, why)| format!("queue `{queue}`: {why}")).collect();
    let remedy = if !unknown.is_empty() {
        format!("the schedules of some queues are unknown ({})", unknown.join("; "))
    } else if found.more {
        "list the schedules, and name the queue if it is not among those that this client knows"
            .to_owned()
    } else {
        "list the schedules to see their names".to_owned()
    };
    Error::new(ErrorKind::NotFound, format!("no queue has a schedule `{name}`; {remedy}"))
}

fn seats(engine: &dyn Engine) -> Result<&dyn Seats> {
    engine.seats().ok_or_else(|| {
        let text = "this engine does not support schedules; use an engine that provides `Seats`";
        Error::new(ErrorKind::Unsupported, text)
    })
}

/// Reads the schedules of these queues: from the pools that hold them, and where none does, from their
/// seats.
async fn read(
    engine: &dyn Engine,
    administer: &dyn Administer,
    names: QueueNames,
) -> Result<Schedules> {
    let seats = seats(engine)?;
    let QueueNames { names, complete, .. } = names;
    let is_named = |queue: &str| !complete || names.contains(queue);
    let queues = names.iter().cloned().collect();
    let answers =
        administer.ask(Ask::all(Question::Schedules { begun: None }, queues, PATIENCE)).await?;
    let mut found = Schedules { more: !complete, ..Schedules::default() };
    let mut held = BTreeSet::new();
    for (pool, reply) in answers.replies {
        let Reply::Schedules { queues } = reply else { continue };
        for (queue, report) in queues.into_iter().filter(|(queue, _)| is_named(queue)) {
            if let Ok(report) = serde_json::from_value::<SeatReport>(report) {
                found.add(&queue, report);
            } else {
                let why = format!("pool {pool} runs another version of jobq");
                found.unknown.insert(queue.clone(), why);
            }
            held.insert(queue);
        }
    }
    let others: Vec<_> = names.difference(&held).collect();
    for queues in others.chunks(AT_ONCE) {
        let reports = join_all(queues.iter().map(|queue| read_seat(engine, seats, queue))).await;
        for (queue, report) in queues.iter().zip(reports) {
            match report {
                Ok(report) => found.add(queue, report),
                Err(error) => _ = found.unknown.insert((*queue).clone(), error.to_string()),
            }
        }
    }
    found.schedules.sort_by(|a, b| (&a.queue, &a.name).cmp(&(&b.queue, &b.name)));
    // Two pools may both answer while one follows the other.
    found.schedules.dedup_by(|a, b| (&a.queue, &a.name) == (&b.queue, &b.name));
    Ok(found)
}

/// Takes a seat for a moment.
async fn read_seat(engine: &dyn Engine, seats: &dyn Seats, queue: &str) -> Result<SeatReport> {
    if !seats.exists(queue).await? {
        return Ok(SeatReport::default());
    }
    let Ok(taken) = timeout(SEAT, seats.take(queue)).await else {
        let text = "a pool that holds them has not answered";
        return Err(Error::new(ErrorKind::Timeout, text));
    };
    let (mut seat, now) = (taken?, engine.clock().now());
    let value = seat.value();
    let mut book = Book::open(queue, (&value.list, &value.position), now)?;
    // They stay in the seat for the next holder.
    while let Ok(next) = timeout(CHANGE, seat.next_change()).await {
        if let Ok(change) = change::read(&next?) {
            book.apply(change, now);
        }
    }
    seat.leave().await;
    Ok(book.report())
}

impl Schedules {
    fn add(&mut self, queue: &str, report: SeatReport) {
        self.schedules.extend(report.schedules);
        if !report.refused.is_empty() {
            self.refused.insert(queue.to_owned(), report.refused);
        }
    }
}
