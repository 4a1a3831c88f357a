use crate::error::{Error, Result};
use crate::job::JobId;

/// The longest name of a step, in bytes.
const MAX_STEP: usize = 120;

/// A row of the table `jobq_inbox`: a step of a job is done. Made by
/// [`JobContext::mark`](crate::JobContext::mark).
///
/// Two jobs of one id share their marks: a job that is enqueued again with the same
/// [id](crate::Enqueue::id) does nothing twice.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mark {
    /// The namespace of the client.
    pub namespace: String,
    /// The queue.
    pub queue: String,
    /// The name of the job.
    pub name: String,
    /// The id of the job, as text.
    pub job_id: String,
    /// The name of the step.
    pub step: String,
}

impl Mark {
    /// # Errors
    ///
    /// A step without a valid name.
    pub(crate) fn new(
        namespace: &str,
        (queue, name): (&str, &str),
        id: JobId,
        step: &str,
    ) -> Result<Self> {
        if !(1..=MAX_STEP).contains(&step.len()) || step.contains('\0') {
            let shown: String = step.escape_debug().take(64).collect();
            return Err(Error::invalid(format!(
                "`{shown}` is not a valid name of a step; use 1 to {MAX_STEP} bytes without NUL"
            )));
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            queue: queue.to_owned(),
            name: name.to_owned(),
            job_id: id.to_string(),
            step: step.to_owned(),
        })
    }
}

/// What came of marking a step, from `once` of an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a step that was done before must not be done again"]
pub struct Marked {
    is_first: bool,
}

impl Marked {
    /// The answer to [`postgres::MARK`](super::postgres::MARK) or its like, which has affected so many
    /// rows.
    pub fn from_affected(rows: u64) -> Self {
        Self { is_first: rows == 1 }
    }

    /// Whether no committed transaction has done the step: do it now, in the same transaction.
    #[must_use]
    pub fn is_first(self) -> bool {
        self.is_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_a_name() {
        let mark = |step: &str| Mark::new("jobq", ("mail", "send"), JobId::of_key("7"), step);
        assert_eq!(mark("charge").map(|mark| mark.step).unwrap_or_default(), "charge");
        for bad in ["", "a\0", &"x".repeat(121)] {
            assert!(mark(bad).is_err_and(|error| error.is_invalid()), "{bad:?}");
        }
    }
}
