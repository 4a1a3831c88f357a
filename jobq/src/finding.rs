//! What [`doctor`](crate::doctor()) found: settings that weaken what jobq promises.

use std::fmt;

use serde::Serialize;

/// What a broker or a file was found to be like, made by [`doctor`](crate::doctor()). It
/// prints as a page for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    about: String,
    version: Option<String>,
    findings: Vec<Finding>,
}

impl Report {
    /// A report about a store, of this version, for an [`Engine`](crate::engine::Engine) that can
    /// examine it. The worst findings come first.
    #[must_use]
    pub fn new(
        about: impl Into<String>,
        version: Option<String>,
        mut findings: Vec<Finding>,
    ) -> Self {
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        Self { about: about.into(), version, findings }
    }

    /// The report of an engine that has no doctor.
    pub(crate) fn unexamined() -> Self {
        let finding = Finding::new(FindingKind::Unchecked, Severity::Warning, "the engine")
            .found("it cannot be examined");
        Self::new("an engine of this program's own", None, vec![finding])
    }

    /// The version of the broker, such as `4.0.5`, or of SQLite. `None` where it did not
    /// say.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// What was found, the worst first.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Whether nothing is an [error](Severity::Error).
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.errors().next().is_none()
    }

    /// The findings that are errors.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Error)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.version.as_deref().unwrap_or("of an unknown version");
        writeln!(f, "{} ({version})", self.about)?;
        self.findings.iter().try_for_each(|finding| writeln!(f, "\n{finding}"))?;
        if self.findings.is_empty() {
            writeln!(f, "\nnothing was found that weakens what jobq promises")?;
        }
        Ok(())
    }
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    kind: FindingKind,
    severity: Severity,
    about: String,
    found: String,
    matters: String,
    remedy: String,
}

/// The kinds of [`Finding`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FindingKind {
    /// A version that jobq does not support or was not tested on.
    Version,
    /// The broker takes back a job that runs for too long.
    AckTimeout,
    /// A queue or exchange has other arguments than jobq's.
    Arguments,
    /// A policy limits the length of a queue, or the time that jobs or queues last, or sends
    /// jobs another way.
    Policy,
    /// A queue is not there, or not in order.
    Queue,
    /// An exchange or a binding is not there: jobs do not find their way.
    Routing,
    /// The broker is one node, or a queue is on too few of them.
    Replicas,
    /// A node is down or cut off.
    Node,
    /// The broker takes no jobs: an alarm of memory or disk.
    Alarm,
    /// The connection cannot notice that its other end is gone.
    Heartbeat,
    /// The file is where it is not kept: in memory, or on a network.
    Place,
    /// There is little space left.
    Space,
    /// The file is damaged.
    Damage,
    /// Something could not be looked at.
    Unchecked,
}

/// How much a [`Finding`] matters. A later one is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Severity {
    /// Good to know; nothing has to be done.
    Note,
    /// A promise of jobq holds less far than it could.
    Warning,
    /// A promise of jobq does not hold: jobs can be lost, stuck, or run too early.
    Error,
}

impl Finding {
    /// A finding about this part of a store.
    #[must_use]
    pub fn new(kind: FindingKind, severity: Severity, about: impl Into<String>) -> Self {
        let none = String::new;
        let about = about.into();
        Self { kind, severity, about, found: none(), matters: none(), remedy: none() }
    }

    /// With what was found, as a clause: `it keeps 3 days of jobs`.
    #[must_use]
    pub fn found(mut self, found: impl Into<String>) -> Self {
        self.found = found.into();
        self
    }

    /// With why that matters.
    #[must_use]
    pub fn matters(mut self, matters: impl Into<String>) -> Self {
        self.matters = matters.into();
        self
    }

    /// With what to do.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    /// All of it in one line.
    pub(crate) fn sentence(&self) -> String {
        let Self { about, found, matters, remedy, .. } = self;
        format!("{about}: {found}; {matters}; {remedy}")
    }

    /// What kind of thing it is.
    #[must_use]
    pub fn kind(&self) -> FindingKind {
        self.kind
    }

    /// How much it matters.
    #[must_use]
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// What it is about: a queue, by its name on the broker, an exchange, a node, a file.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.about
    }

    /// What was found.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.found
    }

    /// Why it matters: what is not promised because of it.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.matters
    }

    /// What to do.
    #[must_use]
    pub fn advice(&self) -> &str {
        &self.remedy
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, about, found, matters, remedy, .. } = self;
        write!(f, "{severity}: {about}: {found}")?;
        if !matters.is_empty() {
            write!(f, "\n  why: {matters}")?;
        }
        if !remedy.is_empty() {
            write!(f, "\n  do: {remedy}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_a_page_with_the_worst_first() {
        let finding = |kind, severity, about: &str| {
            Finding::new(kind, severity, about).found("is so").matters("jobs").remedy("this")
        };
        let report = Report::new(
            "RabbitMQ",
            Some("4.3.6".into()),
            vec![
                finding(FindingKind::Unchecked, Severity::Note, "policies"),
                finding(FindingKind::Policy, Severity::Error, "queue `jobq:a`"),
                finding(FindingKind::Replicas, Severity::Warning, "the broker"),
            ],
        );
        assert_eq!(
            report.to_string(),
            "RabbitMQ (4.3.6)\n\nerror: queue `jobq:a`: is so\n  why: jobs\n  do: this\n\n\
             warning: the broker: is so\n  why: jobs\n  do: this\n\n\
             note: policies: is so\n  why: jobs\n  do: this\n"
        );
        assert!(!report.is_sound());
        assert_eq!(report.errors().count(), 1);
        assert!(Report::new("SQLite", None, Vec::new()).to_string().contains("nothing was found"));
    }
}
