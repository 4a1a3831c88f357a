//! The alert rules are loaded by Prometheus' own tool, and fire when they should.

use std::fs;
use std::path::Path;
use std::process::Command;

const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/alerts.yml");

/// Runs `promtool` and gives what it printed.
fn promtool(arguments: &[&str]) -> String {
    let output = Command::new("promtool").args(arguments).output().unwrap_or_else(|error| {
        panic!("promtool cannot be run: {error}; `./tests/run` installs it (Debian: prometheus)")
    });
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    said.into_owned()
}

#[test]
fn prometheus_loads_the_alert_rules() {
    let said = promtool(&["check", "rules", RULES]);
    assert!(said.contains("SUCCESS: 8 rules found"), "{said}");
    let page = fs::read_to_string(Path::new(RULES).with_file_name("operations.md")).unwrap();
    assert!(page.contains("(alerts.yml)"), "the page links to them");
}

/// The series that are scraped, with their values of each minute; an alert; its labels if it fires.
type Night<'n> = (&'n [(&'n str, &'n str)], &'n str, Option<&'n str>);

#[test]
fn each_alert_fires_in_the_night_that_it_is_for() {
    let ready = r#"jobq_queue_jobs{queue="mail", state="ready"}"#;
    let in_flight = r#"jobq_queue_jobs{queue="mail", state="in_flight"}"#;
    let failed = r#"jobq_queue_jobs{queue="mail", state="failed"}"#;
    let pools = r#"jobq_pools{queue="mail"}"#;
    let attempts = r#"jobq_attempts_total{queue="mail", job="send", outcome="completed"}"#;
    // What is scraped for half an hour, the alert, and the labels of one that fires at its end.
    let withheld = r#"jobq_queue_state{queue="mail", state="withheld"}"#;
    let stuck = r#"jobq_waits_stuck{queue="mail", instance="one"}"#;
    let nights: [Night<'_>; 13] = [
        (&[("jobq_up", "1x30")], "JobqDown", None),
        (&[("jobq_up", "1x10")], "JobqDown", Some("severity: page")),
        (&[("jobq_overview_complete", "0x30")], "QueuesUnlisted", Some("severity: warn")),
        (&[(ready, "1x18")], "FigureUnknown", Some("queue: mail, state: ready, severity: warn")),
        (&[(ready, "1x30")], "FigureUnknown", None),
        (&[(pools, "0x30"), (ready, "3x30")], "NobodyWorks", Some("queue: mail, severity: page")),
        (&[(pools, "0x30"), (ready, "0x30")], "NobodyWorks", None),
        (
            &[(ready, "3x30"), (in_flight, "2x30"), (attempts, "9x30")],
            "QueueHangs",
            Some("queue: mail, state: ready, severity: page"),
        ),
        (&[(ready, "3x30"), (in_flight, "2x30"), (attempts, "0+9x30")], "QueueHangs", None),
        (
            &[(withheld, "_x20 1x10")],
            "JobsWithheld",
            Some("queue: mail, state: withheld, severity: page"),
        ),
        (&[(stuck, "0x20 1x10")], "WaitsStuck", Some("queue: mail, severity: page")),
        (&[(stuck, "1x20 0x10")], "WaitsStuck", None),
        (&[(failed, "2x30")], "JobsFailed", Some("queue: mail, state: failed, severity: warn")),
    ];
    let mut tests = "rule_files: [alerts.yml]\nevaluation_interval: 1m\ntests:\n".to_owned();
    for (series, alert, fires) in nights {
        let series = series
            .iter()
            .map(|(name, values)| format!("      - {{series: '{name}', values: '{values}'}}\n"));
        let alerts = fires
            .map(|labels| format!("{{exp_labels: {{{labels}}}, exp_annotations: {{}}}}"))
            .unwrap_or_default();
        tests.extend(std::iter::once("  - interval: 1m\n    input_series:\n".to_owned()));
        tests.extend(series);
        tests.push_str("    alert_rule_test:\n");
        let (alert, alerts) = (format!("alertname: {alert}"), format!("exp_alerts: [{alerts}]"));
        tests.extend([format!("      - {{eval_time: 30m, {alert}, {alerts}}}\n")]);
    }
    // Annotations are texts for people, and not compared.
    let rules = fs::read_to_string(RULES).unwrap();
    let folder = jobq_tests::files::Directory::new();
    let kept: Vec<_> = rules
        .lines()
        .filter(|line| !["annotations:", "summary:"].iter().any(|key| line.trim().starts_with(key)))
        .collect();
    fs::write(folder.file("alerts.yml"), kept.join("\n")).unwrap();
    let path = folder.file("tests.yml");
    fs::write(&path, tests).unwrap();
    promtool(&["test", "rules", path.to_str().unwrap()]);
}
