//! The Grafana dashboard and the page on metrics name what the code has.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use jobq::FailedReason;
use jobq::metrics::{self, Kind, Metric};
use serde_json::Value;

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    fs::read_to_string(path).expect("it can be read")
}

/// The metric whose samples have this name.
fn metric(sample: &str) -> Metric {
    let name = ["_bucket", "_sum", "_count"].iter().find_map(|part| sample.strip_suffix(part));
    let known = metrics::ALL.into_iter().find(|metric| match metric.kind {
        Kind::Histogram => name == Some(metric.name),
        _ => sample == metric.name,
    });
    known.unwrap_or_else(|| panic!("no metric has samples named `{sample}`"))
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Checks the values of a label that a query selects, `completed|failed` for example.
fn check_values(label: &str, values: &str) {
    for value in values.split('|') {
        let is_known = match label {
            metrics::RESULT => metrics::RESULTS.contains(&value),
            metrics::OUTCOME => metrics::OUTCOMES.contains(&value),
            metrics::REASON => FailedReason::parse(value).is_some(),
            _ => true,
        };
        assert!(is_known, "the label `{label}` is never `{value}`");
    }
}

/// The metrics of a query, whose labels must be theirs.
fn check(query: &str) -> Vec<Metric> {
    let mut found = Vec::new();
    for (start, _) in query.match_indices("jobq_") {
        if query[..start].ends_with(is_of_name) {
            continue;
        }
        let rest = &query[start..];
        let (sample, rest) = rest.split_at(rest.find(|c| !is_of_name(c)).unwrap_or(rest.len()));
        let metric = metric(sample);
        let selected = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        for matcher in selected.iter().flat_map(|(matchers, _)| matchers.split(',')) {
            let (label, value) = matcher.trim().split_once(['=', '!']).expect("it matches a label");
            assert!(metric.labels.contains(&label), "{sample} has no label `{label}`: {query}");
            check_values(label, value.trim_matches(['=', '~', '"']));
        }
        found.push(metric);
    }
    for group in query.split("by (").skip(1) {
        let (labels, _) = group.split_once(')').expect("it ends");
        for label in labels.split(',').map(str::trim) {
            // The dashboard's variable is either the label or what Prometheus makes of it.
            let label = label.replace("$job_label", metrics::JOB);
            let is_known = found.iter().all(|metric| metric.labels.contains(&&*label));
            let is_bound = label == "le" && found.iter().all(|m| m.kind == Kind::Histogram);
            assert!(is_known || is_bound || label == "instance", "no label `{label}`: {query}");
        }
    }
    found
}

/// All values of this key, at any depth.
fn all<'v>(value: &'v Value, key: &str, found: &mut Vec<&'v str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get(key).and_then(Value::as_str));
            fields.values().for_each(|value| all(value, key, found));
        }
        Value::Array(values) => values.iter().for_each(|value| all(value, key, found)),
        _ => {}
    }
}

#[test]
fn the_dashboard_has_each_metric_with_its_labels() {
    let dashboard: Value = serde_json::from_str(&read("grafana.json")).unwrap();
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 38, "that of Grafana 10");
    let panels = dashboard["panels"].as_array().unwrap();
    let mut used = BTreeSet::new();
    let mut places = BTreeSet::new();
    for panel in panels {
        assert!(places.insert(panel["gridPos"].to_string()), "two panels in one place: {panel}");
        let targets = panel["targets"].as_array();
        assert_eq!(targets.is_none(), panel["type"] == "row", "{panel}");
        for target in targets.into_iter().flatten() {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{target}");
            let found = check(target["expr"].as_str().unwrap());
            assert!(!found.is_empty(), "no metric of jobq: {target}");
            used.extend(found.iter().map(|metric| metric.name));
        }
    }
    for metric in metrics::ALL {
        assert!(used.contains(metric.name), "no panel shows `{}`", metric.name);
    }
    let mut names = Vec::new();
    all(&dashboard["templating"], "name", &mut names);
    assert_eq!(names, ["datasource", "queue", "job_label"]);
    let mut queries = Vec::new();
    all(&dashboard["templating"], "definition", &mut queries);
    assert_eq!(queries.len(), 1);
    for name in queries[0].split(['"', '|']).filter(|part| part.starts_with("jobq_")) {
        assert!(metric(name).labels.contains(&metrics::QUEUE), "{name}");
    }
}

#[test]
fn the_page_describes_each_metric_and_queries_what_is_there() {
    let page = read("metrics.md");
    for Metric { name, kind, labels, .. } in metrics::ALL {
        let kind = format!("{kind:?}").to_lowercase();
        let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
        let row = format!("| `{name}` | {kind} | {} |", labels.join(", ")).replace("|  |", "| |");
        assert!(page.contains(&row), "no row begins with {row}");
    }
    let queries = page.split("```promql\n").skip(1);
    let queries = queries.map(|rest| rest.split("```").next().unwrap_or_default());
    let checked = queries.flat_map(str::lines).filter(|line| !line.starts_with('#'));
    assert!(checked.map(check).filter(|found| !found.is_empty()).count() > 8);
    for value in metrics::OUTCOMES.iter().chain(&metrics::RESULTS) {
        assert!(page.contains(&format!("| `{value}` |")), "`{value}` is not described");
    }
}

#[test]
fn queries_with_other_names_are_found() {
    let good = "sum by (le, instance) (rate(jobq_wait_seconds_bucket{queue=\"a\"}[5m]))";
    assert_eq!(check(good).len(), 1);
    for bad in [
        "jobq_attempt_total",
        "jobq_wait_seconds",
        "jobq_running_bucket",
        "jobq_running{job=\"a\"}",
        "sum by (outcome) (jobq_running)",
        "sum by (le) (jobq_running)",
        "jobq_attempts_total{outcome=~\"completed|done\"}",
        "jobq_failed_total{reason!=\"tired\"}",
    ] {
        assert!(std::panic::catch_unwind(|| check(bad)).is_err(), "{bad}");
    }
}
