//! Findings of the [`doctor`](crate::doctor()): settings that weaken the guarantees of jobq.

use std::fmt;

use serde::Serialize;

/// The report on a broker or a file, made by [`doctor`](crate::doctor()). Its display form is a
/// page for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    about: String,
    version: Option<String>,
    findings: Vec<Finding>,
}

impl Report {
    /// A report about a store of this version, for implementations of
    /// [`Engine`](crate::engine::Engine). It sorts findings by severity, the worst first.
    #[must_use]
    pub fn new(
        about: impl Into<String>,
        version: Option<String>,
        mut findings: Vec<Finding>,
    ) -> Self {
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        Self { about: about.into(), version, findings }
    }

    /// The same report with further findings.
    #[cfg(any(feature = "rabbitmq", feature = "sqlite"))]
    pub(crate) fn with(self, more: Vec<Finding>) -> Self {
        Self::new(self.about, self.version, [self.findings, more].concat())
    }

    /// The report on an engine without diagnosis.
    pub(crate) fn unexamined() -> Self {
        let finding = Finding::new(FindingKind::Unchecked, Severity::Warning, "the engine")
            .found("does not support diagnosis");
        Self::new("a custom engine", None, vec![finding])
    }

    /// The version of the broker, such as `4.0.5`, or of SQLite; `None` if unknown.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// The findings, the worst first.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Whether no finding is an [error](Severity::Error).
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
        let version = self.version.as_deref().unwrap_or("unknown version");
        writeln!(f, "{} ({version})", self.about)?;
        self.findings.iter().try_for_each(|finding| writeln!(f, "\n{finding}"))?;
        if self.findings.is_empty() {
            writeln!(f, "\nno problems found")?;
        }
        Ok(())
    }
}

/// One finding of a [`Report`].
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
    /// A version that jobq does not support or was not tested on, that nobody maintains, or that
    /// has a known defect.
    Version,
    /// The broker lacks a type of queues, and jobq uses another one.
    QueueTypes,
    /// The broker takes back a job that runs for too long.
    AckTimeout,
    /// A queue or exchange has other arguments than jobq's.
    Arguments,
    /// A policy limits the length of a queue or the lifetime of jobs or queues, or reroutes jobs.
    Policy,
    /// A queue is missing or in a bad state.
    Queue,
    /// Another client consumes a queue of jobq.
    Consumers,
    /// An exchange or a binding is missing: jobs are not routed.
    Routing,
    /// The broker has one node, or a queue has too few replicas.
    Replicas,
    /// A node is down or cut off.
    Node,
    /// The broker accepts no jobs: an alarm of memory or disk.
    Alarm,
    /// The connection cannot detect a lost peer.
    Heartbeat,
    /// The clock of a pool differs from this machine's.
    Clock,
    /// Jobs need what the workers of a pool lack.
    Needs,
    /// The file is not on a local disk: in memory, or on a network.
    Place,
    /// There is little free space.
    Space,
    /// The file is damaged.
    Damage,
    /// A check failed.
    Unchecked,
}

/// The severity of a [`Finding`], in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Severity {
    /// Information; no action is needed.
    Note,
    /// A guarantee of jobq is weaker than it could be.
    Warning,
    /// A guarantee of jobq does not hold: jobs can be lost, stuck, or run too early.
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

    /// Sets the observation, as a predicate of the subject: `keeps 3 days of jobs`.
    #[must_use]
    pub fn found(mut self, found: impl Into<String>) -> Self {
        self.found = found.into();
        self
    }

    /// Sets the consequence.
    #[must_use]
    pub fn matters(mut self, matters: impl Into<String>) -> Self {
        self.matters = matters.into();
        self
    }

    /// Sets the remedy.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    /// The whole finding in one line.
    pub(crate) fn sentence(&self) -> String {
        let Self { about, found, matters, remedy, .. } = self;
        format!("{about}: {found}; {matters}; {remedy}")
    }

    /// The kind of the finding.
    #[must_use]
    pub fn kind(&self) -> FindingKind {
        self.kind
    }

    /// The severity of the finding.
    #[must_use]
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// The subject: a queue, by its name on the broker, an exchange, a node, a file.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.about
    }

    /// The observation.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.found
    }

    /// The consequence: the guarantee that is weakened.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.matters
    }

    /// The remedy.
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
        assert!(Report::new("SQLite", None, Vec::new()).to_string().contains("no problems found"));
    }
}
