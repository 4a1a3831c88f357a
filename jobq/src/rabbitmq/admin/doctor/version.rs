//! Findings about the version of a broker: what jobq supports, and known defects of patch levels.
//! Pure.

use std::ops::RangeInclusive;

use super::policy::longest_run;
use crate::finding::{Finding, FindingKind as Kind, Severity};
use crate::rabbitmq::connection::server_properties::{WITH_TIMEOUTS_OF_QUEUES, number};

/// The oldest and the newest version that jobq is tested on.
const OLDEST: (u32, u32) = (3, 10);
const NEWEST: (u32, u32) = (4, 3);
/// The oldest series with public patch releases.
const OLDEST_MAINTAINED: (u32, u32) = (4, 2);

/// Major, minor and patch.
type PatchLevel = (u32, u32, u32);

/// A defect of some patch levels, as the release notes of the one with the fix describe it.
struct Defect {
    versions: &'static [RangeInclusive<PatchLevel>],
    severity: Severity,
    /// The predicate of the finding, after `RabbitMQ 4.3.0`.
    found: &'static str,
    matters: &'static str,
}

/// The defects that concern jobq. Each is fixed in the patch level after the end of each range.
const DEFECTS: [Defect; 4] = [
    Defect {
        versions: &[(4, 2, 6)..=(4, 2, 6), (4, 3, 0)..=(4, 3, 0)],
        severity: Severity::Note,
        found: "lets only users with configure permission look up queues and exchanges",
        matters: "clients with write and read permission alone cannot count jobs, and a pool \
                  does not notice what is deleted",
    },
    Defect {
        versions: &[(4, 2, 0)..=(4, 2, 6), (4, 3, 0)..=(4, 3, 0)],
        severity: Severity::Warning,
        found: "may send the commands of at-least-once dead-lettering to the wrong replica of a \
                queue",
        matters: "after a queue changed its leader, its retries and delayed jobs may wait until \
                  the next change or a restart",
    },
    Defect {
        versions: &[(4, 3, 0)..=(4, 3, 2)],
        severity: Severity::Warning,
        found: "may stop dead-lettering for good after several changes of the replicas of a queue",
        matters: "retries and delayed jobs of the queue then wait until its node restarts",
    },
    Defect {
        versions: &[(4, 3, 0)..=(4, 3, 6)],
        severity: Severity::Note,
        found: "keeps a consumer whose `consumer-timeout` passed, unless its client confirms the \
                end",
        matters: "a queue with a single active consumer, such as jobq's queues of solo runs, may \
                  deliver nothing until that client disconnects",
    },
];

/// The findings about this version.
pub(super) fn version(version: Option<&str>) -> Vec<Finding> {
    let finding = |kind, severity| Finding::new(kind, severity, "the broker");
    let Some(number) = version.and_then(number) else {
        let found = "does not report its version";
        return vec![
            finding(Kind::Version, Severity::Warning)
                .found(found)
                .matters("jobq relies on the quorum queues of RabbitMQ 3.10 and later")
                .remedy("check that it is RabbitMQ 3.10 to 4.3"),
        ];
    };
    let version = version.unwrap_or_default();
    let mut findings = Vec::new();
    if number < OLDEST {
        findings.push(
            finding(Kind::Version, Severity::Error)
                .found(format!("runs RabbitMQ {version}, but jobq needs 3.10 or newer"))
                .matters(
                    "older quorum queues support neither message TTLs nor at-least-once \
                     dead-lettering",
                )
                .remedy("upgrade the broker"),
        );
    } else if number < OLDEST_MAINTAINED {
        findings.push(
            finding(Kind::Version, Severity::Note)
                .found(format!(
                    "runs RabbitMQ {version}, of a series that the RabbitMQ community no longer maintains"
                ))
                .matters("defects of this series stay, also those that concern security")
                .remedy(
                    "plan an upgrade to RabbitMQ 4.2 or newer \
                     (https://www.rabbitmq.com/release-information)",
                ),
        );
    }
    if number > NEWEST {
        findings.push(
            finding(Kind::Version, Severity::Note)
                .found(format!("runs RabbitMQ {version}, but jobq is tested on 3.10 to 4.3"))
                .remedy("check for a newer jobq, and run its tests on this version"),
        );
    }
    if number < WITH_TIMEOUTS_OF_QUEUES {
        findings.push(
            finding(Kind::AckTimeout, Severity::Warning)
                .found(format!(
                    "RabbitMQ {version} has one `consumer_timeout` for all queues (30 minutes by \
                     default) and does not report it; from 3.12 on, jobq's queues request {}",
                    longest_run()
                ))
                .matters("the broker takes back a job that runs longer, and the job runs again")
                .remedy(
                    "for longer jobs, set `consumer_timeout = 86400000` (milliseconds) in \
                     rabbitmq.conf, or upgrade to RabbitMQ 3.12 or newer",
                ),
        );
    }
    findings.extend(defects(version));
    findings
}

/// The known defects of this version.
fn defects(version: &str) -> Vec<Finding> {
    let Some(level) = patch_level(version) else {
        return Vec::new();
    };
    let finding = |defect: &Defect| {
        let (major, minor, last) =
            *defect.versions.iter().find(|range| range.contains(&level))?.end();
        let fixed = format!("{major}.{minor}.{}", last + 1);
        Some(
            Finding::new(Kind::Version, defect.severity, "the broker")
                .found(format!("RabbitMQ {version} {}", defect.found))
                .matters(defect.matters)
                .remedy(format!(
                    "upgrade to RabbitMQ {fixed} or newer \
                     (https://github.com/rabbitmq/rabbitmq-server/releases/tag/v{fixed})"
                )),
        )
    };
    DEFECTS.iter().filter_map(finding).collect()
}

/// Parses `3.10.8`, also in front of a suffix.
fn patch_level(version: &str) -> Option<PatchLevel> {
    let (major, minor) = number(version)?;
    let patch = version.split(['.', '-', '+']).nth(2)?.parse().ok()?;
    Some((major, minor, patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The patch levels that fix what is found, by the releases that the remedies link to.
    fn fixed_in(version: &str) -> Vec<String> {
        let fixed = |finding: Finding| {
            let link = finding.advice().split_once("/releases/tag/v")?.1;
            let fix = link.trim_end_matches(')').to_owned();
            assert!(finding.advice().contains(&format!("upgrade to RabbitMQ {fix} ")), "{finding}");
            assert!(finding.what().contains(version) && !finding.why().is_empty(), "{finding}");
            Some(fix)
        };
        super::version(Some(version)).into_iter().filter_map(fixed).collect()
    }

    #[test]
    fn a_defect_is_named_on_its_patch_levels_alone() {
        let table: [(&str, &[&str]); 17] = [
            ("3.10.8", &[]),
            ("4.0.5", &[]),
            ("4.1.8", &[]),
            ("4.2.0", &["4.2.7"]),
            ("4.2.5", &["4.2.7"]),
            // Looking up, and dead-lettering.
            ("4.2.6", &["4.2.7", "4.2.7"]),
            ("4.2.7", &[]),
            ("4.2.9", &[]),
            ("4.3.0", &["4.3.1", "4.3.1", "4.3.3", "4.3.7"]),
            ("4.3.0-rc.1", &["4.3.1", "4.3.1", "4.3.3", "4.3.7"]),
            ("4.3.1", &["4.3.3", "4.3.7"]),
            ("4.3.2+1.gabcdef", &["4.3.3", "4.3.7"]),
            ("4.3.3", &["4.3.7"]),
            ("4.3.6", &["4.3.7"]),
            ("4.3.7", &[]),
            ("4.4.0", &[]),
            ("4.3", &[]),
        ];
        for (version, expected) in table {
            assert_eq!(fixed_in(version), expected, "{version}");
        }
    }

    #[test]
    fn a_series_without_patch_releases_is_told_once() {
        let told = |version: &str| {
            let found = super::version(Some(version));
            let old = |found: &&Finding| found.what().contains("no longer maintains");
            let old: Vec<_> = found.iter().filter(old).map(Finding::severity).collect();
            old
        };
        for old in ["3.10.8", "3.13.7", "4.0.5", "4.1.8"] {
            assert_eq!(told(old), [Severity::Note], "{old}");
        }
        // A version that jobq does not support is an error.
        for other in ["3.9.29", "4.2.0", "4.3.6", "4.4.0", "5.0.0"] {
            assert_eq!(told(other), [], "{other}");
        }
    }

    #[test]
    fn patch_levels_are_read() {
        let table = [
            ("3.10.8", Some((3, 10, 8))),
            ("4.3.0-rc.1", Some((4, 3, 0))),
            ("4.3.6+2", Some((4, 3, 6))),
            ("4.3", None),
            ("4.3.x", None),
            ("", None),
        ];
        for (version, expected) in table {
            assert_eq!(patch_level(version), expected, "{version}");
        }
    }
}
