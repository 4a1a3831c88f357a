use std::time::Duration;

use jobq::JobId;
use jobq::admin::PoolId;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::super::state::{Action, Key, Row};
use super::*;

/// The lines of the page on a terminal of this size.
fn lines(state: &State, (width, height): (u16, u16)) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(43_384);
    terminal.draw(|frame| draw(frame, state, now)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| line(y).trim_end().to_owned()).collect()
}

fn row(key: Key, cells: &[&str], details: &[&str]) -> Row {
    Row {
        key,
        cells: cells.iter().map(Cell::from).collect(),
        details: details.iter().map(|&line| line.to_owned()).collect(),
    }
}

/// A state with forty queues, of which the second is behind, and a pool.
fn state() -> State {
    let mut state = State::new(false);
    let read = SystemTime::UNIX_EPOCH + Duration::from_secs(43_383);
    let queue = |number: usize| {
        let name = format!("queue_{number:02}");
        let cells: &[&str] = match number {
            1 => &[&name, "112", "0", "?", "7", "0", "0/min", "-", "unattended"],
            _ => &[&name, "0", "3", "2", "0", "1", "600/min", "12ms", "consumed"],
        };
        let details: &[&str] =
            if number == 1 { &["? IN-FLIGHT of queue_01: no answer"] } else { &[] };
        row(Key::Queue(name.clone()), cells, details)
    };
    state.loaded(Page::Queues, Ok((0..40).map(queue).collect()), read);
    let id = PoolId::new();
    let cells = [&*id.to_string(), "web1:4242", "mail", "consuming", "1/4", "0.1.0", "3h"];
    let pool = row(Key::Pool(id, None), &cells, &[]);
    let job = JobId::new();
    let running = row(Key::Pool(id, Some(job)), &[&format!("send {job} attempt 2, 1m30s")], &[]);
    state.loaded(Page::Pools, Ok(vec![pool, running]), read);
    state
}

#[test]
fn queues_fit_a_small_terminal_and_fill_a_large_one() {
    let state = state();
    for size in [(80, 24), (200, 50)] {
        let lines = lines(&state, size);
        assert_eq!(lines[0], " 1 Queues  2 Failed  3 Pools  4 Doctor", "{lines:#?}");
        assert_eq!(lines[1], "as of 12:03:03", "{lines:#?}");
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let titles = queues::COLUMNS.map(|(title, _)| title);
        assert_eq!(words(&lines[2]), titles, "{lines:#?}");
        let behind = ["queue_01", "112", "0", "?", "7", "0", "0/min", "-", "unattended"];
        assert_eq!(words(&lines[4]), behind, "{lines:#?}");
        let last = lines.last().unwrap();
        assert!(last.starts_with("q quit") && last.ends_with("r resume"), "{lines:#?}");
        let shown = lines.iter().filter(|line| line.starts_with("queue_")).count();
        assert_eq!(shown, (usize::from(size.1) - 8).min(40), "{lines:#?}");
    }
}

#[test]
fn the_selected_row_is_in_view_with_its_details() {
    let mut state = state();
    state.listings[0].selected = 1;
    let shown = lines(&state, (80, 24));
    assert!(shown.iter().any(|line| line == "? IN-FLIGHT of queue_01: no answer"), "{shown:#?}");
    state.listings[0].selected = 39;
    let shown = lines(&state, (80, 24));
    assert!(shown.iter().any(|line| line.starts_with("queue_39")), "{shown:#?}");
}

#[test]
fn running_jobs_are_shown_where_the_row_of_a_pool_is_cut() {
    let mut state = state();
    state.page = Page::Pools;
    for (size, is_cut) in [((80, 24), true), ((200, 50), false)] {
        let lines = lines(&state, size);
        assert!(lines[3].contains("  web1:4242  mail   consuming  1/4"), "{lines:#?}");
        assert_eq!(lines[3].ends_with("3h"), !is_cut, "{lines:#?}");
        assert!(lines[4].starts_with("  send "), "{lines:#?}");
        assert!(lines[4].ends_with(" attempt 2, 1m30s"), "{lines:#?}");
    }
    let narrow = lines(&state, (50, 10));
    assert!(narrow.iter().all(|line| line.chars().count() <= 50));
}

#[test]
fn an_error_leaves_the_rows_with_their_age() {
    let mut state = state();
    state.loaded(Page::Queues, Err("the broker is\x1b gone".into()), SystemTime::now());
    let shown = lines(&state, (80, 24));
    assert_eq!(shown[1], "error: the broker is\\u{1b} gone (as of 1.0s ago)", "{shown:#?}");
    assert!(shown[3].starts_with("queue_00"), "{shown:#?}");
}

#[test]
fn a_question_and_a_message_take_the_place_of_the_keys() {
    let mut state = state();
    state.say("queue mail is paused".into());
    assert_eq!(lines(&state, (80, 24)).last().unwrap(), "queue mail is paused");
    state.question = Some(("shut the pool down? y/n".into(), Action::Quit));
    assert_eq!(lines(&state, (80, 24)).last().unwrap(), "shut the pool down? y/n");
}

#[test]
fn what_was_never_read_says_so() {
    let mut state = State::new(false);
    assert_eq!(lines(&state, (80, 24))[1], "looking...");
    state.page = Page::Failed;
    assert_eq!(lines(&state, (80, 24))[1], "choose a queue on the first page");
    state.queue = Some("mail".into());
    assert_eq!(lines(&state, (80, 24))[0], " 1 Queues  2 Failed mail  3 Pools  4 Doctor");
}
