//! Visits of failed jobs: the part that all engines share.

use super::{Verdict, Visit, Visited};
use crate::error::{Error, Result};
use crate::guard::{self, Guarded, guarded};
use crate::job::FailedJob;

/// A visit in progress: its function and what it has found so far.
pub(crate) struct Visiting {
    visit: Guarded<Visit>,
    pub(crate) visited: Visited,
}

impl Visiting {
    pub(crate) fn new(visit: Visit) -> Self {
        Self { visit: Guarded::new(visit), visited: Visited::new() }
    }

    /// The verdict about the next job. A panic ends the visit.
    pub(crate) fn ask(&mut self, job: FailedJob) -> Verdict {
        self.visited.seen += 1;
        guarded(|| (self.visit.get_mut())(job)).unwrap_or_else(|panic| {
            let text = format!("the function that looks at failed jobs: {}", guard::text(panic));
            self.end(Error::invalid(text));
            Verdict::Enough
        })
    }

    /// There is nothing to look at: the queue does not exist.
    pub(crate) fn missing(&mut self) {
        (self.visited.is_missing, self.visited.complete) = (true, true);
    }

    /// Keeps the first error that ends the visit.
    pub(crate) fn end(&mut self, error: Error) {
        self.visited.end.get_or_insert(error);
    }

    /// The result: an error if it was one before anything was done.
    pub(crate) fn result(self) -> Result<Visited> {
        let visited = self.visited;
        let is_untouched =
            visited.settled.is_empty() && visited.refused.is_empty() && visited.unknown.is_empty();
        match visited.end {
            Some(error) if is_untouched => Err(error),
            end => Ok(Visited { complete: visited.complete && end.is_none(), end, ..visited }),
        }
    }
}

/// Runs an operation to its end even if the caller is dropped.
#[cfg(any(feature = "rabbitmq", feature = "sqlite"))]
pub(crate) async fn run_to_end<T: Send + 'static>(
    operation: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    crate::background::spawn(operation).await.unwrap_or_else(|_| Err(super::closed()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::job::JobId;

    fn visiting() -> Visiting {
        Visiting::new(Box::new(|_| Verdict::Keep))
    }

    #[test]
    fn the_first_error_is_kept() {
        let mut visiting = visiting();
        for kind in [ErrorKind::Connection, ErrorKind::Timeout] {
            visiting.end(Error::new(kind, "no"));
        }
        assert!(visiting.result().unwrap_err().is_connection());
    }

    #[test]
    fn an_error_after_a_settlement_is_part_of_the_result() {
        let fills: [fn(&mut Visited); 3] = [
            |visited| visited.settled.push(JobId::new()),
            |visited| visited.unknown.push(JobId::new()),
            |visited| visited.refused.push((JobId::new(), Error::invalid("no"))),
        ];
        for fill in fills {
            let mut visiting = visiting();
            visiting.end(Error::invalid("no"));
            fill(&mut visiting.visited);
            assert!(visiting.result().unwrap().end.is_some());
        }
        assert!(visiting().result().unwrap().end.is_none());
    }
}
