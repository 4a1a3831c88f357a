//! The failures by their whole texts.

use std::panic::Location;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::findings::Findings;
use super::{Compared, Entry, Expected, Record, Recorded, text};
use crate::job::{Event, Job};

const NOW: SystemTime = SystemTime::UNIX_EPOCH;
const PATTERN: &str = "SendWelcome { user_id: 7, email } if email.contains('@')";

#[derive(Serialize, Deserialize)]
struct SendWelcome {
    user_id: u64,
    email: String,
}

impl Job for SendWelcome {
    const NAME: &'static str = "send_welcome";
}

#[derive(Serialize, Deserialize)]
struct UserCreated {
    user_id: u64,
}

impl Event for UserCreated {
    const TOPIC: &'static str = "user.created";
}

/// What the macro makes of `PATTERN`.
fn check(payload: &SendWelcome) -> Compared {
    match payload {
        SendWelcome { user_id: 7, email } if text(email).contains('@') => Compared::Matches,
        SendWelcome { user_id: 7, .. } => Compared::GuardIsFalse("email.contains('@')"),
        SendWelcome { .. } => Compared::Differs,
    }
}

fn entry(name: &str, payload: impl Into<Vec<u8>>) -> Entry {
    Entry {
        name: name.to_owned(),
        payload: payload.into(),
        place: None,
        due: NOW,
        runs: Vec::new(),
    }
}

fn welcome(user_id: u64, email: &str) -> Entry {
    entry("send_welcome", format!(r#"{{"user_id":{user_id},"email":"{email}"}}"#))
}

impl Entry {
    fn due_in(self, seconds: u64) -> Self {
        Self { due: NOW + Duration::from_secs(seconds), ..self }
    }

    fn run(mut self, attempt: &str) -> Self {
        self.runs.push(attempt.to_owned());
        self
    }

    fn here(self, place: &'static Location<'static>) -> Self {
        Self { place: Some(place), ..self }
    }
}

impl Recorded for Vec<Entry> {
    fn record(&self) -> Record {
        Record { now: NOW, jobs: self.clone(), events: self.clone() }
    }
}

fn welcomes(pattern: &'static str) -> Expected<'static> {
    Expected::job(pattern, check)
}

fn assertion(expected: &Expected<'_>, entries: &Vec<Entry>) -> Option<String> {
    Findings::of(entries, expected).assertion()
}

fn refutation(expected: &Expected<'_>, entries: &Vec<Entry>) -> Option<String> {
    Findings::of(entries, expected).refutation()
}

/// The failure without the indentation of these tests.
#[track_caller]
fn assert_text(failure: Option<String>, expected: &str) {
    let lines: Vec<&str> =
        expected.trim().lines().map(|line| line.strip_prefix("        ").unwrap_or(line)).collect();
    assert_eq!(failure.unwrap_or_default(), lines.join("\n"));
}

#[test]
fn what_is_as_expected_is_no_failure() {
    let any = || welcomes(PATTERN);
    let soon = || any().within("10s");
    let topic = || Expected::topic("user.created");
    let one = vec![welcome(7, "a@b.com")];
    let topics = vec![entry("user.created", "{}").run("ignored").due_in(1), entry("other", "")];
    let table = [
        assertion(&any(), &one),
        assertion(&any().count(1).within("0s"), &one),
        assertion(&soon(), &vec![welcome(7, "@").due_in(10)]),
        refutation(&any(), &vec![welcome(8, "a@b.com")]),
        refutation(&any(), &vec![welcome(7, "@").run("attempt 1 failed")]),
        refutation(&soon(), &vec![welcome(7, "@").due_in(11)]),
        refutation(&any(), &vec![entry("send_welcome", "{}")]),
        assertion(&topic().count(1), &topics),
        refutation(&topic(), &vec![entry("user.created.now", "{}")]),
    ];
    for (row, failure) in table.into_iter().enumerate() {
        assert_eq!(failure, None, "row {row}");
    }
}

#[test]
fn each_job_of_the_type_is_shown() {
    let place = Location::caller();
    let entries = vec![
        entry("charge", "{}"),
        welcome(8, "ann@example.com").here(place),
        entry("audit", "{}"),
        welcome(7, "ann.example.org").due_in(3 * 86_400).run("attempt 1 failed: no").here(place),
        welcome(7, "x@y").run("attempt 1 failed: timeout").run("attempt 2 completed"),
        welcome(8, "x"),
        entry("charge", "{}"),
    ];
    let expected = format!(
        r#"
        no enqueued job matches `SendWelcome {{ user_id: 7, email }} if email.contains('@')`

        job `send_welcome`:
          1. {{"user_id":8,"email":"ann@example.com"}}
             enqueued at {place}, due now
          2. the guard `email.contains('@')` is false
             {{"user_id":7,"email":"ann.example.org"}}
             enqueued at {place}, due in 3d; has run already: attempt 1 failed: no
          3. matches, but has run already
             {{"user_id":7,"email":"x@y"}}
             has run already: attempt 1 failed: timeout, attempt 2 completed
          4. {{"user_id":8,"email":"x"}}
             due now
        other jobs: `charge` 2, `audit` 1
        "#
    );
    assert_text(assertion(&welcomes(PATTERN), &entries), &expected);
}

#[test]
fn no_job_of_the_type_is_said() {
    let any = || welcomes("SendWelcome { .. }");
    let expected = "
        no enqueued job matches `SendWelcome { .. }`

        no job `send_welcome` was enqueued
        other jobs: `send_welcome.2` 1
        ";
    assert_text(assertion(&any(), &vec![entry("send_welcome.2", "{}")]), expected);
    let expected = "
        expected 2 enqueued jobs due within 1h that match `SendWelcome { .. }`, found 0

        no job was enqueued
        ";
    assert_text(assertion(&any().count(2).within("1h"), &Vec::new()), expected);
}

#[test]
fn too_few_jobs_are_listed_with_those_that_match() {
    let entries = vec![
        welcome(7, "@").due_in(60),
        welcome(7, "@").due_in(61),
        welcome(7, "@").due_in(90_061).run("attempt 1 failed: timeout"),
        entry("send_welcome", r#"{"user_id":"7"}"#),
        entry("send_welcome", [b'"', 0xff]),
    ];
    let expected = r#"
        expected 3 enqueued jobs due within 1m that match `SendWelcome { user_id: 7, email } if email.contains('@')`, found 1

        job `send_welcome`:
          1. matches
             {"user_id":7,"email":"@"}
             due in 1m
          2. matches, but is not due within 1m
             {"user_id":7,"email":"@"}
             due in 1m1s
          3. matches, but is not due within 1m and has run already
             {"user_id":7,"email":"@"}
             due in 1d1h1m1s; has run already: attempt 1 failed: timeout
          4. payload cannot be read: invalid type: string "7", expected u64 at line 1 column 14
             {"user_id":"7"}
             due now
          5. payload cannot be read: it is not UTF-8 (EOF while parsing a string at line 1 column 2)
             "�
             due now
        "#;
    assert_text(assertion(&welcomes(PATTERN).count(3).within("1m"), &entries), expected);
}

#[test]
fn too_many_jobs_are_those_that_match() {
    let place = Location::caller();
    let entries = vec![
        welcome(7, "1@").here(place),
        welcome(8, "@"),
        welcome(7, "2@"),
        entry("charge", "{}"),
    ];
    let list = format!(
        r#", found 2

        job `send_welcome`:
          1. {{"user_id":7,"email":"1@"}}
             enqueued at {place}, due now
          2. {{"user_id":7,"email":"2@"}}
             due now
        "#
    );
    let any = || welcomes("SendWelcome { user_id: 7, .. }");
    let headline = "expected 1 enqueued job that matches `SendWelcome { user_id: 7, .. }`";
    assert_text(assertion(&any().count(1), &entries), &format!("{headline}{list}"));
    let headline = "expected no enqueued job due within 0s that matches \
                    `SendWelcome { user_id: 7, .. }`";
    assert_text(refutation(&any().within("0s"), &entries), &format!("{headline}{list}"));
}

#[test]
fn events_have_no_due_time_and_no_attempts() {
    let place = Location::caller();
    let entries = vec![
        entry("user.created", r#"{"user_id":8}"#).here(place).due_in(1).run("no"),
        entry("user.deleted", "{}"),
        entry("user.created", r#"{"user_id":9}"#),
    ];
    let created = Expected::event("UserCreated { user_id: 7 }", |event: &UserCreated| {
        if event.user_id == 7 { Compared::Matches } else { Compared::Differs }
    });
    let expected = format!(
        r#"
        no published event matches `UserCreated {{ user_id: 7 }}`

        event `user.created`:
          1. {{"user_id":8}}
             published at {place}
          2. {{"user_id":9}}
        other events: `user.deleted` 1
        "#
    );
    assert_text(assertion(&created, &entries), &expected);
    let expected = "
        no published event matches `UserCreated { user_id: 7 }`

        no event `user.created` was published
        other events: `user.deleted` 1
        ";
    assert_text(assertion(&created, &vec![entry("user.deleted", "{}")]), expected);
    let expected = "
        no published event matches `UserCreated { user_id: 7 }`

        no event was published
        ";
    assert_text(assertion(&created, &Vec::new()), expected);
}

#[test]
fn topics_have_events_of_any_type() {
    let created = || Expected::topic("user.created");
    let entries = vec![entry("user.created", "7"), entry("user.created", r#"{"user_id":8}"#)];
    let list = r#"
        event `user.created`:
          1. 7
          2. {"user_id":8}
        "#;
    let found = assertion(&created().count(3), &entries);
    let headline = "expected 3 published events that have the topic `user.created`, found 2";
    assert_text(found, &format!("{headline}\n{list}"));
    let headline = "expected 1 published event that has the topic `user.created`, found 2";
    assert_text(assertion(&created().count(1), &entries), &format!("{headline}\n{list}"));
    let headline = "expected no published event that has the topic `user.created`, found 2";
    assert_text(refutation(&created(), &entries), &format!("{headline}\n{list}"));
    let expected = "
        no published event has the topic `user.created`

        other events: `user.deleted` 1
        ";
    assert_text(assertion(&created(), &vec![entry("user.deleted", "7")]), expected);
    let expected = "
        no published event has the topic `user.created`

        no event was published
        ";
    assert_text(assertion(&created(), &Vec::new()), expected);
}

#[test]
fn long_payloads_are_cut_and_long_lists_counted() {
    let long = |length| entry("user.created", "ß".repeat(length));
    let entries: Vec<Entry> = std::iter::repeat_n(long(300), 22).collect();
    let text = refutation(&Expected::topic("user.created"), &entries).unwrap();
    let lines: Vec<&str> = text.lines().skip(3).collect();
    assert_eq!(lines.len(), 21);
    assert_eq!(lines[0], format!("  1. {}", "ß".repeat(300)));
    assert_eq!(lines[19], format!(" 20. {}", "ß".repeat(300)));
    assert_eq!(lines[20], "     and 2 more");
    let text = refutation(&Expected::topic("user.created"), &vec![long(301)]).unwrap();
    assert_eq!(text.lines().last().unwrap(), format!("  1. {}…", "ß".repeat(300)));
}
