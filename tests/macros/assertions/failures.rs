//! Failures with the user's code in them. `jobq/src/testing/expect/tests.rs` has their texts.

use std::cell::Cell;
use std::panic::{self, Location, UnwindSafe};
use std::sync::Once;

use jobq::testing::{assert_enqueued, assert_published, refute_enqueued, refute_published};

use super::{Charge, Recording, SendWelcome, UserCreated, welcome};

fn recording() -> Recording {
    Recording::default().job(&welcome(7, "a, b")).event(&UserCreated { user_id: 7 })
}

thread_local! {
    static LINE: Cell<u32> = const { Cell::new(0) };
}

/// The line that failed, counted from the beginning of the closure, and the text.
#[track_caller]
fn failure(assertion: impl FnOnce() + UnwindSafe) -> (u32, String) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            LINE.set(info.location().filter(|at| at.file() == file!()).map_or(0, Location::line));
            before(info);
        }));
    });
    let begin = Location::caller().line();
    let panic = panic::catch_unwind(assertion).expect_err("the assertion fails");
    (LINE.get().wrapping_sub(begin), *panic.downcast().expect("the panic has a text"))
}

#[test]
fn a_failure_is_at_the_line_of_the_assertion() {
    let (line, _) = failure(|| {
        let jobs = recording();
        assert_enqueued!(jobs, Charge { .. });
    });
    assert_eq!(line, 2);
    let (line, _) = failure(|| {
        refute_enqueued!(recording(), SendWelcome { .. },);
    });
    assert_eq!(line, 1);
    let assertions: [fn(); 4] = [
        || assert_published!(recording(), UserCreated { user_id: 8 }),
        || refute_published!(recording(), UserCreated { .. }),
        || assert_published!(recording(), "user.deleted"),
        || refute_published!(recording(), "user.created"),
    ];
    for (assertion, below) in assertions.into_iter().zip((3..7).rev()) {
        assert_eq!(failure(assertion).0.wrapping_neg(), below);
    }
}

#[test]
fn the_pattern_is_shown_as_it_is_written() {
    let first_line = |assertion: fn()| failure(assertion).1.lines().next().unwrap().to_owned();
    let table: [(fn(), &str); 5] = [
        (
            || {
                assert_enqueued!(recording(), SendWelcome { user_id: 8, email } if !email.is_empty()
                    && email.len()>1);
            },
            "no enqueued job matches `SendWelcome { user_id: 8, email } if !email.is_empty() && \
             email.len()>1`",
        ),
        (
            || {
                assert_enqueued!(
                    recording(),
                    2,
                    crate::SendWelcome {
                        user_id: 1..=9,
                        email: "a , b" | "c::d", // and more
                    },
                    within = "1h 30m",
                );
            },
            "expected 2 enqueued jobs due within 1h 30m that match `crate::SendWelcome { user_id: \
             1..=9, email: \"a , b\" | \"c::d\", }`, found 0",
        ),
        (
            || refute_enqueued!(recording(), SendWelcome { email: a @ "a, b", .. } if &a[1..] == ", b"),
            "expected no enqueued job that matches `SendWelcome { email: a @ \"a, b\", .. } if \
             &a[1..] == \", b\"`, found 1",
        ),
        (
            || assert_published!(recording(), 3, "user.created"),
            "expected 3 published events that have the topic `user.created`, found 1",
        ),
        (
            || refute_published!(recording(), UserCreated { user_id } if (|n| n)(*user_id) == 7),
            "expected no published event that matches `UserCreated { user_id } if (|n| n)(*user_id) \
             == 7`, found 1",
        ),
    ];
    for (assertion, expected) in table {
        assert_eq!(first_line(assertion), expected);
    }
}

#[test]
fn a_guard_that_is_false_is_named() {
    let text =
        failure(|| assert_enqueued!(recording(), SendWelcome { email: "x" | "a, b", .. } if 1 > 2));
    assert_eq!(text.1.lines().nth(3), Some("  1. the guard `1 > 2` is false"));
    let text = failure(|| assert_enqueued!(recording(), SendWelcome { email: "b", .. } if 1 > 2));
    assert_eq!(text.1.lines().nth(3), Some(r#"  1. {"user_id":7,"email":"a, b"}"#));
}
