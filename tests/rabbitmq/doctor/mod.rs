//! The doctor finds what weakens jobq's promises, on real brokers, and a pool
//! does not start where a policy would lose its jobs.

mod consumers;
mod delayed;
mod findings;
mod log;
mod policy;

use std::time::Duration;

use jobq::{Client, FindingKind, Report, Severity};
use jobq_tests::broker::{self, Node, namespace};

/// How long a call may take on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(120);

/// The broker with a management API that the tests share.
struct Place {
    node: &'static Node,
    management: &'static str,
}

impl Place {
    async fn shared(test: &str) -> Option<Self> {
        let (node, management) = broker::shared_with_management(test).await?;
        Some(Self { node, management })
    }

    /// A client in a namespace of its own, which is told of the management API.
    async fn client(&self) -> (Client, String) {
        let namespace = namespace();
        let client = self.client_in(&namespace).await;
        (client, namespace)
    }

    async fn client_in(&self, namespace: &str) -> Client {
        let builder = Client::builder(self.node.url()).namespace(namespace);
        let builder = builder.management(self.management).timeout(PATIENCE);
        builder.connect().await.expect("the broker can be reached")
    }

    /// A client that is not told of it.
    async fn plain_client_in(&self, namespace: &str) -> Client {
        let builder = Client::builder(self.node.url()).namespace(namespace).timeout(PATIENCE);
        builder.connect().await.expect("the broker can be reached")
    }
}

/// What is found on a sound broker of this version beside what a test looks for.
fn expected(report: &Report, others: &[(FindingKind, Severity)]) -> Vec<(FindingKind, Severity)> {
    let mut expected = others.to_vec();
    let is_version = |prefix| report.version().is_some_and(|version| version.starts_with(prefix));
    if is_version("3.10.") {
        expected.push((FindingKind::AckTimeout, Severity::Warning));
    }
    // Of old series, and with a known defect.
    if ["3.10.", "4.0.", "4.3.6"].into_iter().any(is_version) {
        expected.push((FindingKind::Version, Severity::Note));
    }
    sorted(expected)
}

fn found(report: &Report) -> Vec<(FindingKind, Severity)> {
    let findings = report.findings().iter();
    sorted(findings.map(|finding| (finding.kind(), finding.severity())).collect())
}

fn sorted(mut findings: Vec<(FindingKind, Severity)>) -> Vec<(FindingKind, Severity)> {
    findings.sort_by_key(|(kind, severity)| (*severity, format!("{kind:?}")));
    findings
}

const SINGLE_NODE: (FindingKind, Severity) = (FindingKind::Replicas, Severity::Warning);
const UNCHECKED: (FindingKind, Severity) = (FindingKind::Unchecked, Severity::Warning);
