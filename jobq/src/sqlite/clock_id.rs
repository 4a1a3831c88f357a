//! The identity of the clock since boot, which several processes on one file must share.
//!
//! The clock starts with the machine, and a time namespace shifts it. So the id is that of the boot
//! and, apart from the namespace that every machine starts with, the inode of the namespace. Earlier
//! versions of jobq know the boot alone.

use std::fmt;

/// The time namespace of a machine without others, as `/proc/self/ns/time` has it. The number is
/// fixed in Linux (`TIME_NS_INIT_INO`).
const FIRST_NAMESPACE: &str = "time:[4026531834]";

/// The longest step back of a clock that is still the same, in milliseconds.
const STEP_BACK: i64 = 1_000;

/// How much further than the time of day a clock may have gone on, in milliseconds.
const STEP_AHEAD: i64 = 60_000;

/// The id of a clock since boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClockId {
    text: String,
    /// Whether the system tells the time namespace.
    has_namespace: bool,
}

/// The readings by which two clocks without a known namespace are compared, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Readings {
    /// The last time that the file keeps, and the time of day then.
    pub(super) last: i64,
    pub(super) time_of_day_then: Option<i64>,
    /// The time by the file's clock and the time of day, as this process reads them.
    pub(super) now: i64,
    pub(super) time_of_day: i64,
}

/// The relation of the clock that a file keeps to the clock of this process.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Same,
    /// The machine was started since.
    Earlier,
    /// The two run at the same time and differ.
    Another(AnotherClock),
}

/// The error of a file that counts time by another clock than this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnotherClock {
    file: String,
    own: String,
}

impl fmt::Display for AnotherClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "uses a different clock than this process: the clock of the file is {}, that of this \
             process {}; run all programs of a file in one time namespace, such as one container; \
             if no other program uses the file any more, switch it to the clock of this process \
             with `jobq migrate FILE`",
            self.file, self.own
        )
    }
}

impl ClockId {
    /// The id of this boot and this time namespace, as `/proc/self/ns/time` links to it.
    fn new(boot: &str, namespace: Option<&str>) -> Self {
        let text = match namespace {
            None | Some(FIRST_NAMESPACE) => boot.to_owned(),
            Some(namespace) => format!("{boot} {namespace}"),
        };
        Self { text, has_namespace: namespace.is_some() }
    }

    /// The text, as a file keeps it.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Compares this clock with the one that a file keeps under this id.
    pub(super) fn relation(&self, kept: &str, readings: Readings) -> Relation {
        let boot = |id: &str| id.split(' ').next().map(str::to_owned);
        if boot(kept) != boot(&self.text) {
            return Relation::Earlier;
        }
        if kept != self.text {
            let (file, own) = (with_namespace(kept), with_namespace(&self.text));
            return Relation::Another(AnotherClock { file, own });
        }
        if self.has_namespace || readings.agree() {
            return Relation::Same;
        }
        let at = |time| format!("at {time} ms since 1970");
        let Readings { last, now, .. } = readings;
        Relation::Another(AnotherClock { file: at(last), own: at(now) })
    }
}

impl Readings {
    /// Whether the clock has neither gone back nor on by more than the time of day.
    fn agree(self) -> bool {
        let passed = self.now.saturating_sub(self.last);
        let by_day = self.time_of_day_then.map(|then| self.time_of_day.saturating_sub(then));
        passed >= -STEP_BACK && by_day.is_none_or(|by_day| passed - by_day <= STEP_AHEAD)
    }
}

/// An id with its namespace, for users.
fn with_namespace(id: &str) -> String {
    if id.contains(' ') { id.to_owned() } else { format!("{id} {FIRST_NAMESPACE}") }
}

/// The id of the clock of this process; `None` if the system does not tell the boot.
#[cfg(target_os = "linux")]
pub(super) fn own() -> Option<ClockId> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::read_link("/proc/self/ns/time").ok();
    let namespace = namespace.as_ref().and_then(|path| path.to_str());
    Some(ClockId::new(boot.trim(), namespace))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn own() -> Option<ClockId> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const READINGS: Readings =
        Readings { last: 50_000, time_of_day_then: Some(50_000), now: 51_000, time_of_day: 51_000 };

    #[test]
    fn a_clock_is_the_same_in_one_boot_and_one_time_namespace() {
        let other = "time:[4026532179]";
        // The namespace of this process, the id in the file, whether it is the same clock, or an
        // earlier one.
        let table = [
            (Some(FIRST_NAMESPACE), "boot", Some(true)),
            (Some(FIRST_NAMESPACE), "boot time:[4026532179]", None),
            (Some(FIRST_NAMESPACE), "earlier", Some(false)),
            (Some(FIRST_NAMESPACE), "earlier time:[4026532179]", Some(false)),
            (Some(FIRST_NAMESPACE), "", Some(false)),
            (Some(other), "boot", None),
            (Some(other), "boot time:[4026532179]", Some(true)),
            (Some(other), "boot time:[4026532180]", None),
            (Some(other), "earlier", Some(false)),
            (None, "boot", Some(true)),
            (None, "boot time:[4026532179]", None),
            (None, "earlier", Some(false)),
        ];
        for (namespace, kept, expected) in table {
            let found = ClockId::new("boot", namespace).relation(kept, READINGS);
            let found = match found {
                Relation::Same => Some(true),
                Relation::Earlier => Some(false),
                Relation::Another(another) => {
                    let own = namespace.unwrap_or(FIRST_NAMESPACE);
                    let told = another.to_string();
                    assert!(told.contains(own) && told.contains(kept), "{told}");
                    None
                }
            };
            assert_eq!(found, expected, "{namespace:?} {kept}");
        }
    }

    #[test]
    fn clocks_without_a_namespace_are_told_apart_by_what_they_read() {
        let (second, day) = (1_000, 86_400_000);
        // What passed by the clock and by the time of day since the file was written last.
        let table = [
            (0, Some(0), true),
            (-second, Some(0), true),
            (-second - 1, Some(0), false),
            (-day, None, false),
            (60 * second, Some(0), true),
            (60 * second + 1, Some(0), false),
            (day, Some(day), true),
            (day + 60 * second + 1, Some(day), false),
            // The time of day was set forward, or back.
            (second, Some(day), true),
            (second, Some(-day), false),
            // An earlier version of jobq did not keep it.
            (day, None, true),
        ];
        for (passed, by_day, expected) in table {
            let readings = Readings {
                last: 7 * day,
                time_of_day_then: by_day.map(|_| 7 * day),
                now: 7 * day + passed,
                time_of_day: 7 * day + by_day.unwrap_or(passed),
            };
            let unknown = ClockId::new("boot", None).relation("boot", readings);
            assert_eq!(unknown == Relation::Same, expected, "{passed} {by_day:?}");
            if let Relation::Another(another) = unknown {
                let told = another.to_string();
                let values = [readings.last, readings.now].map(|value| value.to_string());
                assert!(values.iter().all(|value| told.contains(value)), "{told}");
            }
            let known = ClockId::new("boot", Some(FIRST_NAMESPACE)).relation("boot", readings);
            assert_eq!(known, Relation::Same, "{passed} {by_day:?}");
        }
    }
}
