//! The assertions.

/// Asserts that a job is enqueued whose payload matches a pattern.
///
/// ```text
/// assert_enqueued!(JOBS, PATTERN)
/// assert_enqueued!(JOBS, PATTERN if GUARD)
/// assert_enqueued!(JOBS, COUNT, PATTERN)              exactly so many; without: at least one
/// assert_enqueued!(JOBS, PATTERN, within = "10m")     due within this period
/// ```
///
/// ```
/// use jobq::testing::assert_enqueued;
/// # use jobq::{BoxError, job};
///
/// #[job]
/// async fn send_welcome(user_id: u64, email: String) -> Result<(), BoxError> {
///     Err(format!("{user_id} {email}").into())
/// }
///
/// # fn example(jobs: &jobq::testing::Jobs) {
/// assert_enqueued!(jobs, SendWelcome { user_id: 7, email } if email.ends_with(".com"));
/// assert_enqueued!(jobs, 2, SendWelcome { email: "ann@example.com" | "bob@example.com", .. });
/// assert_enqueued!(jobs, SendWelcome { .. }, within = "10m");
/// # }
/// ```
///
/// A job counts until its first attempt. With `within`, it counts if it is due by the end of that
/// period, which begins now.
///
/// # The pattern
///
/// A pattern as in a `match` on a reference to the payload, with the name of the payload's type in
/// front: fields that are not named need `..`, and a name is new, matches every value and is bound to
/// a reference. So that nobody takes it for a variable of the test, the guard has to read it, unless
/// it begins with `_`. A number of jobs is a literal.
///
/// A text matches each field with `AsRef<str>`, such as a `String` or a `Cow<str>`, also inside of
/// other patterns: `Some("a")`, `"a" | "b"`. All else that is no pattern is compared in a guard. The
/// payload needs neither `PartialEq` nor `Debug`.
///
/// # Panics
///
/// If another number of jobs matches. The text shows each job of the type, how it differs from the
/// pattern, and where it was enqueued.
#[macro_export]
macro_rules! assert_enqueued {
    ($($arguments:tt)*) => {
        $crate::testing::__private::expectation! { $crate assert_enqueued $($arguments)* }
    };
}

/// Asserts that no job is enqueued whose payload matches a pattern.
///
/// ```
/// use jobq::testing::refute_enqueued;
/// # use jobq::{BoxError, job};
///
/// #[job]
/// async fn charge(order: u64, cents: u64) -> Result<(), BoxError> {
///     Err(format!("{order} {cents}").into())
/// }
///
/// # fn example(jobs: &jobq::testing::Jobs) {
/// refute_enqueued!(jobs, Charge { .. });
/// refute_enqueued!(jobs, Charge { order: 7, cents } if *cents > 10_000, within = "1h");
/// # }
/// ```
///
/// It takes what [`assert_enqueued!`](macro@crate::testing::assert_enqueued) takes, except for a
/// number.
///
/// # Panics
///
/// If a job matches. The text shows each of them and where it was enqueued.
#[macro_export]
macro_rules! refute_enqueued {
    ($($arguments:tt)*) => {
        $crate::testing::__private::expectation! { $crate refute_enqueued $($arguments)* }
    };
}

/// Asserts that an event is published that matches a pattern or has a topic.
///
/// ```text
/// assert_published!(EVENTS, PATTERN)
/// assert_published!(EVENTS, PATTERN if GUARD)
/// assert_published!(EVENTS, "user.created")
/// assert_published!(EVENTS, COUNT, ..)                exactly so many; without: at least one
/// ```
///
/// ```
/// use jobq::Event;
/// use jobq::testing::assert_published;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Event)]
/// #[event(topic = "user.created")]
/// struct UserCreated {
///     user_id: u64,
/// }
///
/// # fn example(jobs: &jobq::testing::Jobs) {
/// assert_published!(jobs, UserCreated { user_id: 7 });
/// assert_published!(jobs, 2, UserCreated { user_id } if *user_id < 10);
/// assert_published!(jobs, 1, "user.deleted");
/// # }
/// ```
///
/// The pattern is that of a type with [`Event`](crate::Event) and serde's `Deserialize`, and is
/// compared with the events of its topic, as in
/// [`assert_enqueued!`](macro@crate::testing::assert_enqueued). An event that borrows, and one
/// without a type, is named by its topic.
///
/// # Panics
///
/// If another number of events matches. The text shows each event of the topic, how it differs from
/// the pattern, and where it was published.
#[macro_export]
macro_rules! assert_published {
    ($($arguments:tt)*) => {
        $crate::testing::__private::expectation! { $crate assert_published $($arguments)* }
    };
}

/// Asserts that no event is published that matches a pattern or has a topic.
///
/// ```
/// use jobq::Event;
/// use jobq::testing::refute_published;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Event)]
/// #[event(topic = "user.created")]
/// struct UserCreated {
///     user_id: u64,
/// }
///
/// # fn example(jobs: &jobq::testing::Jobs) {
/// refute_published!(jobs, UserCreated { user_id: 7 });
/// refute_published!(jobs, "user.deleted");
/// # }
/// ```
///
/// It takes what [`assert_published!`](macro@crate::testing::assert_published) takes, except for a
/// number.
///
/// # Panics
///
/// If an event matches. The text shows each of them and where it was published.
#[macro_export]
macro_rules! refute_published {
    ($($arguments:tt)*) => {
        $crate::testing::__private::expectation! { $crate refute_published $($arguments)* }
    };
}
