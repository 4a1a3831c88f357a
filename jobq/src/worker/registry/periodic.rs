//! The schedules in the code of a pool: those of attributes, and of `WorkerPool::cron`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Registered;
use crate::error::{Error, Result};
use crate::guard::{self, guarded};
use crate::job::{Headers, Job, JobOptions, Missed, Periodic, PeriodicTimes, codec};
use crate::schedule::Schedule;
use crate::schedule::spec::Spec;

/// The payloads of periodic jobs: no fields, or no value.
const PAYLOADS: [&str; 2] = ["{}", "null"];

/// The payload with which a job is enqueued without arguments, if its type can be read from one.
pub(in crate::worker) fn payload_of<J: Job>() -> Option<&'static str> {
    let reads = |payload: &&str| codec::decode::<J>(payload.as_bytes()).is_ok();
    match guarded(|| PAYLOADS.into_iter().find(reads)) {
        Ok(found) => found,
        Err(panic) => {
            guard::dispose(panic);
            None
        }
    }
}

/// The schedules of each queue.
pub(in crate::worker) type Specs = BTreeMap<&'static str, Vec<Spec>>;

/// The times that were given to a pool, by the names of their jobs.
#[derive(Debug)]
pub(in crate::worker) struct Periodics {
    given: Vec<(&'static str, Result<Schedule>)>,
    /// Whether the pool enqueues the jobs of schedules.
    pub(in crate::worker) enabled: bool,
}

impl Default for Periodics {
    fn default() -> Self {
        Self { given: Vec::new(), enabled: true }
    }
}

impl Periodics {
    pub(in crate::worker) fn add(&mut self, job: &'static str, times: Result<Schedule>) {
        self.given.push((job, times));
    }

    /// The schedules of each queue; none if the pool enqueues no jobs of schedules.
    ///
    /// # Errors
    ///
    /// Times of a job that the pool does not have, and times, zones and payloads that are not valid.
    pub(in crate::worker) fn specs(&self, jobs: &[Registered]) -> Result<Specs> {
        let is_missing = |name: &str| jobs.iter().all(|job| job.name != name);
        if let Some((job, _)) = self.given.iter().find(|(name, _)| is_missing(name)) {
            return Err(Error::invalid(format!(
                "the pool has times of job `{job}` but not the job; add it with `.register` or \
                 `.handle`"
            )));
        }
        let mut specs = Specs::new();
        for job in jobs {
            if let Some(spec) = self.spec(job)? {
                specs.entry(job.queue).or_default().push(spec);
            }
        }
        Ok(if self.enabled { specs } else { Specs::new() })
    }

    fn spec(&self, job: &Registered) -> Result<Option<Spec>> {
        let name = job.name;
        let wrong =
            |error: Error| Error::invalid(format!("job `{name}`: {error}")).with_source(error);
        let given = self.given.iter().filter(|(of, _)| *of == name).map(|(_, times)| times.clone());
        let given = given.collect::<Result<Vec<_>>>().map_err(wrong)?;
        let periodic = job.options.periodic;
        let (times, zone) = match (&given[..], periodic) {
            ([], None) => return Ok(None),
            ([], Some(periodic)) => (texts(&periodic).map_err(wrong)?, periodic.zone.to_owned()),
            (given, _) => (given.iter().map(Schedule::text).collect(), one_zone(name, given)?),
        };
        let JobOptions { expires, .. } = job.options;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let Some(payload) = (job.empty_payload)() else {
            return Err(Error::invalid(format!(
                "job `{name}` is periodic, but its payload cannot be read from `{{}}`, with which it is \
                 enqueued; give each field a default with `#[serde(default)]`, or make schedules with \
                 payloads by `client.schedule(..)`"
            )));
        };
        let mut headers = Headers::new();
        headers.set_priority(job.options.priority);
        let spec = Spec {
            name: name.to_owned(),
            job: name.to_owned(),
            payload: payload.to_owned(),
            times,
            zone,
            missed: periodic.map_or(Missed::default(), |periodic| periodic.missed),
            jitter_ms: periodic.map_or(0, |periodic| millis(periodic.jitter)),
            expires_ms: expires.map(millis),
            headers: headers.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        };
        spec.check(job.queue).map_err(wrong)?;
        Ok(Some(spec))
    }
}

/// The texts of the times of an attribute.
fn texts(periodic: &Periodic) -> Result<Vec<String>> {
    match periodic.times {
        PeriodicTimes::Cron(expressions) => {
            expressions.iter().map(|text| Ok(Schedule::cron(text)?.text())).collect()
        }
        PeriodicTimes::Every(period) => Ok(vec![Schedule::every(period)?.text()]),
    }
}

/// The zone of the times of a job.
fn one_zone(job: &str, times: &[Schedule]) -> Result<String> {
    let zones: Vec<_> = times.iter().map(Schedule::zone_name).collect();
    match zones.iter().find(|zone| **zone != zones[0]) {
        None => Ok(zones[0].to_owned()),
        Some(other) => Err(Error::invalid(format!(
            "job `{job}` has times in the zones {} and {other}; use one zone, or a job for each",
            zones[0]
        ))),
    }
}
