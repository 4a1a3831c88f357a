//! The layout of the page. Pure.

use std::time::SystemTime;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style as Drawn};
use ratatui::text::{Line, Span};
use ratatui::widgets::{List, ListState, Paragraph};

use super::state::{Listing, Page, State};
use crate::commands::failed::groups;
use crate::commands::{queues, workers};
use crate::output::colour::Style;
use crate::output::table::{Align, Cell, Table, visible};
use crate::output::time::{since, time_of_day};

/// The lines below the table for what is known about the selected row.
const DETAILS: u16 = 4;

const DOCTOR_COLUMNS: [(&str, Align); 3] =
    [("SEVERITY", Align::Left), ("ABOUT", Align::Left), ("FOUND", Align::Left)];

pub(super) fn draw(frame: &mut Frame<'_>, state: &State, now: SystemTime) {
    let rows = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(DETAILS),
        Constraint::Length(1),
    ]);
    let [tabs, age, table, details, keys] = rows.areas(frame.area());
    frame.render_widget(Line::from(titles(state)), tabs);
    frame.render_widget(status(state, now), age);
    draw_table(frame, state, table);
    frame.render_widget(Paragraph::new(selected_details(state.listing())), details);
    frame.render_widget(footer(state), keys);
}

/// The names of the pages, with their keys.
fn titles(state: &State) -> Vec<Span<'static>> {
    let title = |page: &Page| {
        let text = match (page, &state.queue) {
            (Page::Failed, Some(queue)) => format!(" {} {} {queue} ", page.digit(), page.title()),
            _ => format!(" {} {} ", page.digit(), page.title()),
        };
        let selected = Drawn::new().add_modifier(Modifier::REVERSED | Modifier::BOLD);
        Span::styled(text, if *page == state.page { selected } else { Drawn::new() })
    };
    Page::ALL.iter().map(title).collect()
}

/// When the rows were read, and why they are not newer.
fn status(state: &State, now: SystemTime) -> Line<'static> {
    let listing = state.listing();
    if let Some(problem) = &listing.problem {
        let age = listing.as_of.map(|time| format!(" (as of {} ago)", since(time, now)));
        let text = format!("error: {}{}", visible(problem), age.unwrap_or_default());
        return Line::styled(text, drawn(Style::Bad, state.has_colours));
    }
    let text = match listing.as_of {
        _ if listing.is_loading => "looking...".to_owned(),
        None if state.page == Page::Failed => "choose a queue on the first page".to_owned(),
        None => "looking...".to_owned(),
        Some(time) if now.duration_since(time).is_ok_and(|age| age.as_secs() >= 5) => {
            format!("as of {}, {} ago", time_of_day(time), since(time, now))
        }
        Some(time) => format!("as of {}", time_of_day(time)),
    };
    Line::raw(text)
}

fn draw_table(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let listing = state.listing();
    let rows = listing.rows.iter().map(|row| row.cells.clone());
    let lines = Table::new(columns(state.page), rows).lines();
    let span =
        |cell: &Cell| Span::styled(cell.text().to_owned(), drawn(cell.style(), state.has_colours));
    let mut lines = lines.iter().map(|line| line.iter().map(span).collect::<Line<'_>>());
    let [titles, below] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    frame.render_widget(lines.next().unwrap_or_default(), titles);
    let list = List::new(lines).highlight_style(Drawn::new().add_modifier(Modifier::REVERSED));
    let selected = (!listing.rows.is_empty()).then_some(listing.selected);
    frame.render_stateful_widget(list, below, &mut ListState::default().with_selected(selected));
}

fn columns(page: Page) -> &'static [(&'static str, Align)] {
    match page {
        Page::Queues => &queues::COLUMNS,
        Page::Failed => &groups::COLUMNS,
        Page::Pools => &workers::COLUMNS,
        Page::Doctor => &DOCTOR_COLUMNS,
    }
}

fn selected_details(listing: &Listing) -> Vec<Line<'static>> {
    let details = listing.rows.get(listing.selected).map(|row| row.details.as_slice());
    details.unwrap_or_default().iter().map(|line| Line::raw(visible(line))).collect()
}

/// The question, what an action did, or the keys.
fn footer(state: &State) -> Line<'static> {
    let notable = drawn(Style::Notable, state.has_colours).add_modifier(Modifier::BOLD);
    match (&state.question, &state.message) {
        (Some((question, _)), _) => Line::styled(visible(question), notable),
        (None, Some(message)) => Line::styled(visible(message), notable),
        (None, None) => {
            Line::raw(format!("q quit  1-4 page  up/down select  {}", state.page.keys()))
        }
    }
}

fn drawn(style: Style, has_colours: bool) -> Drawn {
    match style {
        Style::Plain => Drawn::new(),
        Style::Title => Drawn::new().add_modifier(Modifier::BOLD),
        _ if !has_colours => Drawn::new(),
        Style::Good => Drawn::new().fg(Color::Green),
        Style::Notable => Drawn::new().fg(Color::Yellow),
        Style::Bad => Drawn::new().fg(Color::Red),
    }
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
