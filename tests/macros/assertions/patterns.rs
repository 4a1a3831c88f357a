//! Patterns of all kinds.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use jobq::testing::{assert_enqueued, assert_published, refute_enqueued, refute_published};
use jobq::{BoxError, Event, Job, job};
use serde::{Deserialize, Serialize};

use super::{Charge, Recording, SendWelcome, UserCreated, welcome};

const LARGEST: u64 = 1_000;

/// Neither `PartialEq` nor `Debug`, and no field that is read elsewhere.
#[derive(Serialize, Deserialize)]
enum Plan {
    Free,
    Team(String, u32),
    Custom { seats: u32, name: Option<String> },
}

#[derive(Serialize, Deserialize)]
struct Address {
    city: Box<str>,
    zip: Cow<'static, str>,
    lines: [String; 2],
}

#[derive(Serialize, Deserialize)]
struct Marker;

#[derive(Serialize, Deserialize, Job)]
struct Ship {
    order: u64,
    address: Address,
    plan: Plan,
    note: Option<Result<String, u8>>,
    r#type: String,
    marker: Marker,
    weights: Vec<Option<f64>>,
    labels: BTreeMap<String, Cow<'static, str>>,
    ratio: (i8, char, bool),
}

#[derive(Serialize, Deserialize, Job)]
struct Resize(u64, String, (u32, u32), bool);

#[derive(Serialize, Deserialize, Job)]
struct Sweep;

#[derive(Serialize, Deserialize, Job)]
#[job(on = "user.created")]
struct Greet(UserCreated);

#[job]
async fn cleanup() -> Result<(), BoxError> {
    Ok(())
}

#[derive(Serialize, Deserialize, Event)]
#[event(topic = "page.read")]
enum PageRead {
    By { name: String },
    Times(u32),
    Never,
}

#[derive(Serialize, Deserialize, Event)]
#[event(topic = "wrapped")]
struct Wrapped<T> {
    value: T,
}

fn ship() -> Ship {
    Ship {
        order: 7,
        address: Address {
            city: "Berlin".into(),
            zip: "10115".into(),
            lines: ["a".to_owned(), "b".to_owned()],
        },
        plan: Plan::Team("blue".to_owned(), 3),
        note: Some(Ok("fragile".to_owned())),
        r#type: "express".to_owned(),
        marker: Marker,
        weights: vec![Some(1.5), None],
        labels: BTreeMap::from([("a".to_owned(), "b".into())]),
        ratio: (-5, 'x', true),
    }
}

#[test]
fn fields_are_matched() {
    let jobs =
        Recording::default().job(&welcome(7, "ann@example.com")).job(&welcome(8, "bob@x.org"));
    assert_enqueued!(jobs, SendWelcome { user_id: 7, email: "ann@example.com" });
    assert_enqueued!(jobs, 1, SendWelcome { user_id: 7, .. });
    assert_enqueued!(jobs, 2, SendWelcome { .. });
    assert_enqueued!(&jobs, 2, SendWelcome { user_id: 1..=8, email: _ },);
    assert_enqueued!(jobs, 2, SendWelcome { user_id: ..LARGEST, .. });
    assert_enqueued!(jobs, 1, SendWelcome { user_id: _, email: r"bob@x.org" });
    assert_enqueued!(jobs, 2, SendWelcome { email: "bob@x.org" | "ann@example.com" | "x", .. });
    refute_enqueued!(jobs, SendWelcome { user_id: 7, email: "bob@x.org" });
    refute_enqueued!(jobs, SendWelcome { user_id: LARGEST, .. });
    refute_enqueued!(jobs, crate::SendWelcome { user_id: 9 | 10, .. });
    refute_enqueued!(jobs, Charge { .. });
}

#[test]
fn guards_see_what_the_pattern_names() {
    let jobs = Recording::default().job(&welcome(7, "ann@example.com"));
    let expected = String::from("ann@example.com");
    assert_enqueued!(jobs, SendWelcome { user_id: 7, email } if email.ends_with(".com"));
    assert_enqueued!(jobs, SendWelcome { user_id: id, email } if *id < 8 && *email == expected);
    assert_enqueued!(jobs, SendWelcome { user_id: id @ 1..=9, .. } if id % 2 == 1 || *id == 8);
    assert_enqueued!(jobs, 1, SendWelcome { email, .. } if *email == expected, within = "10m");
    assert_enqueued!(jobs, SendWelcome { user_id: _id, email } if format!("<{email}>").len() == 17);
    refute_enqueued!(jobs, SendWelcome { user_id: 7, email } if email.is_empty());
    refute_enqueued!(jobs, SendWelcome { user_id: 8, email } if *email == expected);
    refute_enqueued!(jobs, SendWelcome { email: "bob" | "ann@example.com", user_id } if *user_id > 7);
}

#[test]
fn patterns_nest() {
    let jobs = Recording::default().job(&ship());
    assert_enqueued!(jobs, Ship { address: Address { city: "Berlin", .. }, .. });
    assert_enqueued!(jobs, Ship { address: Address { zip: "1" | "10115", .. }, .. });
    assert_enqueued!(jobs, Ship { address: Address { lines: ["a", last], .. }, .. } if last == "b");
    assert_enqueued!(jobs, Ship { plan: Plan::Team("blue", 1..), note: Some(Ok("fragile")), .. });
    assert_enqueued!(jobs, Ship { plan: Plan::Free | Plan::Team("blue" | "red", _), .. });
    assert_enqueued!(
        jobs,
        Ship { plan: Plan::Custom { seats: 1, .. } | Plan::Team("blue", 3), .. }
    );
    assert_enqueued!(jobs, Ship { note: None | Some(Err(7) | Ok("fragile")), .. });
    assert_enqueued!(jobs, Ship { note: Some(Ok(text @ "fragile")), .. } if text.len() == 7);
    assert_enqueued!(jobs, Ship { r#type: "express", marker: Marker, ratio: (-5, 'x', true), .. });
    assert_enqueued!(jobs, Ship { weights, labels, .. } if weights.len() == 2 && labels["a"] == "b");
    refute_enqueued!(jobs, Ship { address: Address { city: "Paris", .. }, .. });
    refute_enqueued!(jobs, Ship { plan: Plan::Free | Plan::Team("red", _), .. });
    refute_enqueued!(jobs, Ship { plan: Plan::Custom { name: None | Some("x"), .. }, .. });
    refute_enqueued!(jobs, Ship { note: None | Some(Err(_) | Ok("x")), .. });
    refute_enqueued!(jobs, Ship { address: Address { lines: ["b", ..], .. }, .. });
}

#[test]
fn alternatives_are_all_tried() {
    let jobs = Recording::default().job(&Resize(1, "a".to_owned(), (2, 3), false));
    // The guard holds for the second alternative alone.
    assert_enqueued!(jobs, Resize(_, _, (side, _) | (_, side), _) if *side == 3);
    assert_enqueued!(jobs, Resize(_, text @ "b" | text, ..) if text == "a");
}

#[test]
fn types_have_any_shape() {
    let jobs = Recording::default()
        .job(&Resize(1, "a.png".to_owned(), (640, 480), true))
        .job(&Sweep)
        .job(&Cleanup {})
        .job(&Greet(UserCreated { user_id: 7 }));
    assert_enqueued!(jobs, Resize(1, "a.png", (640, _), true));
    assert_enqueued!(jobs, Resize(1, ..));
    assert_enqueued!(jobs, Resize(.., true));
    assert_enqueued!(jobs, Resize(_, "a.png", .., true));
    assert_enqueued!(jobs, Resize { 1: "a.png", .. });
    refute_enqueued!(jobs, Resize(.., false));
    refute_enqueued!(jobs, Resize(.., (_, 1), _));
    assert_enqueued!(jobs, Sweep);
    assert_enqueued!(jobs, 1, crate::patterns::Sweep);
    assert_enqueued!(jobs, Cleanup);
    assert_enqueued!(jobs, Cleanup {});
    assert_enqueued!(jobs, Greet(UserCreated { user_id: 7 }));
    refute_enqueued!(jobs, Greet(UserCreated { user_id: 8 }));
    refute_enqueued!(Recording::default(), Sweep);
}

#[test]
fn only_jobs_that_have_not_run_and_are_due_count() {
    let jobs = Recording::default()
        .job(&welcome(1, "a"))
        .run("attempt 1 completed")
        .job(&welcome(2, "b"))
        .due_in(Duration::from_secs(600))
        .job(&welcome(3, "c"))
        .due_in(Duration::from_millis(600_001));
    assert_enqueued!(jobs, 2, SendWelcome { .. });
    assert_enqueued!(jobs, 1, SendWelcome { .. }, within = "10m");
    refute_enqueued!(jobs, SendWelcome { user_id: 1, .. });
    refute_enqueued!(jobs, SendWelcome { .. }, within = "9m 59s");
    refute_enqueued!(jobs, SendWelcome { user_id: 3, .. } if true, within = "10m",);
}

#[test]
fn events_are_matched_by_type_and_by_topic() {
    let events = Recording::default()
        .event(&UserCreated { user_id: 7 })
        .event(&UserCreated { user_id: 8 })
        .event(&PageRead::By { name: "ann".to_owned() })
        .event(&PageRead::Times(3))
        .event(&Wrapped { value: vec![Some("a".to_owned())] });
    assert_published!(events, UserCreated { user_id: 7 });
    assert_published!(events, 2, UserCreated { user_id } if *user_id > 6);
    assert_published!(events, "user.created");
    assert_published!(events, 2, "user.created");
    assert_published!(events, PageRead::By { name: "ann" });
    assert_published!(events, 1, PageRead::Times(3));
    assert_published!(events, Wrapped::<Vec<Option<String>>> { value } if value.len() == 1);
    refute_published!(events, PageRead::By { name: "bob" });
    refute_published!(events, PageRead::Never);
    refute_published!(events, UserCreated { user_id: 9 });
    refute_published!(events, "user.deleted");
}

#[test]
fn other_macros_may_pass_what_they_are_given() {
    macro_rules! expect {
        ($jobs:expr, $count:literal, $pattern:pat, $guard:expr) => {
            assert_enqueued!($jobs, $count, $pattern if $guard)
        };
        ($jobs:ident, $id:literal) => {
            assert_enqueued!($jobs, SendWelcome { user_id: $id, .. })
        };
    }
    let jobs = Recording::default().job(&welcome(7, "ann@example.com"));
    expect!(&jobs, 1, SendWelcome { email: "ann@example.com", .. }, 1 + 1 == 2);
    expect!(jobs, 7);
}

#[tokio::test]
async fn the_jobs_may_be_any_expression() {
    let jobs = async || Recording::default().job(&welcome(7, "ann@example.com"));
    assert_enqueued!(jobs().await, SendWelcome { user_id: 7, .. });
    let table = [jobs().await, Recording::default()];
    assert_enqueued!(table[0], SendWelcome { user_id: 7, .. });
    refute_enqueued!(&&table[1], SendWelcome { user_id: 7, .. });
    assert_enqueued!(if table.is_empty() { &table[1] } else { &table[0] }, SendWelcome { .. });
}
