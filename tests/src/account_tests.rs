use super::*;
use crate::files::Directory;
use crate::ledger::Ledger;

/// A ledger of one job: `J` stands for its id.
fn judge(lines: &[&str], failed: usize) -> Report {
    let id = JobId::new();
    let mut account = Account::default();
    for line in lines {
        account.note(&line.replace('J', &id.to_string()));
    }
    account.judge(&vec![id; failed], 0)
}

fn kinds(report: &Report) -> [usize; 7] {
    let Report { accepted, completed, failed, lost, duplicates, unexplained, wrong, .. } = report;
    let (lost, unexplained, wrong) = (lost.len(), unexplained.len(), wrong.len());
    [*accepted, *completed, *failed, lost, *duplicates, unexplained, wrong]
}

const DONE: [&str; 6] = [
    "enqueues J 2 completed",
    "answered J accepted",
    "begins J 1 a",
    "ends J 1 a again",
    "begins J 2 a",
    "ends J 2 a completed",
];

#[test]
fn a_job_is_completed_failed_or_lost() {
    assert_eq!(kinds(&judge(&DONE, 0)), [1, 1, 0, 0, 0, 0, 0]);
    judge(&DONE, 0).assert_nothing_lost();
    assert_eq!(kinds(&judge(&DONE[..5], 0)), [1, 0, 0, 1, 0, 0, 0], "without its end");
    assert_eq!(kinds(&judge(&DONE[..2], 0)), [1, 0, 0, 1, 0, 0, 0], "never begun");
    let attempt_lost = [DONE[0], DONE[1], DONE[4], DONE[5]];
    assert_eq!(kinds(&judge(&attempt_lost, 0)), [1, 1, 0, 0, 0, 0, 1], "without attempt 1");
    assert_eq!(kinds(&judge(&DONE, 1)), [1, 0, 0, 0, 0, 0, 2], "failed as well");

    let fails = ["enqueues J 1 failed", "answered J accepted", "begins J 1 a", "ends J 1 a failed"];
    assert_eq!(kinds(&judge(&fails, 1)), [1, 0, 1, 0, 0, 0, 0]);
    assert_eq!(kinds(&judge(&fails, 0)), [1, 0, 0, 1, 0, 0, 0], "not among the failed jobs");
    assert_eq!(kinds(&judge(&fails, 2)), [1, 0, 1, 0, 1, 1, 0], "twice");
}

#[test]
fn a_duplicate_needs_the_death_of_one_who_had_the_job() {
    let with = |lines: &[&str]| kinds(&judge(&[&DONE[..4], lines, &DONE[4..]].concat(), 0));
    let again = "begins J 1 b";
    assert_eq!(with(&[again]), [1, 1, 0, 0, 1, 1, 0]);
    assert_eq!(with(&["kills a", again]), [1, 1, 0, 0, 1, 0, 0]);
    assert_eq!(with(&["kills broker", again]), [1, 1, 0, 0, 1, 0, 0]);
    assert_eq!(with(&[again, "kills a"]), [1, 1, 0, 0, 1, 1, 0], "too late");
    assert_eq!(with(&["kills c", again]), [1, 1, 0, 0, 1, 1, 0], "another one");
    let before = [&["kills broker"][..], &DONE[..4], &[again], &DONE[4..]].concat();
    assert_eq!(kinds(&judge(&before, 0)), [1, 1, 0, 0, 1, 1, 0], "before it was enqueued");
}

#[test]
fn a_refused_job_is_nowhere_and_a_doubtful_one_anywhere() {
    let answered = |answer| {
        let lines = ["enqueues J 1 completed", answer, "begins J 1 a", "ends J 1 a completed"];
        judge(&lines, 0)
    };
    assert_eq!(kinds(&answered("answered J refused")), [0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(answered("answered J in-doubt").in_doubt, (1, 1));
    assert_eq!(answered("kills a").in_doubt, (1, 1), "nobody was left to be answered");
    assert_eq!(judge(&["enqueues J 1 completed"], 0).in_doubt, (1, 0));
}

#[test]
fn what_several_write_is_read_in_order_and_a_cut_line_later() {
    let folder = Directory::new();
    let path = folder.file("ledger");
    let mut account = Account::default();
    account.read(&path);
    let (one, other) = (Ledger::open(&path, "a").unwrap(), Ledger::open(&path, "b").unwrap());
    let id = JobId::new();
    one.enqueues(id, 2, false);
    one.answered(id, Answer::Accepted);
    one.begins(id, 1);
    account.read(&path);
    assert_eq!((account.progress(), account.is_over()), ((1, 0), false));
    one.kills("a");
    other.begins(id, 1);
    other.ends(id, 1, End::Again);
    other.begins(id, 2);
    std::io::Write::write_all(&mut File::options().append(true).open(&path).unwrap(), b"en")
        .unwrap();
    account.read(&path);
    assert_eq!(account.attempts(id), [1, 1, 2]);
    assert_eq!((account.begun(), account.running(), account.lines()), (3, 2, 7));
    assert!(account.has_begun("b") && !account.has_begun("c"));
    assert_eq!((account.deaths(id), account.deaths(JobId::new())), (1, 0), "b lives");
    let rest = format!("ds {id} 2 b completed\n");
    std::io::Write::write_all(
        &mut File::options().append(true).open(&path).unwrap(),
        rest.as_bytes(),
    )
    .unwrap();
    account.read(&path);
    assert!(account.is_over());
    let report = account.judge(&[], 0);
    report.assert_nothing_lost();
    assert_eq!(report.duplicates, 1);
}
