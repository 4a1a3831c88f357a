//! What the page shows, and what its keys do. Pure.

use std::time::SystemTime;

use jobq::admin::{Extent, Order, Overview, PoolId};
use jobq::{FailedReason, JobId};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::sample;
use crate::output::table::Cell;

/// The rows that a page key skips.
const PAGE_OF_ROWS: usize = 10;

/// A page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    Queues,
    Failed,
    Pools,
    Doctor,
}

impl Page {
    pub(super) const ALL: [Self; 4] = [Self::Queues, Self::Failed, Self::Pools, Self::Doctor];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Queues => "Queues",
            Self::Failed => "Failed",
            Self::Pools => "Pools",
            Self::Doctor => "Doctor",
        }
    }

    pub(super) fn index(self) -> usize {
        Self::ALL.iter().position(|page| *page == self).unwrap_or_default()
    }

    /// The page after this one, and the first after the last.
    fn next(self) -> Self {
        Self::ALL.iter().copied().cycle().nth(self.index() + 1).unwrap_or(self)
    }
}

/// What a row is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    Queue(String),
    /// A group of failed jobs of like errors.
    Group(Group),
    /// A pool, with the job of the row if one runs.
    Pool(PoolId, Option<JobId>),
    Finding(usize),
}

/// Failed jobs of like errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) job: String,
    pub(super) reason: FailedReason,
    pub(super) error: String,
    pub(super) count: u64,
}

/// A row of a page.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) key: Key,
    pub(super) cells: Vec<Cell>,
    /// What is shown below the table while it is selected.
    pub(super) details: Vec<String>,
}

/// The rows of a page.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) rows: Vec<Row>,
    pub(super) selected: usize,
    /// When they were read; `None` if they were not yet.
    pub(super) as_of: Option<SystemTime>,
    /// Why they are not newer.
    pub(super) problem: Option<String>,
    pub(super) is_loading: bool,
}

/// The groups of the failed jobs of a queue.
#[derive(Debug)]
pub(super) struct Grouped {
    pub(super) rows: Vec<Row>,
    /// Notes on the jobs that they leave out.
    pub(super) notes: Vec<String>,
    /// The jobs that were looked at.
    pub(super) extent: Option<Extent>,
}

/// What is done outside of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    Pause(String),
    Resume(String),
    Tell(PoolId, Order),
    Cancel(JobId),
    /// Reads the groups of failed jobs of a queue.
    Load(String),
    /// Retries the jobs of a group that were looked at.
    Retry(String, Group, Option<Extent>),
    /// Deletes the jobs of a group that were looked at.
    Discard(String, Group, Option<Extent>),
    Examine,
}

/// All that is shown.
#[derive(Debug)]
pub(super) struct State {
    pub(super) page: Page,
    pub(super) listings: [Listing; 4],
    /// The queue of the page of failed jobs.
    pub(super) queue: Option<String>,
    /// The failed jobs that its groups are of.
    pub(super) extent: Option<Extent>,
    /// An action that waits for a yes, with its question.
    pub(super) question: Option<(String, Action)>,
    pub(super) message: Option<String>,
    pub(super) has_colours: bool,
}

impl State {
    pub(super) fn new(has_colours: bool) -> Self {
        Self {
            page: Page::Queues,
            listings: Default::default(),
            queue: None,
            extent: None,
            question: None,
            message: None,
            has_colours,
        }
    }

    pub(super) fn listing(&self) -> &Listing {
        &self.listings[self.page.index()]
    }

    fn listing_mut(&mut self) -> &mut Listing {
        &mut self.listings[self.page.index()]
    }

    /// What the selected row is about.
    fn selected(&self) -> Option<&Key> {
        let listing = self.listing();
        listing.rows.get(listing.selected).map(|row| &row.key)
    }

    /// A look has ended.
    pub(super) fn sampled(&mut self, sample: Result<Overview, String>, now: SystemTime) {
        let (queues, pools) = match sample {
            Ok(overview) => (Ok(sample::queues(&overview, now)), sample::pools(&overview, now)),
            Err(problem) => (Err(problem.clone()), Err(problem)),
        };
        self.loaded(Page::Queues, queues, now);
        self.loaded(Page::Pools, pools, now);
    }

    /// The rows of a page were read.
    pub(super) fn loaded(&mut self, page: Page, rows: Result<Vec<Row>, String>, now: SystemTime) {
        let listing = &mut self.listings[page.index()];
        listing.is_loading = false;
        match rows {
            Ok(rows) => listing.replace(rows, now),
            Err(problem) => listing.problem = Some(problem),
        }
    }

    /// The groups of the failed jobs of a queue were read. It may be another queue by now.
    pub(super) fn grouped(
        &mut self,
        queue: &str,
        groups: Result<Grouped, String>,
        now: SystemTime,
    ) {
        if self.queue.as_deref() != Some(queue) {
            return;
        }
        let (rows, notes) = match groups {
            Ok(Grouped { rows, notes, extent }) => {
                self.extent = extent;
                (Ok(rows), notes)
            }
            Err(problem) => (Err(problem), Vec::new()),
        };
        self.loaded(Page::Failed, rows, now);
        if !notes.is_empty() {
            self.say(notes.join("; "));
        }
    }

    /// Shows a message until the next key.
    pub(super) fn say(&mut self, message: String) {
        self.message = Some(message);
    }

    /// A key is pressed.
    pub(super) fn press(&mut self, key: KeyEvent) -> Option<Action> {
        self.message = None;
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Some(Action::Quit);
        }
        if let Some((_, action)) = self.question.take() {
            return (key.code == KeyCode::Char('y')).then_some(action);
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Some(Action::Quit),
            KeyCode::Char(digit @ '1'..='4') => {
                let page = Page::ALL.iter().find(|page| page.digit() == digit);
                return page.and_then(|page| self.turn_to(*page));
            }
            KeyCode::Tab => return self.turn_to(self.page.next()),
            KeyCode::Up | KeyCode::Char('k') => self.listing_mut().step_back(1),
            KeyCode::Down | KeyCode::Char('j') => self.listing_mut().step(1),
            KeyCode::PageUp => self.listing_mut().step_back(PAGE_OF_ROWS),
            KeyCode::PageDown => self.listing_mut().step(PAGE_OF_ROWS),
            KeyCode::Home => self.listing_mut().step_back(usize::MAX),
            KeyCode::End => self.listing_mut().step(usize::MAX),
            code => return self.act(code),
        }
        None
    }

    /// Shows a page, which is read first if it never was.
    fn turn_to(&mut self, page: Page) -> Option<Action> {
        self.page = page;
        if page == Page::Failed
            && let Some(Key::Queue(queue)) = self.listings[Page::Queues.index()].selected_key()
            && self.queue.as_ref() != Some(queue)
        {
            self.queue = Some(queue.clone());
            self.listings[Page::Failed.index()] = Listing::default();
        }
        if self.listing().as_of.is_none() { self.read() } else { None }
    }

    /// Reads a page that is read only when somebody asks.
    fn read(&mut self) -> Option<Action> {
        let action = match self.page {
            Page::Failed => Action::Load(self.queue.clone()?),
            Page::Doctor => Action::Examine,
            Page::Queues | Page::Pools => return None,
        };
        let listing = self.listing_mut();
        if listing.is_loading {
            return None;
        }
        listing.is_loading = true;
        Some(action)
    }

    /// What a key of this page alone does.
    fn act(&mut self, code: KeyCode) -> Option<Action> {
        let (KeyCode::Char(key), page) = (code, self.page) else {
            return match code {
                KeyCode::Enter if self.page == Page::Queues => self.turn_to(Page::Failed),
                _ => None,
            };
        };
        if key == 'l' {
            return self.read();
        }
        let extent = self.extent;
        match (page, key, self.selected()?.clone()) {
            (Page::Queues, 'p', Key::Queue(queue)) => Some(Action::Pause(queue)),
            (Page::Queues, 'r', Key::Queue(queue)) => Some(Action::Resume(queue)),
            (Page::Failed, 'R', Key::Group(group)) => {
                let queue = self.queue.clone()?;
                let question = format!("retry {}", group.jobs_of(&queue));
                self.ask(&question, Action::Retry(queue, group, extent))
            }
            (Page::Failed, 'D', Key::Group(group)) => {
                let queue = self.queue.clone()?;
                let question = format!("delete {}", group.jobs_of(&queue));
                self.ask(&question, Action::Discard(queue, group, extent))
            }
            (Page::Pools, 'Q', Key::Pool(pool, _)) => {
                let question = format!("let pool {pool} take no more jobs");
                self.ask(&question, Action::Tell(pool, Order::Quiet))
            }
            (Page::Pools, 'S', Key::Pool(pool, _)) => {
                self.ask(&format!("shut pool {pool} down"), Action::Tell(pool, Order::Stop))
            }
            (Page::Pools, 'C', Key::Pool(_, Some(job))) => {
                self.ask(&format!("cancel job {job}"), Action::Cancel(job))
            }
            _ => None,
        }
    }

    /// Asks before an action that cannot be undone.
    fn ask(&mut self, question: &str, action: Action) -> Option<Action> {
        self.question = Some((format!("{question}? y/n"), action));
        None
    }
}

impl Page {
    /// The key that shows it.
    pub(super) fn digit(self) -> char {
        ['1', '2', '3', '4'][self.index()]
    }

    /// The keys that it has beside those of every page.
    pub(super) fn keys(self) -> &'static str {
        match self {
            Self::Queues => "enter failed  p pause  r resume",
            Self::Failed => "l look again  R retry  D delete",
            Self::Pools => "Q take no more  S shut down  C cancel job",
            Self::Doctor => "l look again",
        }
    }
}

impl Group {
    /// Its failed jobs, for a question or a message.
    pub(super) fn jobs_of(&self, queue: &str) -> String {
        let Self { job, reason, error, count } = self;
        format!("{count} failed jobs of `{queue}` ({job}, {reason}: {error})")
    }
}

impl Listing {
    fn selected_key(&self) -> Option<&Key> {
        self.rows.get(self.selected).map(|row| &row.key)
    }

    /// Takes new rows. The selected row stays selected wherever it is now.
    fn replace(&mut self, rows: Vec<Row>, now: SystemTime) {
        let key = self.selected_key().cloned();
        let place = key.and_then(|key| rows.iter().position(|row| row.key == key));
        self.rows = rows;
        self.selected = place.unwrap_or(self.selected);
        self.as_of = Some(now);
        self.problem = None;
        self.step(0);
    }

    fn step(&mut self, rows: usize) {
        let last = self.rows.len().saturating_sub(1);
        self.selected = self.selected.saturating_add(rows).min(last);
    }

    fn step_back(&mut self, rows: usize) {
        self.selected = self.selected.saturating_sub(rows);
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
