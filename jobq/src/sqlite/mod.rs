//! The engine for `sqlite:` URLs: one file, accessed with `rusqlite`.
//!
//! One thread, the [`writer`], owns the connection. Commands of callers wait in its inbox, and all
//! waiting commands run in one transaction, so that many callers share the cost of one fsync. A
//! call is answered when its transaction is committed and fsynced. Calls that only read take no
//! write lock, as long as the engine takes no jobs, and leave the schema of the file as it is
//! ([`access`]).
//!
//! Several processes may share the file. Each engine that takes jobs is an *owner*, a row that it
//! renews regularly (see [`lease`]). A job in flight names its owner, so the jobs of a dead owner
//! go back to their queues.

mod access;
mod admin;
mod claim;
mod clock;
mod clock_id;
mod columns;
mod deliveries;
mod disk;
mod events;
mod failure;
mod feeds;
mod inbox;
mod lane;
mod lease;
mod migrate;
mod open;
mod others;
mod outbox;
mod place;
mod process;
mod push;
mod schema;
mod seats;
mod settle;
mod store;
mod writer;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::engine::{
    Administer, Admit, Capabilities, Consume, Consumer, Depart, Diagnose, Engine, EngineOptions,
    Migrated, NotPushed, Pushed, Pushing, QueueSpec, Seats, closed,
};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Envelope, EventEnvelope};

use access::File;
use admin::control::Control;
use admin::pools::Pools;
use admin::{Admin, pauses};
use inbox::{Command, Inbox};
use lane::Lane;
use place::Place;
use seats::SqliteSeats;

/// How long the jobs of a dead engine stay claimed. A shorter time would deliver jobs twice if a
/// machine is busy or a process is paused.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// Opens the file of a URL, and creates it if it does not exist.
pub(crate) async fn open(url: &str, options: EngineOptions) -> Result<Arc<dyn Engine>> {
    open_with_lease(url, options, LEASE).await
}

/// Brings the file of a URL to the newest schema.
pub(crate) async fn migrate(url: &str, options: &EngineOptions) -> Result<Migrated> {
    let place = Place::parse(url)?;
    let (timeout, clock) = (options.timeout, options.clock.clone());
    let migrating = tokio::task::spawn_blocking(move || migrate::migrate(&place, timeout, &clock));
    migrating.await.map_err(|_| closed())?
}

/// The file of a URL; `None` for one in memory.
#[cfg(all(feature = "testing", feature = "rabbitmq"))]
pub(crate) fn file_of(url: &str) -> Result<Option<std::path::PathBuf>> {
    Ok(Place::parse(url)?.file().map(Into::into))
}

/// [`open`] with a shorter lease than [`LEASE`], for tests.
pub(crate) async fn open_with_lease(
    url: &str,
    options: EngineOptions,
    lease: Duration,
) -> Result<Arc<dyn Engine>> {
    let place = Place::parse(url)?;
    if !options.certificates.is_empty() {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "certificates were given for a `sqlite:` URL, which does not use them: remove them, or \
             use an `amqps://` URL",
        ));
    }
    if options.credentials.is_some() {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "`ClientBuilder::credentials` was called for a `sqlite:` URL, but a file has no users: \
             remove the call, or use an `amqp://` URL",
        ));
    }
    if options.management.is_some() {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "the URL of a management API was given for a `sqlite:` URL, but a file has no such \
             API: remove it (`.management`, or JOBQ_MANAGEMENT_URL), or use an `amqp://` URL",
        ));
    }
    let migrates = !options.keeps_schema;
    let (answer, opened) = oneshot::channel();
    let (inbox, commands) = Inbox::new(migrates);
    let pools = Arc::new(Pools::default());
    let control = Control::new(options.namespace.clone(), inbox.clone(), Arc::clone(&pools));
    let administered = place.clone();
    let admin =
        Admin { inbox: inbox.clone(), pools, place: administered, timeout: options.timeout };
    // Made before the wait, so that dropping the future closes the file.
    let seats = SqliteSeats::new(inbox.clone());
    let engine = Sqlite { inbox: inbox.clone(), admin, seats, clock: options.clock.clone() };
    let thread = std::thread::Builder::new().name("jobq-sqlite".to_owned());
    let spawned =
        thread.spawn(move || match File::open(&place, options.timeout, &options.clock, migrates) {
            Ok(opened) => {
                let _ = answer.send(Ok(()));
                let (inbox, steering) = ((inbox, commands), Box::new(control));
                writer::run(opened, place, options.namespace, lease, inbox, steering);
            }
            Err(error) => drop(answer.send(Err(error))),
        });
    if let Err(source) = spawned {
        let message = "cannot start the thread that writes the job file";
        return Err(Error::new(ErrorKind::Refused, message).with_source(source));
    }
    opened.await.unwrap_or_else(|_| Err(closed()))?;
    Ok(Arc::new(engine))
}

/// The engine: a handle of the writer thread.
#[derive(Debug)]
struct Sqlite {
    inbox: Inbox,
    admin: Admin,
    seats: SqliteSeats,
    clock: Clock,
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        let _ = self.inbox.send(Command::Close(None));
    }
}

#[async_trait]
impl Engine for Sqlite {
    async fn declare(&self, queues: &[QueueSpec]) -> Result<()> {
        if queues.is_empty() {
            return Ok(());
        }
        let queue = |spec: &QueueSpec| -> (String, Vec<String>, bool) {
            (spec.name.clone(), spec.patterns.iter().cloned().collect(), spec.priorities)
        };
        let queues: Vec<_> = queues.iter().map(queue).collect();
        let declaring = self.inbox.run(move |store| {
            queues.iter().try_for_each(|(name, patterns, has_priorities)| {
                store.declare(name)?;
                if *has_priorities {
                    lane::add_priorities(store, name)?;
                }
                events::subscribe(store, name, patterns)
            })
        });
        declaring.await
    }

    async fn publish(&self, event: EventEnvelope, mandatory: bool) -> Result<()> {
        // The time until it is stored is a part of its delay.
        let since = Instant::now();
        self.inbox.run(move |store| events::publish(store, &event, since, mandatory)).await?
    }

    fn push(&self, job: Envelope) -> Pushing {
        let new = push::New::from(job);
        let pushing = self.inbox.run(move |store| push::insert(store, &new));
        Box::pin(async move { pushing.await?.map(|()| Pushed::new()) })
    }

    async fn push_all(&self, jobs: &mut (dyn Iterator<Item = Envelope> + Send)) -> Vec<NotPushed> {
        push::insert_all(&self.inbox, jobs).await
    }

    async fn consume(&self, what: Consume) -> Result<Consumer> {
        let queue = what.queue.as_str();
        let found = self.inbox.run(move |store| {
            let Some(id) = store.queue(queue)? else { return Ok(None) };
            let lanes = Lane::of_queue(store.connection, store.version, id)?;
            Ok(Some((id, lanes, pauses::one(store, queue)?)))
        });
        let found = found.await?.ok_or_else(|| store::unknown(queue))?;
        deliveries::start(&self.inbox, found, &what)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new().solo().events()
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn administer(&self) -> Option<&dyn Administer> {
        Some(&self.admin)
    }

    fn diagnose(&self) -> Option<&dyn Diagnose> {
        Some(&self.admin)
    }

    fn seats(&self) -> Option<&dyn Seats> {
        Some(&self.seats)
    }

    fn admit(&self) -> Option<&dyn Admit> {
        Some(&self.admin)
    }

    fn depart(&self) -> Option<&dyn Depart> {
        Some(&self.admin)
    }

    async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.inbox.send(Command::Close(Some(done))).is_ok() {
            // Without an answer the thread has ended already.
            let _ = closed.await;
        }
    }
}
