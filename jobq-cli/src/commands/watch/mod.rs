//! `jobq watch`: a terminal page.
//!
//! `state` holds what is shown and decides what a key does; `draw` lays it out; both are pure.
//! `sample` makes rows and documents of the queues and pools, and `act` carries out what the keys
//! ask for.

mod act;
mod draw;
mod sample;
mod state;

use std::io::{self, IsTerminal as _};
use std::thread;
use std::time::{Duration, SystemTime};

use clap::Args;
use jobq::Client;
use jobq::admin::Overview;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event as TerminalEvent, KeyEvent, KeyEventKind};
#[cfg(unix)]
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::interval;

use self::sample::Document;
use self::state::{Action, Grouped, Page, Row, State};
use super::queues::selection;
use crate::end::{End, Ended, Problem};
use crate::log;
use crate::options::{Options, pause};
use crate::output::Output;

/// Show queues, failed jobs, pools and doctor findings, live
///
/// With `--json`, prints one document per refresh, each on its own line, and needs no terminal.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Queues to show; all known queues by default
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,
    /// Time between refreshes
    #[arg(long, value_name = "DURATION", value_parser = pause, default_value = "2s")]
    interval: Duration,
}

/// Something to be shown.
#[derive(Debug)]
enum Event {
    Key(KeyEvent),
    /// The size of the terminal has changed.
    Resized,
    /// A second has passed.
    Tick,
    Sample(Result<Overview, String>),
    /// The findings of the doctor.
    Examined(Result<Vec<Row>, String>),
    /// The groups of the failed jobs of a queue.
    Grouped(String, Result<Grouped, String>),
    /// What an action did.
    Acted(String),
    /// A signal asks the command to end.
    Ended,
}

pub(crate) async fn run(arguments: Arguments, options: &Options, output: Output) -> Ended {
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    if !is_terminal && !output.is_json() {
        return Err(Problem::Usage(
            "`jobq watch` needs a terminal, and there is none; add `--json` for one document per \
             line"
                .into(),
        ));
    }
    let client = options.client().await?;
    if output.is_json() {
        return stream(&client, arguments, output).await;
    }
    let (events, heard) = unbounded_channel();
    listen(events.clone());
    tokio::spawn(tick(events.clone()));
    tokio::spawn(look(client.clone(), arguments, events.clone()));
    hear_signals(&events)?;
    let state = State::new(output.has_colours());
    let _keeping = log::keep();
    let mut terminal = ratatui::try_init()?;
    let ended = show(&mut terminal, state, Runner { client, options, events }, heard).await;
    // After a hangup there may be no terminal any more.
    let _ = ratatui::try_restore();
    ended
}

/// Prints a document for each look, until the process ends.
async fn stream(client: &Client, arguments: Arguments, output: Output) -> Ended {
    let queues = selection(arguments.queues);
    loop {
        let sample = client.admin().overview(queues.clone()).await;
        output.document(Document::new(SystemTime::now(), &sample))?;
        tokio::time::sleep(arguments.interval).await;
    }
}

/// What an action needs.
struct Runner<'o> {
    client: Client,
    options: &'o Options,
    events: UnboundedSender<Event>,
}

impl Runner<'_> {
    fn start(&self, action: Action) {
        let (client, events) = (self.client.clone(), self.events.clone());
        let actor = self.options.actor();
        tokio::spawn(async move {
            // Nobody hears what is done after the end.
            let _ = events.send(act::act(&client, &actor, action).await);
        });
    }
}

async fn show(
    terminal: &mut DefaultTerminal,
    mut state: State,
    runner: Runner<'_>,
    mut heard: UnboundedReceiver<Event>,
) -> Ended {
    loop {
        terminal.draw(|frame| draw::draw(frame, &state, SystemTime::now()))?;
        let Some(event) = heard.recv().await else { return Ok(End::Done) };
        match event {
            Event::Key(key) => match state.press(key) {
                Some(Action::Quit) => return Ok(End::Done),
                Some(action) => runner.start(action),
                None => {}
            },
            Event::Resized | Event::Tick => {}
            Event::Sample(sample) => state.sampled(sample, SystemTime::now()),
            Event::Examined(rows) => state.loaded(Page::Doctor, rows, SystemTime::now()),
            Event::Grouped(queue, groups) => state.grouped(&queue, groups, SystemTime::now()),
            Event::Acted(message) => state.say(message),
            Event::Ended => return Ok(End::Done),
        }
    }
}

/// Hears the terminal, in a thread of its own: reading from it blocks.
fn listen(events: UnboundedSender<Event>) {
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            let event = match event {
                TerminalEvent::Key(key) if key.kind == KeyEventKind::Press => Event::Key(key),
                TerminalEvent::Resize(..) => Event::Resized,
                _ => continue,
            };
            if events.send(event).is_err() {
                return;
            }
        }
    });
}

/// Hears the signals that would otherwise end the process before the terminal is restored.
#[cfg(unix)]
fn hear_signals(events: &UnboundedSender<Event>) -> io::Result<()> {
    for kind in [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()] {
        let (mut signal, events) = (signal(kind)?, events.clone());
        tokio::spawn(async move {
            signal.recv().await;
            let _ = events.send(Event::Ended);
        });
    }
    Ok(())
}

#[cfg(not(unix))]
#[allow(clippy::unnecessary_wraps)] // as elsewhere
fn hear_signals(_: &UnboundedSender<Event>) -> io::Result<()> {
    Ok(())
}

async fn tick(events: UnboundedSender<Event>) {
    let mut seconds = interval(Duration::from_secs(1));
    while events.send(Event::Tick).is_ok() {
        seconds.tick().await;
    }
}

/// Looks again and again; the next look begins after the last one has ended.
async fn look(client: Client, arguments: Arguments, events: UnboundedSender<Event>) {
    let queues = selection(arguments.queues);
    loop {
        let sample = client.admin().overview(queues.clone()).await;
        if events.send(Event::Sample(sample.map_err(|error| error.to_string()))).is_err() {
            return;
        }
        tokio::time::sleep(arguments.interval).await;
    }
}
