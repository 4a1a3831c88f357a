use super::*;

fn row(key: Key) -> Row {
    Row { key, cells: Vec::new(), details: Vec::new() }
}

fn queue(name: &str) -> Row {
    row(Key::Queue(name.into()))
}

fn group() -> Group {
    let (job, error) = ("pay".into(), "card declined".into());
    Group { job, reason: FailedReason::Exhausted, error, count: 112 }
}

fn groups(notes: &[&str]) -> Grouped {
    let notes = notes.iter().map(|note| (*note).to_owned()).collect();
    Grouped { rows: vec![row(Key::Group(group()))], notes, extent: Some(Extent::new(200)) }
}

/// A state with two queues, a pool that runs a job, and nothing else read.
fn state() -> (State, PoolId, JobId) {
    let (pool, job) = (PoolId::new(), JobId::new());
    let mut state = State::new(false);
    state.loaded(Page::Queues, Ok(vec![queue("mail"), queue("pay")]), SystemTime::UNIX_EPOCH);
    let pools = vec![row(Key::Pool(pool, Some(job)))];
    state.loaded(Page::Pools, Ok(pools), SystemTime::UNIX_EPOCH);
    (state, pool, job)
}

fn press(state: &mut State, keys: &str) -> Vec<Option<Action>> {
    keys.chars().map(|key| state.press(KeyEvent::from(KeyCode::Char(key)))).collect()
}

#[test]
fn the_selected_row_stays_selected_where_it_moves_to() {
    let (mut state, ..) = state();
    press(&mut state, "j");
    assert_eq!(state.selected(), Some(&Key::Queue("pay".into())));
    let rows = vec![queue("a"), queue("mail"), queue("pay")];
    state.loaded(Page::Queues, Ok(rows), SystemTime::UNIX_EPOCH);
    assert_eq!(state.selected(), Some(&Key::Queue("pay".into())));
    state.loaded(Page::Queues, Ok(vec![queue("a")]), SystemTime::UNIX_EPOCH);
    assert_eq!(state.selected(), Some(&Key::Queue("a".into())));
    state.loaded(Page::Queues, Ok(Vec::new()), SystemTime::UNIX_EPOCH);
    assert_eq!(state.selected(), None);
    press(&mut state, "jk");
}

#[test]
fn rows_stay_when_a_look_fails() {
    let (mut state, ..) = state();
    state.loaded(Page::Queues, Err("no connection".into()), SystemTime::now());
    let listing = state.listing();
    assert_eq!((listing.rows.len(), listing.as_of), (2, Some(SystemTime::UNIX_EPOCH)));
    assert_eq!(listing.problem.as_deref(), Some("no connection"));
    state.loaded(Page::Queues, Ok(Vec::new()), SystemTime::now());
    assert_eq!(state.listing().problem, None);
}

#[test]
fn a_pause_is_done_at_once_and_what_cannot_be_undone_after_a_yes() {
    let (mut state, pool, job) = state();
    assert_eq!(press(&mut state, "p"), [Some(Action::Pause("mail".into()))]);
    assert_eq!(press(&mut state, "r"), [Some(Action::Resume("mail".into()))]);
    press(&mut state, "3");
    assert_eq!(press(&mut state, "Qy"), [None, Some(Action::Tell(pool, Order::Quiet))]);
    assert_eq!(press(&mut state, "Sy"), [None, Some(Action::Tell(pool, Order::Stop))]);
    assert_eq!(press(&mut state, "Cy"), [None, Some(Action::Cancel(job))]);
    // Any other key is a no, and nothing else.
    assert_eq!(press(&mut state, "Sqn"), [None, None, None]);
    assert_eq!(press(&mut state, "q"), [Some(Action::Quit)]);
}

#[test]
fn failed_jobs_are_read_when_somebody_asks() {
    let (mut state, ..) = state();
    let load = |queue: &str| Some(Action::Load(queue.into()));
    assert_eq!(press(&mut state, "2"), [load("mail")]);
    assert_eq!(press(&mut state, "l"), [None], "it is being read");
    state.grouped("mail", Ok(groups(&[])), SystemTime::UNIX_EPOCH);
    assert_eq!(press(&mut state, "12l"), [None, None, load("mail")]);
    state.grouped("mail", Ok(groups(&[])), SystemTime::UNIX_EPOCH);
    let retry = Action::Retry("mail".into(), group(), Some(Extent::new(200)));
    assert_eq!(press(&mut state, "R"), [None]);
    let (question, _) = state.question.as_ref().unwrap();
    assert!(question.contains("retry 112 failed jobs of `mail` (pay, exhausted: card declined)?"));
    assert_eq!(press(&mut state, "y"), [Some(retry)]);
    let discard = Action::Discard("mail".into(), group(), Some(Extent::new(200)));
    assert_eq!(press(&mut state, "Dy"), [None, Some(discard)]);
    // Another queue has other failed jobs.
    press(&mut state, "1j");
    assert_eq!(state.press(KeyEvent::from(KeyCode::Enter)), load("pay"));
    assert!(state.listing().rows.is_empty());
}

#[test]
fn groups_of_another_queue_are_not_shown() {
    let (mut state, ..) = state();
    press(&mut state, "21j");
    assert_eq!(press(&mut state, "2"), [Some(Action::Load("pay".into()))]);
    // Those that were asked for first come last.
    state.grouped(
        "pay",
        Ok(Grouped { rows: Vec::new(), notes: Vec::new(), extent: None }),
        SystemTime::UNIX_EPOCH,
    );
    state.grouped("mail", Ok(groups(&["not all"])), SystemTime::UNIX_EPOCH);
    assert!(state.listing().rows.is_empty() && state.message.is_none());
    state.grouped("pay", Ok(groups(&["2 more", "not all"])), SystemTime::UNIX_EPOCH);
    assert_eq!(
        (state.listing().rows.len(), state.message.as_deref()),
        (1, Some("2 more; not all"))
    );
}

#[test]
fn the_doctor_is_asked_once() {
    let (mut state, ..) = state();
    assert_eq!(press(&mut state, "4"), [Some(Action::Examine)]);
    state.loaded(Page::Doctor, Ok(vec![row(Key::Finding(0))]), SystemTime::UNIX_EPOCH);
    assert_eq!(press(&mut state, "14l"), [None, None, Some(Action::Examine)]);
    assert_eq!(state.press(KeyEvent::from(KeyCode::Tab)), None);
    assert_eq!(state.page, Page::Queues);
}

#[test]
fn control_c_ends_it_also_at_a_question() {
    let (mut state, ..) = state();
    press(&mut state, "3S");
    let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(state.press(key), Some(Action::Quit));
}
