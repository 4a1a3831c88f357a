//! Reads the figures of all queues, once for all viewers.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use jobq::Report;
use jobq::admin::{Overview, PoolReport, QueueOverview, Queues};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use crate::dashboard::App;
use crate::history::{History, Point};
use crate::topology::Comparison;

/// The pause between two samples while somebody looks.
const WATCHED: Duration = Duration::from_secs(2);
/// The pause between two samples while nobody does, for the history.
const UNWATCHED: Duration = Duration::from_secs(10);
/// The time for which a request counts as looking.
const LOOKING: Duration = Duration::from_secs(30);
/// The time that a page waits for a sample.
const PATIENCE: Duration = Duration::from_secs(3);
/// The time of a sample, beside twice that of the one before, after which pages say that figures
/// are old.
const SLOW: Duration = Duration::from_secs(5);
/// The pause between two examinations by the doctor while somebody looks.
const EXAMINED: Duration = Duration::from_secs(300);

/// Figures of all queues at one time.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    pub(crate) overview: Arc<Overview>,
    pub(crate) taken_at: SystemTime,
}

/// The reason why there are no newer figures.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    pub(crate) why: String,
    pub(crate) since: SystemTime,
}

/// The last sample.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    begun: Instant,
    /// The last figures that could be read.
    pub(crate) figures: Option<Figures>,
    /// Set if these are not of this sample.
    pub(crate) trouble: Option<Trouble>,
}

impl Sample {
    /// The last figures that could be read.
    pub(crate) fn overview(&self) -> Option<&Overview> {
        Some(&self.figures.as_ref()?.overview)
    }

    /// The queues; none if nothing could be read.
    pub(crate) fn queues(&self) -> &[QueueOverview] {
        self.overview().map_or(&[], |overview| &overview.queues)
    }

    pub(crate) fn queue(&self, name: &str) -> Option<&QueueOverview> {
        self.queues().iter().find(|queue| queue.queue == name)
    }

    /// The reports of the pools; empty if they are unknown.
    pub(crate) fn pools(&self) -> &[PoolReport] {
        self.overview().and_then(|overview| overview.reports.known()).map_or(&[], Vec::as_slice)
    }

    /// The reason why pools cannot be asked.
    pub(crate) fn unasked(&self) -> Option<&str> {
        self.overview()?.reports.why()
    }
}

/// An examination by the doctor.
#[derive(Debug, Clone)]
pub(crate) struct Examination {
    pub(crate) at: SystemTime,
    pub(crate) report: Result<Report, String>,
    pub(crate) comparison: Comparison,
}

/// The samples.
#[derive(Debug)]
pub(crate) struct Sampler {
    latest: watch::Sender<Option<Arc<Sample>>>,
    examination: watch::Sender<Option<Arc<Examination>>>,
    examining: tokio::sync::Mutex<()>,
    history: Mutex<History>,
    wanted: Notify,
    looked: Mutex<Instant>,
    /// Counts what changes pages.
    changes: watch::Sender<u64>,
}

impl Default for Sampler {
    fn default() -> Self {
        Self {
            latest: watch::Sender::default(),
            examination: watch::Sender::default(),
            examining: tokio::sync::Mutex::default(),
            history: Mutex::default(),
            wanted: Notify::new(),
            looked: Mutex::new(Instant::now()),
            changes: watch::Sender::default(),
        }
    }
}

impl Sampler {
    /// The last sample.
    pub(crate) fn now(&self) -> Option<Arc<Sample>> {
        self.latest.borrow().clone()
    }

    /// Somebody looks. Waits for the first sample, not for long.
    pub(crate) async fn looked(&self) {
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.wanted_if_old();
        let _ = timeout(PATIENCE, self.latest.subscribe().wait_for(Option::is_some)).await;
    }

    /// Asks for a sample that begins after this call, and waits for it.
    pub(crate) async fn refresh(&self) {
        let now = Instant::now();
        let mut receiver = self.latest.subscribe();
        self.wanted.notify_one();
        let is_newer =
            |sample: &Option<Arc<Sample>>| sample.as_ref().is_some_and(|sample| sample.begun > now);
        let _ = timeout(PATIENCE, receiver.wait_for(is_newer)).await;
    }

    /// The last points of a queue in the history.
    pub(crate) fn history(&self, queue: &str, points: usize) -> Vec<Point> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).last(queue, points)
    }

    pub(crate) fn examination(&self) -> Option<Arc<Examination>> {
        self.examination.borrow().clone()
    }

    /// Counts what changes pages, for those who wait for it.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Pages have changed.
    pub(crate) fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn wanted_if_old(&self) {
        let is_old = match &*self.latest.borrow() {
            Some(sample) => sample.begun.elapsed() > UNWATCHED,
            None => false,
        };
        if is_old {
            self.wanted.notify_one();
        }
    }

    fn is_watched(&self) -> bool {
        self.changes.receiver_count() > 0
            || self.looked.lock().unwrap_or_else(PoisonError::into_inner).elapsed() < LOOKING
    }

    /// Keeps a sample.
    fn add(&self, begun: Instant, read: Result<Overview, String>) {
        let now = SystemTime::now();
        let previous = self.latest.borrow().clone();
        let previous = previous.as_deref();
        let sample = match read.and_then(readable) {
            Ok(overview) => {
                let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
                history.add(&overview, now);
                let figures = Figures { overview: Arc::new(overview), taken_at: now };
                Sample { begun, figures: Some(figures), trouble: None }
            }
            Err(why) => {
                let trouble = previous.and_then(|previous| previous.trouble.as_ref());
                let since = trouble.map_or(now, |trouble| trouble.since);
                let figures = previous.and_then(|previous| previous.figures.clone());
                Sample { begun, figures, trouble: Some(Trouble { why, since }) }
            }
        };
        self.latest.send_replace(Some(Arc::new(sample)));
        self.changed();
    }
}

/// The trouble while a sample is not there in time.
fn slow(patience: Duration) -> String {
    format!(
        "There has been no answer for {} seconds. The dashboard is still waiting.",
        patience.as_secs()
    )
}

/// An overview with something in it, or the reason why nothing could be read.
fn readable(overview: Overview) -> Result<Overview, String> {
    let blind = overview.queues.iter().all(|queue| queue.ready.known().is_none());
    match overview.queues.first().and_then(|queue| queue.ready.why()) {
        Some(why) if blind => Err(why.to_owned()),
        _ => Ok(overview),
    }
}

/// Starts to take samples, each after the one before has ended, until the application is dropped.
pub(crate) fn start(app: &Arc<App>) {
    let weak = Arc::downgrade(app);
    tokio::spawn(async move {
        let mut took = Duration::ZERO;
        while let Some(app) = weak.upgrade() {
            let begun = Instant::now();
            // One of many queues takes longer, every time.
            let patience = SLOW + 2 * took;
            let admin = app.client().admin();
            let mut read = pin!(admin.overview(Queues::All));
            let read = if let Ok(read) = timeout(patience, &mut read).await {
                read
            } else {
                app.sampler.add(begun, Err(slow(patience)));
                read.await
            };
            if read.is_ok() {
                took = begun.elapsed();
            }
            app.sampler.add(begun, read.map_err(|error| error.to_string()));
            drop(app);
            rest(&weak).await;
        }
    });
    let weak = Arc::downgrade(app);
    tokio::spawn(async move {
        while let Some(app) = weak.upgrade() {
            if app.sampler.is_watched() {
                examine(&app).await;
            }
            drop(app);
            sleep(EXAMINED).await;
        }
    });
}

/// Waits until the next sample is due or wanted.
async fn rest(weak: &Weak<App>) {
    let begun = Instant::now();
    while let Some(app) = weak.upgrade() {
        let pause = if app.sampler.is_watched() { WATCHED } else { UNWATCHED };
        let left = pause.saturating_sub(begun.elapsed());
        // Not longer, so that an application that is dropped is noticed.
        let wait = timeout(left.min(WATCHED), app.sampler.wanted.notified()).await;
        if wait.is_ok() || begun.elapsed() >= pause {
            return;
        }
    }
}

/// Examines the broker or the file. Those who ask meanwhile share the answer.
pub(crate) async fn examine(app: &App) {
    let asked = SystemTime::now();
    let _alone = app.sampler.examining.lock().await;
    let is_new = |examination: &Arc<Examination>| examination.at >= asked;
    if app.sampler.examination().as_ref().is_some_and(is_new) {
        return;
    }
    let (report, comparison) = tokio::join!(app.client().doctor(), app.compare());
    let report = report.map_err(|error| error.to_string());
    let examination = Examination { at: SystemTime::now(), report, comparison };
    app.sampler.examination.send_replace(Some(Arc::new(examination)));
    app.sampler.changed();
}
