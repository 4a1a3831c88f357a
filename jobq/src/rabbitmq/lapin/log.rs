//! The log lines of `lapin`. It logs every channel that a broker closes as an error, also one on which
//! jobq only asked whether something is there or may be declared: a broker answers no to that
//! question by closing the channel. It logs as an error as well whatever was still to be done on a
//! connection that was closed in good order. Those lines are dropped, and all others go where the
//! program's go.
//!
//! `lapin` logs on a thread and in tasks of its own for each connection, so that the filter is the
//! default subscriber there alone.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_rs::Tokio;
use async_rs::traits::Executor;
use async_rs::util::Task;
use tracing::dispatcher::{self, DefaultGuard, Dispatch};
use tracing::field::{Field, Visit};
use tracing::instrument::WithSubscriber as _;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, NoSubscriber, Subscriber};
use tracing::{Event, Level, Metadata};

use crate::background;

/// How long after its first question a new subscriber is looked for: it is asked what it wants
/// before it is the program's.
const INSTALLED: Duration = Duration::from_secs(1);

/// The questions on the channels of a connection that the broker may answer by no.
#[derive(Debug, Clone, Default)]
pub(crate) struct Questions {
    channels: Arc<Mutex<HashSet<u16>>>,
    are_over: Arc<AtomicBool>,
}

impl Questions {
    /// jobq closes the connection: what `lapin` was still to do on it is no news.
    pub(crate) fn end(&self) {
        self.are_over.store(true, Ordering::Release);
    }

    /// Something is asked on this channel until the guard is dropped.
    pub(crate) fn ask(&self, channel: u16) -> Question<'_> {
        self.channels().insert(channel);
        Question { questions: self, channel }
    }

    fn channels(&self) -> MutexGuard<'_, HashSet<u16>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A channel on which something is asked.
#[must_use = "the question is over when this is dropped"]
pub(crate) struct Question<'q> {
    questions: &'q Questions,
    channel: u16,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.questions.channels().remove(&self.channel);
    }
}

/// The filter of a connection, and of nothing else.
#[derive(Debug, Clone)]
pub(crate) struct LogFilter(Dispatch);

impl LogFilter {
    /// One that drops what is answered by no to these questions. Called on a thread of jobq.
    pub(crate) fn new(questions: Questions) -> Self {
        look_for_subscriber();
        Self(Dispatch::new(Filter { questions }))
    }

    /// Filters what this thread, that of the connection, logs until it ends.
    pub(crate) fn filter_this_thread(&self) {
        thread_local! {
            static FILTER: RefCell<Option<DefaultGuard>> = const { RefCell::new(None) };
        }
        FILTER.with(|filter| {
            // The one before is not to be put back in its place later.
            filter.take();
            filter.replace(Some(dispatcher::set_default(&self.0)));
        });
    }
}

/// Tokio, where the tasks of a connection are filtered.
#[derive(Debug, Clone)]
pub(crate) struct FilteredTasks {
    pub(crate) tokio: Tokio,
    pub(crate) filter: LogFilter,
}

impl Executor for FilteredTasks {
    type Task<T: Send + 'static> = <Tokio as Executor>::Task<T>;

    fn block_on<T, F: Future<Output = T>>(&self, future: F) -> T {
        self.tokio.block_on(future)
    }

    fn spawn<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        future: F,
    ) -> Task<Self::Task<T>> {
        self.tokio.spawn(future.with_subscriber(self.filter.0.clone()))
    }

    fn spawn_blocking<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(
        &self,
        function: F,
    ) -> Task<Self::Task<T>> {
        self.tokio.spawn_blocking(function)
    }
}

/// The subscriber of the program, which it can install once.
static PROGRAMS: OnceLock<Dispatch> = OnceLock::new();

/// Keeps the subscriber of this thread as the program's, if there is one. Threads of jobq have no
/// other.
fn look_for_subscriber() -> bool {
    let found = dispatcher::get_default(|found| {
        (!found.is::<NoSubscriber>()).then(|| PROGRAMS.get_or_init(|| found.clone()))
    });
    found.is_some()
}

/// Looks again in a moment. Whoever installs a subscriber has it asked for its interests before.
fn look_again() {
    static LOOKS: AtomicBool = AtomicBool::new(false);
    if LOOKS.swap(true, Ordering::AcqRel) {
        return;
    }
    background::spawn(async {
        tokio::time::sleep(INSTALLED).await;
        let is_new = look_for_subscriber();
        LOOKS.store(false, Ordering::Release);
        if is_new {
            // The filters said that nobody is interested.
            tracing::callsite::rebuild_interest_cache();
        }
    });
}

/// Passes everything to the program's subscriber but the lines that are no news.
struct Filter {
    questions: Questions,
}

impl Filter {
    fn is_expected(&self, event: &Event<'_>) -> bool {
        let mut told = Told::default();
        event.record(&mut told);
        let is_asked = |channel| self.questions.channels().contains(&channel);
        told.is_too_late && self.questions.are_over.load(Ordering::Acquire)
            || told.is_no && told.channel.is_some_and(is_asked)
    }
}

/// Whether it may be a line that is dropped. Only its fields tell, so that the program's
/// subscriber is asked for its interest when they are known: one that said that it is interested
/// expects the event.
fn is_of_channels(metadata: &Metadata<'_>) -> bool {
    *metadata.level() == Level::ERROR
        && ["lapin::channel", "lapin::channels"].contains(&metadata.target())
}

/// The fields of the lines about a channel that the broker has closed, and about a connection.
#[derive(Default)]
struct Told {
    /// Whether something was not done since the channel or the connection is closed.
    is_too_late: bool,
    channel: Option<u16>,
    /// Whether for something that is not there, or that the user may not do.
    is_no: bool,
}

impl Visit for Told {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "channel" => self.channel = format!("{value:?}").parse().ok(),
            "method" => {
                let method = format!("{value:?}");
                self.is_no =
                    ["reply_code: 404", "reply_code: 403"].iter().any(|no| method.contains(no));
            }
            "error" => {
                let error = format!("{value:?}");
                // The second one is that of a channel which `lapin` removes twice, where it was
                // closed a moment before its connection.
                self.is_too_late = error.starts_with("invalid ") && error.contains(" state: Clos")
                    || error.starts_with("invalid channel: ");
            }
            _ => {}
        }
    }
}

impl Subscriber for Filter {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        let Some(programs) = PROGRAMS.get() else {
            look_again();
            return Interest::never();
        };
        let interest = programs.register_callsite(metadata);
        let is_asked_later = is_of_channels(metadata) && !interest.is_never();
        if is_asked_later { Interest::sometimes() } else { interest }
    }

    /// No more than the program's subscriber wants: the most of all counts.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::ERROR)
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        PROGRAMS
            .get()
            .is_some_and(|programs| is_of_channels(metadata) || programs.enabled(metadata))
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        PROGRAMS.get().map_or_else(|| Id::from_u64(u64::MAX), |programs| programs.new_span(span))
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        if let Some(programs) = PROGRAMS.get() {
            programs.record(span, values);
        }
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        if let Some(programs) = PROGRAMS.get() {
            programs.record_follows_from(span, follows);
        }
    }

    fn event(&self, event: &Event<'_>) {
        let Some(programs) = PROGRAMS.get() else {
            return;
        };
        let metadata = event.metadata();
        if !is_of_channels(metadata) || !self.is_expected(event) && programs.enabled(metadata) {
            programs.event(event);
        }
    }

    fn enter(&self, span: &Id) {
        if let Some(programs) = PROGRAMS.get() {
            programs.enter(span);
        }
    }

    fn exit(&self, span: &Id) {
        if let Some(programs) = PROGRAMS.get() {
            programs.exit(span);
        }
    }

    fn clone_span(&self, span: &Id) -> Id {
        PROGRAMS.get().map_or_else(|| span.clone(), |programs| programs.clone_span(span))
    }

    fn try_close(&self, span: Id) -> bool {
        PROGRAMS.get().is_some_and(|programs| programs.try_close(span))
    }
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
