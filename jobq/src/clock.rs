//! The time of day, which tests can move.

use std::fmt;
use std::sync::Arc;
#[cfg(feature = "rabbitmq")]
use std::sync::LazyLock;
#[cfg(feature = "rabbitmq")]
use std::time::Instant;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use crate::job::{from_millis, to_millis};

/// The clock of a [`Client`](crate::Client) and its pools: the system's, or one that a test moves.
///
/// Delays and waits begin, jobs expire, and failures are recorded at its time. All clones show the
/// same time. Timeouts of job functions are not measured by it but by tokio's clock.
///
/// On RabbitMQ the broker itself ends the waits, by the system's clock.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use jobq::{Client, Clock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> jobq::Result<()> {
/// let clock = Clock::stopped_at(SystemTime::UNIX_EPOCH);
/// let client = Client::builder("sqlite::memory:").clock(clock.clone()).connect().await?;
/// clock.advance(Duration::from_secs(3_600)); // jobs of the next hour are due
/// assert_eq!(clock.now(), SystemTime::UNIX_EPOCH + Duration::from_secs(3_600));
/// clock.set(SystemTime::now()); // and those until now
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Clock {
    /// The time of a stopped clock; `None` for the system's.
    stopped: Option<Arc<watch::Sender<SystemTime>>>,
}

/// How long a sleep until a time of the system's clock is at most: that clock may be set.
#[cfg(any(feature = "schedules", feature = "testing"))]
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

impl Clock {
    /// The system's clock.
    ///
    /// ```
    /// let now = jobq::Clock::system().now();
    /// assert!(now <= std::time::SystemTime::now());
    /// ```
    #[must_use]
    pub fn system() -> Self {
        Self::default()
    }

    /// A clock that shows this time until it is moved.
    #[must_use]
    pub fn stopped_at(time: SystemTime) -> Self {
        Self { stopped: Some(Arc::new(watch::Sender::new(time))) }
    }

    /// The current time, in whole milliseconds, which every engine keeps.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        let now = match &self.stopped {
            Some(time) => *time.borrow(),
            None => SystemTime::now(),
        };
        from_millis(to_millis(now))
    }

    /// Moves a stopped clock forward.
    ///
    /// # Panics
    ///
    /// If it is the system's clock, or if the time is beyond the range of [`SystemTime`].
    pub fn advance(&self, by: Duration) {
        let later = self.stopped_time().borrow().checked_add(by);
        self.set(later.expect("the time is within the range of `SystemTime`"));
    }

    /// Sets a stopped clock to this time.
    ///
    /// # Panics
    ///
    /// If it is the system's clock.
    pub fn set(&self, time: SystemTime) {
        self.stopped_time().send_replace(time);
    }

    fn stopped_time(&self) -> &watch::Sender<SystemTime> {
        self.stopped.as_ref().expect("the system's clock cannot be moved; use `Clock::stopped_at`")
    }

    /// Returns once it shows this time, which somebody may set it to.
    #[cfg(any(feature = "schedules", feature = "testing"))]
    pub(crate) async fn reached(&self, time: SystemTime) {
        match &self.stopped {
            Some(stopped) => {
                // The sender is kept by this clock.
                let _ = stopped.subscribe().wait_for(|now| *now >= time).await;
            }
            None => {
                while let Ok(rest) = time.duration_since(SystemTime::now())
                    && !rest.is_zero()
                {
                    tokio::time::sleep(rest.min(LONGEST_SLEEP)).await;
                }
            }
        }
    }

    /// The time since any fixed moment, which no change of the system's clock moves.
    #[cfg(feature = "rabbitmq")]
    pub(crate) fn elapsed(&self) -> Duration {
        static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
        match &self.stopped {
            Some(time) => time.borrow().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
            None => BEGAN.elapsed(),
        }
    }

    /// Waits until so much time has passed.
    #[cfg(feature = "rabbitmq")]
    pub(crate) async fn sleep(&self, time: Duration) {
        match &self.stopped {
            Some(stopped) => {
                let end = self.now() + time;
                // The sender is kept by this clock.
                let _ = stopped.subscribe().wait_for(|now| *now >= end).await;
            }
            None => tokio::time::sleep(time).await,
        }
    }

    /// Whether it is one that a test moves.
    #[cfg(any(feature = "sqlite", feature = "testing"))]
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }
}

/// The time since boot, including that of a machine that sleeps. `None` if the system does not tell it.
#[cfg(any(feature = "rabbitmq", feature = "sqlite"))]
pub(crate) fn since_boot() -> Option<Duration> {
    #[cfg(target_os = "linux")]
    return Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::Boottime)).ok();
    #[cfg(not(target_os = "linux"))]
    None
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.stopped {
            Some(_) => f.debug_tuple("Clock").field(&self.now()).finish(),
            None => f.write_str("Clock(system)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_of_a_stopped_clock_move_together() {
        let clock = Clock::stopped_at(SystemTime::UNIX_EPOCH + Duration::from_micros(7_900));
        let other = clock.clone();
        assert_eq!(other.now(), SystemTime::UNIX_EPOCH + Duration::from_millis(7));
        clock.advance(Duration::from_secs(1));
        assert_eq!(other.now(), SystemTime::UNIX_EPOCH + Duration::from_millis(1_007));
        other.set(SystemTime::UNIX_EPOCH);
        assert_eq!(clock.now(), SystemTime::UNIX_EPOCH);
    }

    #[test]
    #[should_panic(expected = "cannot be moved")]
    fn the_systems_clock_cannot_be_moved() {
        Clock::system().advance(Duration::ZERO);
    }
}
