//! Addresses of pages: a prefix and a path, and nothing from a request.

use jobq::JobId;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::assets;

/// All but what stands for itself in a segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Makes addresses.
#[derive(Debug, Clone, Default)]
pub(crate) struct Links {
    /// Empty, or with a `/` before it and none behind it.
    prefix: String,
}

impl Links {
    pub(crate) fn new(prefix: &str) -> Self {
        let inner = prefix.trim_matches('/');
        let encoded: Vec<_> = inner.split('/').map(segment).collect();
        let prefix =
            if inner.is_empty() { String::new() } else { format!("/{}", encoded.join("/")) };
        Self { prefix }
    }

    /// The address of a path that begins with `/`.
    pub(crate) fn to(&self, path: &str) -> String {
        // Without a `/` behind the prefix, since `Router::nest` of axum does not take one.
        let path = if path == "/" && !self.prefix.is_empty() { "" } else { path };
        format!("{}{path}", self.prefix)
    }

    pub(crate) fn queue(&self, queue: &str) -> String {
        self.to(&format!("/queues/{}", segment(queue)))
    }

    /// The address of something below a queue.
    pub(crate) fn below_queue(&self, queue: &str, rest: &str) -> String {
        format!("{}/{rest}", self.queue(queue))
    }

    pub(crate) fn failed(&self, queue: &str) -> String {
        self.below_queue(queue, "failed")
    }

    pub(crate) fn failed_job(&self, queue: &str, id: &JobId) -> String {
        self.below_queue(queue, &format!("failed/jobs/{id}"))
    }

    pub(crate) fn stylesheet(&self) -> String {
        self.to(&format!("/assets/{}", assets::STYLESHEET.name()))
    }

    pub(crate) fn script(&self) -> String {
        self.to(&format!("/assets/{}", assets::SCRIPT.name()))
    }

    pub(crate) fn icon(&self) -> String {
        self.to(&format!("/assets/{}", assets::ICON.name()))
    }
}

/// A name as one segment of a path.
pub(crate) fn segment(name: &str) -> String {
    // A lone `.` or `..` would be resolved away.
    match name {
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        _ => utf8_percent_encode(name, SEGMENT).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_may_have_slashes_around_it() {
        for (prefix, queues, queue) in [
            ("", "/", "/queues/mail"),
            ("/", "/", "/queues/mail"),
            ("admin/jobs", "/admin/jobs", "/admin/jobs/queues/mail"),
            ("/admin/jobs/", "/admin/jobs", "/admin/jobs/queues/mail"),
        ] {
            let links = Links::new(prefix);
            assert_eq!((&*links.to("/"), &*links.queue("mail")), (queues, queue), "{prefix}");
        }
    }

    #[test]
    fn a_name_stays_one_segment() {
        for (name, expected) in [
            ("mail.eu-1_x", "mail.eu-1_x"),
            ("a/b?c#d", "a%2Fb%3Fc%23d"),
            ("a\r\nSet-Cookie: x", "a%0D%0ASet-Cookie%3A%20x"),
            ("..", "%2E%2E"),
            ("\"><script>", "%22%3E%3Cscript%3E"),
        ] {
            assert_eq!(segment(name), expected);
        }
    }
}
