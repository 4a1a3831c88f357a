//! Looks at failed jobs: filters from forms, and what those who look at the same time share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use jobq::admin::text::moment;
use jobq::admin::{Cursor, Filter, Groups};
use jobq::{Client, FailedJob, FailedReason, JobId};

use crate::fields::Fields;
use crate::payload::Privacy;
use crate::problem::Problem;
use crate::show::{Time, first_line};

/// The fields of a filter, for forms and links that send it on.
pub(crate) const FIELDS: [&str; 10] = [
    "job", "unnamed", "reason", "error", "pattern", "textless", "from", "until", "pointer", "value",
];

/// The most jobs of a page.
pub(crate) const ROWS: usize = 50;

/// The most characters of an error in a row.
const CHARACTERS: usize = 240;

/// The time for which a look is shared.
const SHARED: Duration = Duration::from_secs(2);
/// The most looks that are kept.
const LOOKS: usize = 32;

/// The filter of a form.
pub(crate) fn filter(fields: &Fields, privacy: &Privacy) -> Result<Filter, Problem> {
    let mut filter = Filter::new();
    // Empty fields of a form are no conditions, so that groups without a name or a text have flags.
    match fields.one("job") {
        Some(job) => filter = filter.job(job),
        None if fields.one("unnamed").is_some() => filter = filter.job(""),
        None => {}
    }
    if let Some(text) = fields.one("reason") {
        let reason = FailedReason::parse(text);
        filter = filter.reason(reason.ok_or_else(|| {
            Problem::invalid(format!("`{text}` is not a failure reason; choose one from the list"))
        })?);
    }
    if let Some(text) = fields.one("error") {
        filter = filter.error(text);
    }
    match fields.exact("pattern").filter(|pattern| !pattern.is_empty()) {
        Some(pattern) => filter = filter.pattern(pattern),
        None if fields.one("textless").is_some() => filter = filter.pattern(""),
        None => {}
    }
    if let Some(text) = fields.one("from") {
        filter = filter.failed_from(moment(text)?);
    }
    if let Some(text) = fields.one("until") {
        filter = filter.failed_until(moment(text)?);
    }
    match (fields.one("pointer"), fields.one("value")) {
        (pointer, Some(json)) => {
            let pointer = pointer.unwrap_or_default();
            privacy.check_pointer(pointer, json)?;
            filter = filter.value(pointer, json)?;
        }
        (Some(pointer), None) => {
            return Err(Problem::invalid(format!(
                "The value at `{pointer}` is missing: write it as JSON, an empty string as `\"\"`."
            )));
        }
        (None, None) => {}
    }
    let ids: Result<Vec<JobId>, _> = fields.all("id").map(str::parse).collect();
    let ids = ids.map_err(|_| Problem::invalid("The job id must be a UUID."))?;
    Ok(if ids.is_empty() { filter } else { filter.ids(ids) })
}

/// A page of failed jobs. It is kept, so it has no payloads.
#[derive(Debug)]
pub(crate) struct Look {
    /// On the first page alone.
    pub(crate) groups: Option<Groups>,
    pub(crate) rows: Vec<Row>,
    pub(crate) matching: u64,
    pub(crate) complete: bool,
    pub(crate) as_of: SystemTime,
    pub(crate) next: Option<Cursor>,
}

/// A failed job of a page.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: JobId,
    pub(crate) job: String,
    pub(crate) reason: FailedReason,
    /// The first line.
    pub(crate) error: String,
    pub(crate) attempts: u32,
    pub(crate) failed_at: Time,
}

impl Row {
    fn of(job: &FailedJob) -> Self {
        Self {
            id: job.id(),
            job: job.name().to_owned(),
            reason: job.reason(),
            error: first_line(job.error(), CHARACTERS),
            attempts: job.attempts(),
            failed_at: Time(job.failed_at()),
        }
    }
}

type Shared = Arc<tokio::sync::Mutex<Option<(Instant, Arc<Look>)>>>;

/// Looks that are shared by those who look at the same at the same time. Each look takes jobs from
/// the broker and gives them back.
#[derive(Debug, Default)]
pub(crate) struct Looks(Mutex<HashMap<String, Shared>>);

impl Looks {
    /// Looks at a page of the failed jobs of a queue. Fields that are none of a filter, ids too, have no
    /// effect.
    pub(crate) async fn look(
        &self,
        client: &Client,
        queue: &str,
        fields: &Fields,
        privacy: &Privacy,
    ) -> Result<Arc<Look>, Problem> {
        let after: Option<Cursor> = fields.one("after").map(str::parse).transpose()?;
        let fields = fields.only(&FIELDS);
        let filter = filter(&fields, privacy)?;
        let shared = self.shared(format!("{queue} {after:?} {}", fields.query()));
        let mut shared = shared.lock().await;
        if let Some((_, look)) = shared.as_ref().filter(|(at, _)| at.elapsed() < SHARED) {
            return Ok(Arc::clone(look));
        }
        let failed = client.failed(queue);
        let groups = match after {
            None => Some(failed.groups(&filter).await?),
            Some(_) => None,
        };
        let page = failed.page(&filter, after, ROWS).await?;
        let look = Arc::new(Look {
            groups,
            rows: page.jobs.iter().map(Row::of).collect(),
            matching: page.matching,
            complete: page.complete,
            as_of: page.as_of,
            next: page.next,
        });
        *shared = Some((Instant::now(), Arc::clone(&look)));
        Ok(look)
    }

    /// Forgets what was seen, since it has changed.
    pub(crate) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn shared(&self, key: String) -> Shared {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if looks.len() >= LOOKS {
            looks.retain(|_, shared| Arc::strong_count(shared) > 1);
        }
        Arc::clone(looks.entry(key).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_made_of_the_fields_of_a_form() {
        let id = JobId::new();
        for (query, expected) in [
            (String::new(), Ok("all".to_owned())),
            ("job=+greet+&reason=aborted".into(), Ok("job `greet`, reason `aborted`".into())),
            ("unnamed=1".into(), Ok("job ``".into())),
            ("unnamed=1&job=greet".into(), Ok("job `greet`".into())),
            ("textless=1".into(), Ok("error like ``".into())),
            (
                "pattern=&textless=1&reason=aborted".into(),
                Ok("reason `aborted`, error like ``".into()),
            ),
            ("pattern=".into(), Ok("all".into())),
            ("error=no+%3C".into(), Ok("error with `no <`".into())),
            ("from=2026-11-27T01:05".into(), Ok("failed from 2026-11-27T01:05:00.000Z".into())),
            ("pointer=/user&value=7".into(), Ok("value at `/user`".into())),
            (format!("id={id}"), Ok(format!("id {id}"))),
            ("reason=tired".into(), Err("not a failure reason")),
            ("from=yesterday".into(), Err("is not a valid time")),
            ("id=7".into(), Err("UUID")),
            ("pointer=user&value=7".into(), Err("JSON pointer")),
            ("pointer=/user&value=+".into(), Err("is missing")),
        ] {
            let made = filter(&Fields::parse(query.as_bytes()), &Privacy::default());
            match (made, expected) {
                (Ok(filter), Ok(expected)) => assert_eq!(filter.to_string(), expected),
                (Err(problem), Err(part)) => assert!(problem.text.contains(part), "{query}"),
                (made, _) => panic!("{query}: {made:?}"),
            }
        }
    }
}
