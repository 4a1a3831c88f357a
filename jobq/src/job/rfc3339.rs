//! Times as RFC 3339 text in UTC, with milliseconds.

use std::time::SystemTime;

use serde::{Deserialize, Deserializer, Serializer, de};

pub(crate) fn format(time: SystemTime) -> String {
    // A time that RFC 3339 cannot express is shown as the nearest one, and never panics.
    let time = super::from_millis(super::to_millis(time).min(LAST));
    humantime::format_rfc3339_millis(time).to_string()
}

/// The last millisecond of the year 9999.
const LAST: u64 = 253_402_300_799_999;

pub(crate) fn serialize<S: Serializer>(
    time: &SystemTime,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format(*time))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<SystemTime, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_rfc3339(&text).map_err(de::Error::custom)
}

/// The same for times that may be missing.
pub(crate) mod option {
    use std::time::SystemTime;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    // The signature is that of `serde(with)`.
    #[allow(clippy::ref_option)]
    pub(crate) fn serialize<S: Serializer>(
        time: &Option<SystemTime>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(super::format).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<SystemTime>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| humantime::parse_rfc3339(&text).map_err(de::Error::custom)).transpose()
    }
}
