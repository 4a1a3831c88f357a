//! The outcome of an operation on failed jobs: the exit code, and the reasons why jobs are left. Pure.

use jobq::JobId;
use jobq::admin::{End as OperationEnd, Stop};

use crate::end::End;

/// The end of the command if an id was not found.
pub(super) fn missing(named: u64, matched: u64, end: &OperationEnd) -> Option<(End, String)> {
    match named.saturating_sub(matched) {
        _ if !matches!(end, OperationEnd::Finished) => None,
        0 => None,
        _ if matched == 0 => Some((End::NotFound, "has no such failed job".into())),
        missing => Some((End::Partly, format!("has no failed jobs of {missing} of the ids"))),
    }
}

/// The end of the command after an operation.
pub(super) fn end(end: &OperationEnd, refused: usize, unknown: u64) -> End {
    match end {
        OperationEnd::Finished if refused == 0 && unknown == 0 => End::Done,
        _ => End::Partly,
    }
}

/// The reasons why jobs are left.
pub(crate) fn remarks(end: &OperationEnd, unknown: u64) -> Vec<String> {
    let mut remarks = Vec::new();
    match end {
        OperationEnd::Finished => {}
        OperationEnd::Cancelled => remarks.push("it was cancelled; the others stay failed".into()),
        OperationEnd::Lost(error) => {
            remarks.push(format!("it could not go on: {error}; run it again for the others"));
        }
        OperationEnd::Stopped(stop) => remarks.push(why(stop)),
        _ => remarks.push("it ended early; the others stay failed".into()),
    }
    if unknown > 0 {
        remarks.push(format!(
            "of {unknown} jobs it is unknown whether they were settled, since the connection was \
             lost: they may be failed still, or both"
        ));
    }
    remarks
}

fn why(stop: &Stop) -> String {
    match stop {
        Stop::CanaryFailed(jobs) => {
            let jobs = jobs.iter().map(|(id, reason)| format!("{id} ({reason})"));
            let jobs = jobs.collect::<Vec<_>>().join(", ");
            format!("these canaries failed, and the others stay failed: {jobs}")
        }
        Stop::CanaryUnknown(jobs) => {
            let jobs = jobs.iter().map(JobId::to_string).collect::<Vec<_>>().join(", ");
            format!(
                "nothing was heard of these canaries, and the others stay failed: {jobs}; see \
                 whether a pool works on the queue (`jobq workers`)"
            )
        }
        Stop::FailedAgain(id) => {
            format!("job {id} failed again after it was put back; the others stay failed")
        }
        Stop::TooMany => {
            "there are more failed jobs than one look can see in its time, and more of \
                          them may match, or have failed again"
                .into()
        }
        _ => "it stopped; the others stay failed".into(),
    }
}

#[cfg(test)]
mod tests {
    use jobq::{Error, ErrorKind, FailedReason};

    use super::*;

    #[test]
    fn only_what_is_done_wholly_is_done() {
        let lost = || OperationEnd::Lost(Error::new(ErrorKind::Connection, "gone"));
        for (operation, refused, unknown, expected) in [
            (OperationEnd::Finished, 0, 0, End::Done),
            (OperationEnd::Finished, 1, 0, End::Partly),
            (OperationEnd::Finished, 0, 1, End::Partly),
            (OperationEnd::Cancelled, 0, 0, End::Partly),
            (lost(), 0, 0, End::Partly),
            (OperationEnd::Stopped(Stop::CanaryUnknown(vec![])), 0, 0, End::Partly),
            (OperationEnd::Stopped(Stop::TooMany), 0, 0, End::Partly),
        ] {
            assert_eq!(end(&operation, refused, unknown), expected, "{operation:?}");
            let is_explained = !remarks(&operation, unknown).is_empty() || refused > 0;
            assert_eq!(is_explained, expected == End::Partly, "{operation:?}");
        }
    }

    #[test]
    fn each_job_that_is_named_must_be_found() {
        for (named, matched, operation, expected) in [
            (0, 0, OperationEnd::Finished, None),
            (2, 2, OperationEnd::Finished, None),
            // One id may be that of several jobs.
            (2, 3, OperationEnd::Finished, None),
            (2, 0, OperationEnd::Finished, Some(End::NotFound)),
            (3, 1, OperationEnd::Finished, Some(End::Partly)),
            (3, 1, OperationEnd::Cancelled, None),
        ] {
            let found = missing(named, matched, &operation).map(|(end, _)| end);
            assert_eq!(found, expected, "{named} {matched} {operation:?}");
        }
    }

    #[test]
    fn a_stop_names_the_jobs() {
        let id = JobId::new();
        for stop in [
            Stop::CanaryFailed(vec![(id, FailedReason::Exhausted)]),
            Stop::CanaryUnknown(vec![id]),
            Stop::FailedAgain(id),
        ] {
            assert!(why(&stop).contains(&id.to_string()), "{stop:?}");
        }
    }
}
