//! Pages of failed jobs. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use serde::{Serialize, Serializer};

use super::Filter;
use crate::error::Error;
use crate::job::{FailedJob, JobId, from_millis, rfc3339, to_millis};

/// A page of failed jobs, oldest first, from [`FailedJobs::page`](crate::FailedJobs::page).
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Page<T> {
    /// The jobs.
    pub jobs: Vec<T>,
    /// Where the next page begins. `None` if this is the last, or has no jobs because the limit is
    /// 0.
    pub next: Option<Cursor>,
    /// How many jobs match on this page and all further ones.
    pub matching: u64,
    /// Whether all failed jobs were looked at. The first page without a filter looks at the oldest
    /// thousand alone, so that it comes at once, and `matching` is then the number of these.
    pub complete: bool,
    /// When the jobs were looked at.
    #[serde(with = "rfc3339")]
    pub as_of: SystemTime,
}

/// A position among failed jobs: the end of a [`Page`]. It stays valid when jobs before it are
/// retried or discarded.
///
/// It is opaque: its text form has no meaning but for [`FromStr`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    failed_at: u64,
    id: JobId,
    /// Jobs of one id that failed at the same time are told apart by their order.
    ordinal: u64,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { failed_at, id, ordinal } = self;
        write!(f, "{failed_at:x}.{id}.{ordinal:x}")
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parsed = || {
            let mut parts = text.split('.');
            let (failed_at, id, ordinal) = (parts.next()?, parts.next()?, parts.next()?);
            let number = |part| u64::from_str_radix(part, 16).ok();
            parts.next().is_none().then_some(())?;
            Some(Self {
                failed_at: number(failed_at)?,
                id: id.parse().ok()?,
                ordinal: number(ordinal)?,
            })
        };
        parsed().ok_or_else(|| {
            Error::invalid(format!(
                "`{text}` is not a valid cursor: expected the `next` value of a page; start from \
                 the first page"
            ))
        })
    }
}

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The most bytes of payloads on a page. One job may have more.
const MAX_BYTES: usize = 64 << 20;

/// Collects a page from jobs that come in any order.
#[derive(Debug)]
pub(super) struct Paging {
    filter: Filter,
    after: Option<Cursor>,
    limit: usize,
    /// Those with the smallest keys so far, at most `limit`.
    jobs: BTreeMap<Cursor, FailedJob>,
    /// The sum of their payloads.
    bytes: usize,
    /// Whether jobs with larger keys are left out.
    is_full: bool,
    /// How many jobs of one id and time were seen, of those that may be on the page.
    equals: BTreeMap<(u64, JobId), u64>,
    matching: u64,
}

impl Paging {
    pub(super) fn new(filter: Filter, after: Option<Cursor>, limit: usize) -> Self {
        let (jobs, equals) = (BTreeMap::new(), BTreeMap::new());
        let (bytes, is_full, matching) = (0, limit == 0, 0);
        Self { filter, after, limit, jobs, bytes, is_full, equals, matching }
    }

    pub(super) fn add(&mut self, job: FailedJob) {
        if !self.filter.matches(&job) {
            return;
        }
        let (failed_at, id) = (to_millis(job.failed_at()), job.id());
        if self.after.is_some_and(|after| (failed_at, id) < (after.failed_at, after.id)) {
            return;
        }
        if self.is_beyond((failed_at, id)) {
            self.matching += 1;
            return;
        }
        let equals = self.equals.entry((failed_at, id)).or_default();
        let key = Cursor { failed_at, id, ordinal: *equals };
        *equals += 1;
        if self.after.is_some_and(|after| key <= after) {
            return;
        }
        self.matching += 1;
        if self.last().is_some_and(|last| key > last) {
            return;
        }
        self.bytes += job.payload_bytes().len();
        self.jobs.insert(key, job);
        while self.jobs.len() > self.limit || (self.bytes > MAX_BYTES && self.jobs.len() > 1) {
            let left_out = self.jobs.pop_last();
            self.bytes -= left_out.map_or(0, |(_, job)| job.payload_bytes().len());
            self.is_full = true;
        }
        while let Some((equal, _)) = self.equals.last_key_value()
            && self.is_beyond(*equal)
        {
            self.equals.pop_last();
        }
    }

    /// The last job of the page, if it is full: without jobs, the one that it begins after.
    fn last(&self) -> Option<Cursor> {
        let last = self.jobs.last_key_value().map(|(key, _)| *key).or(self.after);
        last.filter(|_| self.is_full)
    }

    /// Whether jobs of this time and id come after the page, which is full.
    fn is_beyond(&self, (failed_at, id): (u64, JobId)) -> bool {
        self.is_full && self.last().is_none_or(|last| (failed_at, id) > (last.failed_at, last.id))
    }

    pub(super) fn page(self, complete: bool, as_of: SystemTime) -> Page<FailedJob> {
        let is_last = complete && self.matching <= self.jobs.len() as u64;
        let last = self.jobs.last_key_value().map(|(key, _)| *key);
        Page {
            next: last.filter(|_| !is_last),
            jobs: self.jobs.into_values().collect(),
            matching: self.matching,
            complete,
            as_of: from_millis(to_millis(as_of)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Envelope, FailedReason};

    fn job(id: JobId, at: u64, error: &str) -> FailedJob {
        let mut envelope = Envelope::new("mail", Vec::new());
        envelope.id = id;
        FailedJob::new(envelope, 1, FailedReason::Exhausted, error.into(), from_millis(at))
    }

    fn large(id: JobId, at: u64, bytes: usize) -> FailedJob {
        let mut envelope = Envelope::new("mail", vec![b'1'; bytes]);
        envelope.id = id;
        FailedJob::new(envelope, 1, FailedReason::Exhausted, "match".into(), from_millis(at))
    }

    fn page(jobs: &[FailedJob], after: Option<Cursor>, limit: usize) -> Page<FailedJob> {
        let mut paging = Paging::new(Filter::new().error("match"), after, limit);
        jobs.iter().cloned().for_each(|job| paging.add(job));
        paging.page(true, from_millis(9))
    }

    #[test]
    fn pages_have_each_matching_job_once_in_order() {
        let ids: Vec<_> = (0..4).map(|_| JobId::new()).collect();
        let jobs = [
            job(ids[3], 30, "match f"),
            job(ids[0], 10, "match a"),
            job(ids[1], 20, "no"),
            job(ids[2], 20, "match c"),
            job(ids[1], 20, "match b"),
            job(ids[2], 20, "match d"),
            job(ids[2], 20, "match e"),
        ];
        for limit in 1..8 {
            let (mut errors, mut after, mut left) = (String::new(), None, 6);
            loop {
                let page = page(&jobs, after, limit);
                assert_eq!(page.matching, left, "limit {limit}");
                assert!(page.jobs.len() <= limit);
                left -= page.jobs.len() as u64;
                errors.extend(page.jobs.iter().filter_map(|job| job.error().chars().last()));
                let Some(next) = page.next else { break };
                assert_eq!(next.to_string().parse::<Cursor>().unwrap(), next);
                after = Some(next);
            }
            assert_eq!(errors, "abcdef", "limit {limit}");
        }
    }

    #[test]
    fn a_page_without_jobs_counts_those_that_match() {
        let ids: Vec<_> = (0..3).map(|_| JobId::new()).collect();
        let jobs = [
            job(ids[0], 10, "match a"),
            job(ids[1], 20, "match b"),
            job(ids[1], 20, "match c"),
            job(ids[2], 30, "no"),
        ];
        let first = page(&jobs, None, 2).next;
        for (after, matching) in [(None, 3), (first, 1)] {
            let page = page(&jobs, after, 0);
            assert!(page.jobs.is_empty() && page.next.is_none(), "{page:?}");
            assert_eq!(page.matching, matching);
        }
    }

    #[test]
    fn the_memory_of_a_page_is_bounded_by_its_limit() {
        let ids: Vec<_> = (0..50).map(|_| JobId::new()).collect();
        let up = (0..50).map(|at| (at, ids[at]));
        for order in [up.clone().collect::<Vec<_>>(), up.rev().collect()] {
            let mut paging = Paging::new(Filter::new(), None, 5);
            for (at, id) in order {
                paging.add(job(id, at as u64, ""));
                assert!(paging.equals.len() <= 5 && paging.jobs.len() <= 5, "{paging:?}");
            }
            let page = paging.page(true, from_millis(9));
            let first: Vec<_> = page.jobs.iter().map(FailedJob::id).collect();
            assert_eq!((first, page.matching), (ids[..5].to_vec(), 50));
        }
    }

    #[test]
    fn the_payloads_of_a_page_are_bounded() {
        let (one, other) = (JobId::new(), JobId::new());
        let mib = |id, at, count: usize| large(id, at, count << 20);
        // Among them such as would fit behind one that does not.
        let jobs = [
            mib(one, 30, 1),
            mib(one, 20, 40),
            mib(one, 10, 30),
            mib(other, 40, 65),
            mib(one, 20, 20),
            mib(other, 50, 1),
            mib(one, 20, 2),
        ];
        let (mut pages, mut after) = (Vec::<Vec<_>>::new(), None);
        loop {
            let page = page(&jobs, after, 5);
            pages.push(page.jobs.iter().map(|job| job.payload_bytes().len() >> 20).collect());
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(pages, [vec![30], vec![40, 20, 2, 1], vec![65], vec![1]]);
    }

    #[test]
    fn a_page_that_is_not_complete_has_a_next_one() {
        let mut paging = Paging::new(Filter::new(), None, 5);
        paging.add(job(JobId::new(), 1, ""));
        assert!(paging.page(false, from_millis(9)).next.is_some());
        let empty = Paging::new(Filter::new(), None, 5).page(true, from_millis(9));
        assert!(empty.next.is_none() && empty.jobs.is_empty());
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        let id = JobId::new();
        for text in
            ["", "7", "7.x.0", &format!("7.{id}"), &format!("x.{id}.0"), &format!("7.{id}.0.0")]
        {
            let error = text.parse::<Cursor>().unwrap_err();
            assert!(
                error.is_invalid() && error.to_string().contains("is not a valid cursor"),
                "{text}"
            );
        }
    }
}
