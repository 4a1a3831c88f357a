//! Filters the log lines of `lapin`. It logs each channel that a broker closes as an error, even if
//! jobq only looked for something: a broker closes the channel to report that it is missing or
//! forbidden. It also logs as errors the operations left over on a connection that was closed
//! normally. Those lines are dropped, and all others go to the program's subscriber.
//!
//! `lapin` logs on a thread and in tasks of its own for each connection, so the filter is their
//! default subscriber only.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
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
use crate::guard::lock;

/// How long to wait before looking for a new subscriber: it is asked for its interest before it is
/// installed.
const INSTALL_DELAY: Duration = Duration::from_secs(1);

/// The channels of a connection on which the broker may refuse a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Questions {
    channels: Arc<Mutex<HashSet<u16>>>,
    are_over: Arc<AtomicBool>,
}

impl Questions {
    /// jobq closes the connection: leftover operations of `lapin` are expected to fail.
    pub(crate) fn end(&self) {
        self.are_over.store(true, Ordering::Release);
    }

    /// Marks the channel as one with an expected refusal until the guard is dropped.
    pub(crate) fn ask(&self, channel: u16) -> Question {
        lock(&self.channels).insert(channel);
        Question { questions: self.clone(), channel }
    }
}

/// A channel with an expected refusal.
#[must_use = "the question is over when this is dropped"]
pub(crate) struct Question {
    questions: Questions,
    channel: u16,
}

impl Drop for Question {
    fn drop(&mut self) {
        lock(&self.questions.channels).remove(&self.channel);
    }
}

/// The log filter of one connection.
#[derive(Debug, Clone)]
pub(crate) struct LogFilter(Dispatch);

impl LogFilter {
    /// A filter that drops expected refusals. Called on a thread of jobq.
    pub(crate) fn new(questions: Questions) -> Self {
        look_for_subscriber();
        Self(Dispatch::new(Filter { questions }))
    }

    /// Filters the log of this thread, which is the connection's, until it ends.
    pub(crate) fn filter_this_thread(&self) {
        thread_local! {
            static FILTER: RefCell<Option<DefaultGuard>> = const { RefCell::new(None) };
        }
        FILTER.with(|filter| {
            // The previous guard must not restore its subscriber later.
            filter.take();
            filter.replace(Some(dispatcher::set_default(&self.0)));
        });
    }
}

/// Tokio, with a filter on the tasks of a connection.
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

/// The subscriber of the program, which can install one only.
static PROGRAM_SUBSCRIBER: OnceLock<Dispatch> = OnceLock::new();

/// Stores the subscriber of this thread as the program's, if there is one. Threads of jobq have no
/// other.
fn look_for_subscriber() -> bool {
    let found = dispatcher::get_default(|found| {
        (!found.is::<NoSubscriber>()).then(|| PROGRAM_SUBSCRIBER.get_or_init(|| found.clone()))
    });
    found.is_some()
}

/// Looks again soon. A subscriber is asked for its interest before it is installed.
fn look_again() {
    static LOOKS: AtomicBool = AtomicBool::new(false);
    if LOOKS.swap(true, Ordering::AcqRel) {
        return;
    }
    background::spawn(async {
        tokio::time::sleep(INSTALL_DELAY).await;
        let is_new = look_for_subscriber();
        LOOKS.store(false, Ordering::Release);
        if is_new {
            // The filters had no interest before.
            tracing::callsite::rebuild_interest_cache();
        }
    });
}

/// Passes everything but expected errors to the program's subscriber.
struct Filter {
    questions: Questions,
}

impl Filter {
    fn is_expected(&self, event: &Event<'_>) -> bool {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let is_asked = |channel| lock(&self.questions.channels).contains(&channel);
        fields.is_closed && self.questions.are_over.load(Ordering::Acquire)
            || fields.is_refusal && fields.channel.is_some_and(is_asked)
    }
}

/// Whether the line may be dropped, which depends on its fields. The program's subscriber is asked
/// for its interest only when they are known: after it has shown interest, it expects the event.
fn is_of_channels(metadata: &Metadata<'_>) -> bool {
    *metadata.level() == Level::ERROR
        && ["lapin::channel", "lapin::channels"].contains(&metadata.target())
}

/// Whether the line has the commands of a connection, of which one has a secret.
fn has_secrets(metadata: &Metadata<'_>) -> bool {
    *metadata.level() == Level::TRACE && metadata.target() == "lapin::internal_rpc"
}

/// The fields of the lines about closed channels and connections.
#[derive(Default)]
struct Fields {
    /// Whether the operation failed because the channel or the connection is closed.
    is_closed: bool,
    channel: Option<u16>,
    /// Whether the object is missing, or forbidden to the user.
    is_refusal: bool,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "channel" => self.channel = format!("{value:?}").parse().ok(),
            "method" => {
                let method = format!("{value:?}");
                self.is_refusal =
                    ["reply_code: 404", "reply_code: 403"].iter().any(|no| method.contains(no));
            }
            "error" => {
                let error = format!("{value:?}");
                // The second text is that of a channel that `lapin` removes twice, if it was closed
                // just before its connection.
                self.is_closed = error.starts_with("invalid ") && error.contains(" state: Clos")
                    || error.starts_with("invalid channel: ");
            }
            _ => {}
        }
    }
}

impl Subscriber for Filter {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        let Some(programs) = PROGRAM_SUBSCRIBER.get() else {
            look_again();
            return Interest::never();
        };
        if has_secrets(metadata) {
            return Interest::never();
        }
        let interest = programs.register_callsite(metadata);
        let is_asked_later = is_of_channels(metadata) && !interest.is_never();
        if is_asked_later { Interest::sometimes() } else { interest }
    }

    /// The level of the program's subscriber: the highest of all counts.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::ERROR)
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        PROGRAM_SUBSCRIBER
            .get()
            .is_some_and(|programs| is_of_channels(metadata) || programs.enabled(metadata))
            && !has_secrets(metadata)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        PROGRAM_SUBSCRIBER
            .get()
            .map_or_else(|| Id::from_u64(u64::MAX), |programs| programs.new_span(span))
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        if let Some(programs) = PROGRAM_SUBSCRIBER.get() {
            programs.record(span, values);
        }
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        if let Some(programs) = PROGRAM_SUBSCRIBER.get() {
            programs.record_follows_from(span, follows);
        }
    }

    fn event(&self, event: &Event<'_>) {
        let Some(programs) = PROGRAM_SUBSCRIBER.get() else {
            return;
        };
        let metadata = event.metadata();
        if has_secrets(metadata) {
            return;
        }
        if !is_of_channels(metadata) || !self.is_expected(event) && programs.enabled(metadata) {
            programs.event(event);
        }
    }

    fn enter(&self, span: &Id) {
        if let Some(programs) = PROGRAM_SUBSCRIBER.get() {
            programs.enter(span);
        }
    }

    fn exit(&self, span: &Id) {
        if let Some(programs) = PROGRAM_SUBSCRIBER.get() {
            programs.exit(span);
        }
    }

    fn clone_span(&self, span: &Id) -> Id {
        PROGRAM_SUBSCRIBER.get().map_or_else(|| span.clone(), |programs| programs.clone_span(span))
    }

    fn try_close(&self, span: Id) -> bool {
        PROGRAM_SUBSCRIBER.get().is_some_and(|programs| programs.try_close(span))
    }
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
