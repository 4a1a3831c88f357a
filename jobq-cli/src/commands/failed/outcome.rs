//! The exit code of an operation on failed jobs. Pure.

use jobq::admin::End as OperationEnd;

use crate::end::End;

/// The end of the command if an id was not found.
pub(super) fn missing(named: u64, matched: u64, end: &OperationEnd) -> Option<(End, String)> {
    match named.saturating_sub(matched) {
        _ if !matches!(end, OperationEnd::Finished) => None,
        0 => None,
        _ if matched == 0 => Some((End::NotFound, "has no such failed job".into())),
        missing => Some((End::Partly, format!("has no failed jobs with {missing} of the ids"))),
    }
}

/// The end of the command after an operation.
pub(super) fn end(end: &OperationEnd, refused: usize, unknown: u64) -> End {
    match end {
        OperationEnd::Finished if refused == 0 && unknown == 0 => End::Done,
        _ => End::Partly,
    }
}

#[cfg(test)]
mod tests {
    use jobq::admin::Stop;
    use jobq::{Error, ErrorKind};

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
}
