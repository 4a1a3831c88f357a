use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::Error;

/// The namespace of the ids that are derived from a key. It is a part of the wire
/// (`docs/wire.md`): another one would give other ids.
const KEYS: Uuid = Uuid::from_u128(0x5b8b_a4b4_9c8e_4b0f_9d5d_6a0b_71f0_c0de);

/// A job's id: a UUID v7, so that ids sort by the time at which they were made, or one that is
/// [derived from a key](Self::of_key).
///
/// It is a label that people and the calls on failed jobs use. It is not a key:
/// enqueueing one id twice gives two jobs.
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
    /// A new id that no other job has.
    // A default that differs at each call would surprise.
    #[allow(clippy::new_without_default)]
    #[must_use]
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }

    /// The id of a key of the program's own, such as the number of an order: the same for the
    /// same key, in any language (a UUID v5; `docs/wire.md` has its namespace). So the job of an
    /// order can be found among the failed ones.
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

    /// The id as its 16 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// The id as [`Display`](fmt::Display) writes it, and as it is asked for of each message:
    /// without the machinery of formatting.
    #[cfg(feature = "rabbitmq")]
    pub(crate) fn to_text(self) -> String {
        self.0.hyphenated().encode_lower(&mut Uuid::encode_buffer()).to_owned()
    }

    /// The id of these 16 bytes.
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

    /// Reads any UUID.
    fn from_str(text: &str) -> Result<Self, Error> {
        Uuid::from_str(text).map(Self).map_err(|source| {
            Error::invalid(format!("`{text}` is no job id: expected a UUID")).because(source)
        })
    }
}
