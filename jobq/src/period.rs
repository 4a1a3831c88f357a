//! The text form of a duration: `"250ms"`, `"30s"`, `"10m"`, `"1h 30m"`, `"2d"`.

use std::time::Duration;

pub(crate) use jobq_names::period::millis;
pub use jobq_names::period::{MAX, PeriodError, format, parse};

/// A [`Duration`], or its text as in the attributes: `"10s"`, `"1h 30m"`.
///
/// ```
/// # use jobq::{Client, job};
/// # use std::time::Duration;
/// # #[job] async fn remind(user_id: u64) -> Result<(), jobq::BoxError> { Ok(()) }
/// # async fn example(client: Client) -> jobq::Result<()> {
/// client.enqueue(Remind { user_id: 7 }).delay("10m").await?;
/// client.enqueue(Remind { user_id: 7 }).delay(Duration::from_secs(600)).await?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a duration",
    label = "expected a `Duration`, or a `&str` such as `\"30s\"`",
    note = "a text has the units d, h, m, s and ms; `Duration::from_secs` takes a number of seconds"
)]
pub trait IntoPeriod {
    /// The duration.
    ///
    /// # Errors
    ///
    /// A text that is no duration.
    fn into_period(self) -> Result<Duration, PeriodError>;
}

impl IntoPeriod for Duration {
    fn into_period(self) -> Result<Duration, PeriodError> {
        Ok(self)
    }
}

impl IntoPeriod for &str {
    fn into_period(self) -> Result<Duration, PeriodError> {
        parse(self)
    }
}
