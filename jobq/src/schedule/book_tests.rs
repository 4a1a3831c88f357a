use std::collections::BTreeMap;

use super::*;
use crate::job::Missed;

fn at(seconds: u64) -> SystemTime {
    from_millis(seconds * 1_000)
}

fn spec(name: &str, times: &str) -> Spec {
    Spec {
        name: name.to_owned(),
        job: "report".to_owned(),
        payload: "{}".to_owned(),
        times: vec![times.to_owned()],
        zone: "UTC".to_owned(),
        missed: Missed::All,
        jitter_ms: 0,
        expires_ms: None,
        headers: BTreeMap::new(),
    }
}

fn put(name: &str, times: &str, seconds: u64) -> Change {
    Change::Put { spec: spec(name, times), at_ms: seconds * 1_000, by: "web".to_owned() }
}

fn opened(list: &[u8], position: &[u8], now: u64) -> Book {
    Book::open("mail", (list, position), at(now)).unwrap()
}

fn empty() -> Book {
    opened(&[], &[], 0)
}

/// The book as the next holder has it.
fn reopened(book: &Book, now: u64) -> Book {
    opened(&book.list(), &book.position(), now)
}

/// The jobs that are due: the names of their schedules, and seconds.
fn ticks(book: &mut Book, now: u64) -> Vec<(String, u64)> {
    let ticks = book.ticks(at(now), LATE).unwrap_or_default();
    ticks.jobs.into_iter().map(|tick| (tick.spec.name, to_millis(tick.due) / 1_000)).collect()
}

fn due(name: &str, seconds: &[u64]) -> Vec<(String, u64)> {
    seconds.iter().map(|seconds| (name.to_owned(), *seconds)).collect()
}

#[test]
fn a_schedule_is_due_once_for_each_time_whoever_holds_it() {
    let mut book = empty();
    assert_eq!(book.apply(put("a", "every 60s", 30), at(30)), Applied::Changed);
    assert_eq!(book.next(), Some(at(60)));
    assert_eq!(book.ticks(at(59), LATE), None);
    assert_eq!(ticks(&mut book, 60), due("a", &[60]));
    assert_eq!(book.next(), Some(at(120)));
    // It went on, but the position was not written: the same job comes again.
    let mut next = opened(&book.list(), &[], 61);
    assert_eq!(ticks(&mut next, 61), due("a", &[60]));
    let mut next = reopened(&book, 61);
    assert_eq!(next.ticks(at(61), LATE), None);
    assert_eq!(ticks(&mut next, 185), due("a", &[120, 180]));
}

#[test]
fn a_schedule_that_nobody_held_begins_when_it_was_made() {
    let mut book = opened(&[], &[], 1_000);
    book.apply(put("a", "every 60s", 890), at(1_000));
    assert_eq!(ticks(&mut book, 1_000), due("a", &[900, 960]));
    // The clock of the client may be ahead.
    book.apply(put("b", "every 60s", 5_000), at(1_000));
    assert_eq!(book.next(), Some(at(1_020)));
}

#[test]
fn an_equal_schedule_changes_nothing_and_another_one_counts_from_now() {
    let mut book = empty();
    book.apply(put("a", "every 60s", 0), at(0));
    let before = book.list();
    assert_eq!(book.apply(put("a", "every 60s", 50), at(50)), Applied::Nothing);
    assert_eq!(book.list(), before);
    // It was due at 60 and at 120, which the new times would not have made up for.
    assert_eq!(book.apply(put("a", "every 90s", 170), at(170)), Applied::Changed);
    assert_eq!(ticks(&mut book, 180), due("a", &[180]));
}

#[test]
fn schedules_in_code_count_on_as_long_as_they_stay_the_same() {
    let (own, changed) = ([spec("report", "every 60s")], [spec("report", "every 90s")]);
    let mut book = empty();
    assert_eq!(book.add_own(&own, "shop", at(0), at(0)), [Applied::Changed]);
    assert_eq!(ticks(&mut book, 60), due("report", &[60]));
    // Everybody is down until 150.
    let mut same = reopened(&book, 150);
    assert_eq!(same.add_own(&own, "shop", at(150), at(150)), [Applied::Nothing]);
    assert_eq!(ticks(&mut same, 150), due("report", &[120]));
    // Even if the pool began before.
    let mut other = reopened(&book, 150);
    assert_eq!(other.add_own(&changed, "shop", at(100), at(150)), [Applied::Changed]);
    assert_eq!(other.ticks(at(150), LATE), None);
    assert_eq!(ticks(&mut other, 180), due("report", &[180]));
    // The first pool of all counts from its beginning, although it took the seat later.
    let mut first = opened(&[], &[], 70);
    first.add_own(&own, "shop", at(50), at(70));
    assert_eq!(ticks(&mut first, 70), due("report", &[60]));
    // A pool that began long ago has named it to the holder before, of whom nothing is left.
    let mut deleted = opened(&[], &[], 10_000);
    deleted.add_own(&own, "shop", at(0), at(10_000));
    assert_eq!(ticks(&mut deleted, 10_000), due("report", &[9_900, 9_960]));
}

#[test]
fn the_code_of_the_holder_wins() {
    let code =
        |times: &str| Change::Code { spec: spec("report", times), at_ms: 0, by: "shop".to_owned() };
    let mut book = empty();
    book.add_own(&[spec("report", "every 60s")], "shop", at(0), at(0));
    assert_eq!(book.apply(code("every 90s"), at(1)), Applied::Nothing);
    assert_eq!(book.next(), Some(at(60)));
    assert!(matches!(book.apply(put("report", "every 5s", 0), at(1)), Applied::Refused(_)));
    assert!(matches!(
        book.apply(Change::Remove { name: "report".to_owned() }, at(1)),
        Applied::Refused(_)
    ));
    assert_eq!(book.report().refused.len(), 2);
    // Another holder without it takes what pools name.
    let mut other = reopened(&book, 10);
    assert_eq!(other.apply(code("every 60s"), at(10)), Applied::Nothing);
    assert_eq!(other.apply(code("every 90s"), at(20)), Applied::Changed);
    assert_eq!(other.next(), Some(at(90)));
}

#[test]
fn schedules_of_code_that_is_gone_are_forgotten() {
    let mut book = empty();
    book.add_own(&[spec("report", "every 60s")], "shop", at(0), at(0));
    book.apply(put("a", "every 60s", 0), at(0));
    assert_eq!(book.forget(at(10_000)), [""; 0]);
    // A new holder waits for half an hour, however old the name is.
    let mut next = reopened(&book, 10_000);
    assert_eq!(next.forget(at(11_800)), [""; 0]);
    let code = Change::Code { spec: spec("report", "every 60s"), at_ms: 0, by: "shop".to_owned() };
    assert_eq!(next.apply(code, at(11_800)), Applied::Nothing);
    assert_eq!(next.forget(at(13_600)), [""; 0]);
    assert_eq!(next.forget(at(13_601)), ["report"]);
    assert_eq!(next.len(), 1);
}

#[test]
fn a_paused_schedule_makes_up_for_nothing() {
    let pause = || Change::Pause { name: "a".to_owned(), at_ms: 70_000, by: "ann".to_owned() };
    let resume = |seconds: u64| Change::Resume { name: "a".to_owned(), at_ms: seconds * 1_000 };
    let mut book = empty();
    book.apply(put("a", "every 60s", 0), at(0));
    assert_eq!(ticks(&mut book, 60), due("a", &[60]));
    assert_eq!(book.apply(pause(), at(70)), Applied::Changed);
    assert_eq!(book.next(), None);
    let report = &book.report().schedules[0];
    assert_eq!((report.paused, report.paused_by.as_deref()), (Some(at(70)), Some("ann")));
    // It stays paused when it is replaced, and in the hands of the next holder.
    book.apply(put("a", "every 30s", 80), at(80));
    let mut book = reopened(&book, 200);
    assert_eq!(book.next(), None);
    let run = Change::Run { name: "a".to_owned(), id: JobId::new() };
    assert!(matches!(book.apply(run, at(200)), Applied::Run(tick) if tick.due == at(200)));
    // It counts from the call, also where nobody held it then.
    let changes = [pause(), resume(475)];
    assert_eq!(book.apply(resume(475), at(500)), Applied::Changed);
    assert_eq!(ticks(&mut book, 510), due("a", &[480, 510]));
    // Resuming what runs does not skip a time.
    assert_eq!(book.apply(resume(545), at(545)), Applied::Nothing);
    assert_eq!(ticks(&mut book, 545), due("a", &[540]));
    // Nor do changes that come again.
    let _ = changes.map(|change| book.apply(change, at(546)));
    assert_eq!(ticks(&mut book, 575), due("a", &[570]));
    let nobody = Change::Resume { name: "b".to_owned(), at_ms: 0 };
    assert_eq!(book.apply(nobody, at(575)), Applied::Nothing);
}

#[test]
fn the_schedules_of_a_queue_are_bounded() {
    let mut book = empty();
    for number in 0..MOST {
        assert_eq!(book.apply(put(&number.to_string(), "@daily", 0), at(0)), Applied::Changed);
    }
    let Applied::Refused(why) = book.apply(put("more", "@daily", 0), at(0)) else { panic!() };
    assert!(why.contains("1000 schedules"), "{why}");
    // A change of one of them is not one more.
    assert_eq!(book.apply(put("7", "@hourly", 0), at(0)), Applied::Changed);

    let large = |name: &str| {
        let mut spec = spec(name, "@daily");
        spec.payload = "x".repeat(8_000);
        Change::Put { spec, at_ms: 0, by: "web".to_owned() }
    };
    let mut book = empty();
    let mut number = 0;
    let why = loop {
        match book.apply(large(&number.to_string()), at(0)) {
            Applied::Refused(why) => break why,
            applied => assert_eq!(applied, Applied::Changed),
        }
        number += 1;
    };
    assert!(why.contains("give schedules smaller payloads"), "{why}");
    assert_eq!(book.len(), number);
    assert!(book.list().len() <= MAX_LIST);
    assert!(number > 25);
}

#[test]
fn a_pause_for_which_there_is_no_room_is_refused() {
    let mut book = empty();
    for number in 0.. {
        let mut large = spec(&number.to_string(), "@daily");
        large.payload = "x".repeat(8_000);
        let change = Change::Put { spec: large, at_ms: 0, by: "web".to_owned() };
        if matches!(book.apply(change, at(0)), Applied::Refused(_)) {
            break;
        }
    }
    let by = "x".repeat(16_000);
    let pause = Change::Pause { name: "0".to_owned(), at_ms: 0, by };
    assert!(matches!(book.apply(pause, at(0)), Applied::Refused(_)));
    assert_eq!(book.report().schedules[0].paused, None);
    assert!(book.list().len() <= MAX_LIST);
}

#[test]
fn another_policy_with_the_same_times_misses_nothing() {
    let mut book = empty();
    book.add_own(&[spec("report", "every 60s")], "shop", at(0), at(0));
    assert_eq!(ticks(&mut book, 60), due("report", &[60]));
    let mut other = spec("report", "every 60s");
    other.expires_ms = Some(5_000);
    let mut next = reopened(&book, 125);
    next.add_own(&[other], "shop", at(124), at(125));
    assert_eq!(ticks(&mut next, 125), due("report", &[120]));
}

#[test]
fn a_schedule_of_another_program_is_replaced_with_a_word() {
    let mut book = empty();
    book.apply(put("a", "every 60s", 0), at(0));
    let other = Change::Put { spec: spec("a", "every 90s"), at_ms: 0, by: "billing".to_owned() };
    let replaced = Applied::Replaced { name: "a".to_owned(), of: "web".to_owned() };
    assert_eq!(book.apply(other, at(0)), replaced);
    assert_eq!(book.report().schedules[0].by, "billing");
    // A job's code takes the name, too.
    let taken = book.add_own(&[spec("a", "every 60s")], "shop", at(0), at(0));
    assert_eq!(taken, [Applied::Replaced { name: "a".to_owned(), of: "billing".to_owned() }]);
}

#[test]
fn a_schedule_that_this_machine_does_not_know_is_kept_and_told() {
    let mut book = empty();
    let mut unknown = spec("a", "every 60s");
    unknown.zone = "Mars/Olympus".to_owned();
    book.apply(Change::Put { spec: unknown, at_ms: 0, by: "web".to_owned() }, at(0));
    book.apply(put("b", "every 60s", 0), at(0));
    assert_eq!(ticks(&mut book, 60), due("b", &[60]));
    let book = reopened(&book, 61);
    let problem = book.report().schedules[0].problem.clone().unwrap();
    assert!(problem.contains("`Mars/Olympus` is not a time zone"), "{problem}");
}

#[test]
fn a_book_of_another_version_is_not_read() {
    let other = br#"{"v":2,"schedules":[]}"#;
    for (list, position) in
        [(&other[..], &b""[..]), (b"", b"{\"v\":2,\"until_ms\":1}"), (b"[", b"")]
    {
        let error = Book::open("mail", (list, position), at(0)).unwrap_err();
        assert!(error.is_unsupported() && error.to_string().contains("`mail`"), "{error}");
    }
}

#[test]
fn changes_are_read_as_they_are_written() {
    let name = || "a".to_owned();
    for change in [
        put("a", "30 2 * * *", 7),
        Change::Code { spec: spec("a", "@daily"), at_ms: 7, by: name() },
        Change::Remove { name: name() },
        Change::Pause { name: name(), at_ms: 7, by: name() },
        Change::Resume { name: name(), at_ms: 7 },
        Change::Run { name: name(), id: JobId::new() },
    ] {
        let written = change::write(&change);
        assert_eq!(change::read::<Change>(&written), Ok(change));
    }
    let error = change::read::<Change>(br#"{"v":1,"change":"dance"}"#).unwrap_err();
    assert!(error.contains("dance"), "{error}");
}

#[test]
fn a_clock_that_was_ahead_is_told_and_no_job_comes_twice() {
    let mut book = empty();
    book.apply(put("a", "every 60s", 0), at(0));
    ticks(&mut book, 120);
    let mut behind = reopened(&book, 30);
    assert_eq!(behind.ahead_of(at(30)), Duration::from_secs(90));
    assert_eq!(behind.ticks(at(60), LATE), None);
    assert_eq!(ticks(&mut behind, 180), due("a", &[180]));
}
