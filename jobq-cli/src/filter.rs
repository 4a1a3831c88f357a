//! The options that select failed jobs.

use std::time::SystemTime;

use clap::Args;
use jobq::admin::Filter;
use jobq::admin::text::moment;
use jobq::{FailedReason, JobId};

use crate::end::Problem;
use crate::options::with;

/// All conditions must hold.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Which failed jobs (all that is given must hold)")]
pub(crate) struct FilterOptions {
    /// Jobs with this name
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Jobs that failed for this reason, such as `exhausted` or `aborted`
    #[arg(long, value_parser = reason)]
    reason: Option<FailedReason>,
    /// Jobs whose error contains this text
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Jobs of one group, by its ERROR in `jobq failed groups`
    #[arg(long, value_name = "ERROR")]
    pattern: Option<String>,
    /// Jobs that failed since this time, by the clock of the worker, such as 2030-01-01T08:00:00Z,
    /// or `2h` for two hours ago
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<SystemTime>,
    /// Jobs that failed until this time, or this long ago, by the clock of the worker
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<SystemTime>,
    /// Jobs whose payload has this value at a JSON pointer, such as `/user/id=7` or
    /// `/user/name=ann`. Can be repeated
    #[arg(long = "value", value_name = "POINTER=VALUE")]
    values: Vec<String>,
    /// Jobs with this id. Can be repeated
    #[arg(long = "id")]
    ids: Vec<JobId>,
}

impl FilterOptions {
    /// The filter.
    pub(crate) fn filter(&self) -> Result<Filter, Problem> {
        let mut filter = with(Filter::new(), self.job.as_ref(), Filter::job);
        filter = with(filter, self.reason, Filter::reason);
        filter = with(filter, self.error.as_ref(), Filter::error);
        filter = with(filter, self.pattern.as_ref(), Filter::pattern);
        filter = with(filter, self.since, Filter::failed_from);
        filter = with(filter, self.until, Filter::failed_until);
        if !self.ids.is_empty() {
            filter = filter.ids(self.ids.iter().copied());
        }
        for value in &self.values {
            filter = filter.value_from(value)?;
        }
        Ok(filter)
    }
}

fn reason(text: &str) -> Result<FailedReason, String> {
    FailedReason::parse(text).ok_or_else(|| {
        let all: Vec<_> = FailedReason::all().map(FailedReason::as_str).collect();
        format!("expected one of {}", all.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        filter: FilterOptions,
    }

    fn filter(arguments: &[&str]) -> Result<Filter, String> {
        let line = Line::try_parse_from([&["x"], arguments].concat());
        let line = line.map_err(|error| error.to_string())?;
        line.filter.filter().map_err(|problem| problem.to_string())
    }

    #[test]
    fn options_are_conditions() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_893_484_800);
        let id = JobId::new();
        let new = Filter::new;
        let table: [(&[&str], Filter); 8] = [
            (&[], new()),
            (&["--job", "pay"], new().job("pay")),
            (&["--reason", "unknown-job"], new().reason(FailedReason::UnknownJob)),
            (&["--error", "refused"], new().error("refused")),
            (&["--pattern", "user #"], new().pattern("user #")),
            (&["--since", "2030-01-01T08:00:00Z"], new().failed_from(time)),
            (&["--until", "2030-01-01 08:00:00"], new().failed_until(time)),
            (&["--id", &id.to_string()], new().ids([id])),
        ];
        for (arguments, expected) in table {
            assert_eq!(filter(arguments).unwrap(), expected, "{arguments:?}");
        }
        let values = filter(&["--value", "/name=a=b", "--value", "/id=7"]).unwrap();
        let expected = new().value("/name", r#""a=b""#).unwrap().value("/id", "7").unwrap();
        assert_eq!(values, expected);
    }

    #[test]
    fn mistakes_say_what_is_expected() {
        for (arguments, said) in [
            (["--reason", "tired"], "exhausted, aborted"),
            (["--since", "yesterday"], "such as `2h`"),
            (["--value", "/id"], "such as `/user/id=7`"),
            (["--value", "id=7"], "is not a JSON pointer"),
            (["--id", "7"], "7"),
        ] {
            let error = filter(&arguments).unwrap_err();
            assert!(error.contains(said), "{arguments:?}: {error}");
        }
    }
}
