//! The changes of a seat's schedules, as messages and rows have them. Pure.

use serde::{Deserialize, Serialize};

use super::spec::Spec;
use crate::job::JobId;

/// The version of changes, lists and positions.
pub(crate) const VERSION: u32 = 1;

/// A change of the schedules of a queue. One that is applied twice does no harm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub(crate) enum Change {
    /// Adds a schedule, or replaces the one of its name.
    Put {
        spec: Spec,
        at_ms: u64,
        by: String,
    },
    /// Adds or renews the schedule of a job whose code has it.
    Code {
        spec: Spec,
        at_ms: u64,
        by: String,
    },
    Remove {
        name: String,
    },
    Pause {
        name: String,
        at_ms: u64,
        by: String,
    },
    Resume {
        name: String,
        at_ms: u64,
    },
    /// Enqueues the job of a schedule once, under this id.
    Run {
        name: String,
        id: JobId,
    },
}

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    v: u32,
    #[serde(flatten)]
    content: T,
}

/// Writes a change, a list or a position.
pub(crate) fn write<T: Serialize>(content: &T) -> Vec<u8> {
    serde_json::to_vec(&Versioned { v: VERSION, content }).unwrap_or_default()
}

/// Reads what [`write`] wrote. The error is for people.
pub(crate) fn read<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, String> {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    let Version { v } = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if v != VERSION {
        return Err(format!("its version is {v}, but this worker supports {VERSION}"));
    }
    let Versioned { content, .. } =
        serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    Ok(content)
}
