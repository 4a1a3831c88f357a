//! Times in whole milliseconds since 1970, for headers and files.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Serialize as _, Serializer};

/// Milliseconds since 1970; 0 for a time before it.
pub(crate) fn to_millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The time this many milliseconds after 1970, at most the year 10,000.
pub(crate) fn from_millis(millis: u64) -> SystemTime {
    const YEAR_10_000: u64 = 253_402_300_800_000;
    UNIX_EPOCH + Duration::from_millis(millis.min(YEAR_10_000))
}

/// Serializes a time as milliseconds since 1970.
pub(crate) fn serialize<S: Serializer>(
    time: &SystemTime,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(to_millis(*time))
}

/// Serializes a time that may be missing.
// The signature is that of `serde(with)`.
#[allow(clippy::ref_option)]
pub(crate) fn option<S: Serializer>(
    time: &Option<SystemTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    time.map(to_millis).serialize(serializer)
}

/// Durations in whole milliseconds.
pub(crate) mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    fn whole(duration: Duration) -> u64 {
        u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(whole(*duration))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }

    /// The same for durations that may be missing.
    pub(crate) mod option {
        use std::time::Duration;

        use serde::{Deserialize, Deserializer, Serialize, Serializer};

        // The signature is that of `serde(with)`.
        #[allow(clippy::ref_option)]
        pub(crate) fn serialize<S: Serializer>(
            duration: &Option<Duration>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            duration.map(super::whole).serialize(serializer)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<Duration>, D::Error> {
            Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
        }
    }
}
