use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::Error;

/// A job's id: a UUID v7, so that ids sort by the time at which they were made.
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
