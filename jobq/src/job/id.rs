use std::fmt;
use std::str::FromStr;
#[cfg(feature = "rabbitmq")]
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[cfg(feature = "rabbitmq")]
use super::millis::from_millis;
use crate::error::Error;

/// The namespace of ids derived from a key. It is part of the wire format (`docs/wire.md`): another
/// namespace would change the ids.
const KEYS: Uuid = Uuid::from_u128(0x5b8b_a4b4_9c8e_4b0f_9d5d_6a0b_71f0_c0de);

/// A job's id: a UUID v7, so that ids sort by creation time, or one [derived from a
/// key](Self::of_key).
///
/// It is a label for people and for calls on failed jobs, and is not unique: enqueueing one id
/// twice makes two jobs.
///
/// ```
/// use jobq::JobId;
///
/// let id = JobId::new();
/// assert_eq!(id.to_string().parse::<JobId>()?, id);
/// # Ok::<(), jobq::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(Uuid);

impl JobId {
    /// A new, unique id.
    // A `Default` that differs at each call would surprise.
    #[allow(clippy::new_without_default)]
    #[must_use]
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }

    /// The id derived from a key of the program, such as the number of an order: a UUID v5, the
    /// same in any language (`docs/wire.md` has its namespace). With it the job of an order can be
    /// found among the failed jobs.
    ///
    /// ```
    /// use jobq::JobId;
    ///
    /// assert_eq!(JobId::of_key("order-7").to_string(), "4a337641-9b5d-505b-8e4c-21a71fafd79a");
    /// ```
    #[must_use]
    pub fn of_key(key: &str) -> Self {
        Self(Uuid::new_v5(&KEYS, key.as_bytes()))
    }

    /// The id of a message that has none, from its bytes.
    #[cfg(feature = "rabbitmq")]
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Self(Uuid::new_v5(&KEYS, bytes))
    }

    /// Bits that differ at random from id to id.
    #[cfg(feature = "schedules")]
    pub(crate) fn low_bits(self) -> u64 {
        self.0.as_u64_pair().1
    }

    /// When the id was made, to the millisecond, if it is a UUID v7.
    #[cfg(feature = "rabbitmq")]
    pub(crate) fn made_at(self) -> Option<SystemTime> {
        let mut millis = [0; 8];
        millis[2..].copy_from_slice(&self.as_bytes()[..6]);
        (self.0.get_version_num() == 7).then(|| from_millis(u64::from_be_bytes(millis)))
    }

    /// The 16 bytes of the id.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// The text of [`Display`](fmt::Display), faster: it is written for each message.
    #[cfg(feature = "rabbitmq")]
    pub(crate) fn to_text(self) -> String {
        self.0.hyphenated().encode_lower(&mut Uuid::encode_buffer()).to_owned()
    }

    /// The id with these 16 bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for JobId {
    type Err = Error;

    /// Parses any UUID.
    fn from_str(text: &str) -> Result<Self, Error> {
        Uuid::from_str(text).map(Self).map_err(|source| {
            Error::invalid(format!("`{text}` is not a job id: expected a UUID")).with_source(source)
        })
    }
}
