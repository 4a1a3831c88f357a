//! Detection of jobs of one name from two crates: most often two services that share a queue by
//! mistake.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::job::{Envelope, crate_of};

/// The origins of the jobs of one name that a pool has seen.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    first: OnceLock<Arc<str>>,
    is_reported: AtomicBool,
}

impl Origins {
    /// Warns once if jobs come from payload types of two crates.
    pub(crate) fn check(&self, job: &str, envelope: &Envelope) {
        let Some(second) = &envelope.enqueued_by else { return };
        if let Some(first) = self.first_that_differs(second) {
            // Other clients may write line breaks there.
            let (first, second) = (first.escape_debug(), second.escape_debug());
            tracing::warn!(
                job,
                queue = &*envelope.queue,
                "the job is enqueued by {first} and by {second}, from payload types of two crates; \
                 if these are different jobs, give each service a namespace or its jobs other names"
            );
        }
    }

    /// The first origin, if this one names another crate; at most once.
    fn first_that_differs(&self, origin: &Arc<str>) -> Option<&Arc<str>> {
        // Only origins that name a crate can be compared.
        let or_this = || crate_of(origin).map(|_| self.first.get_or_init(|| Arc::clone(origin)));
        let first = self.first.get().or_else(or_this)?;
        let differs = first != origin
            && crate_of(origin).is_some_and(|crate_name| crate_of(first) != Some(crate_name));
        (differs && !self.is_reported.swap(true, Ordering::Relaxed)).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_crate_is_reported_once() {
        let origins = Origins::default();
        let table = [
            ("php", None),
            ("web (shop)", None),
            ("cli (shop)", None),
            ("php", None),
            ("sms (sms)", Some("web (shop)")),
            ("sms (sms)", None),
            ("fax (fax)", None),
        ];
        for (origin, first) in table {
            let found = origins.first_that_differs(&origin.into());
            assert_eq!(found.map(|first| &**first), first, "{origin}");
        }
    }
}
