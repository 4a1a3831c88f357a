//! Reads the page.

use std::fs;
use std::path::Path;

use jobq::JobId;

/// A part of the page that the test acts on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// What somebody does without the command, `<!-- meanwhile: text -->`.
    Meanwhile(String),
    Step(Step),
}

/// A command with what it prints.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) command: String,
    pub(super) output: String,
}

pub(super) fn text() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations.md");
    fs::read_to_string(path).unwrap()
}

/// What the test does, in the order of the page: the commands are in blocks of the language
/// `console`, each after a `$`.
pub(super) fn parts(page: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut is_console = false;
    for line in page.lines() {
        let meanwhile = line.strip_prefix("<!-- meanwhile: ").and_then(|l| l.strip_suffix(" -->"));
        if line.starts_with("```") {
            is_console = line == "```console";
        } else if let Some(direction) = meanwhile {
            parts.push(Part::Meanwhile(direction.to_owned()));
        } else if is_console {
            match (line.strip_prefix("$ "), parts.last_mut()) {
                (Some(command), _) => {
                    parts.push(Part::Step(Step { command: command.to_owned(), ..Step::default() }));
                }
                (None, Some(Part::Step(step))) if step.command.ends_with('\\') => {
                    step.command.pop();
                    step.command += line.trim_start();
                }
                (None, Some(Part::Step(step))) => step.output.extend([line, "\n"]),
                (None, _) => panic!("this line of a console follows no command: {line}"),
            }
        }
    }
    parts
}

/// The ids in a text, in its order.
pub(super) fn ids(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_hexdigit() && c != '-').filter(|word| is_id(word))
}

/// What the page would say of a file of jobs, which has no tiers.
pub(super) fn of_file(output: &str) -> String {
    let is_here =
        |line: &&str| !line.starts_with("mail   due ") && !line.starts_with("mail   tier 30s ");
    let line = |line: &str| line.replace("tier 200ms", "waiting") + "\n";
    output.lines().filter(is_here).map(line).collect()
}

/// A text without what differs from run to run: ids, times, durations, rates, processes, versions,
/// and the widths of columns; and whether a probe has come through yet.
pub(super) fn masked(text: &str) -> String {
    let line = |line: &str| line.split_whitespace().map(mask).collect::<Vec<_>>().join(" ");
    let is_shown = |line: &&str| !line.starts_with("? waits of ");
    text.lines().filter(is_shown).map(|l| line(l) + "\n").collect()
}

fn mask(word: &str) -> String {
    let bare = word.trim_end_matches([',', ':', ')', ';']);
    let end = &word[bare.len()..];
    let mask = if ids(bare).next().is_some() {
        "ID"
    } else if humantime::parse_rfc3339(bare).is_ok() {
        "TIME"
    } else if bare == "-" || is_duration(bare) {
        "DURATION"
    } else if bare.strip_suffix("/min").is_some_and(is_number) {
        "RATE"
    } else if bare.split_once(':').is_some_and(|(host, pid)| !host.is_empty() && is_number(pid)) {
        "HOST:PID"
    } else if bare.split('.').filter(|part| is_number(part)).count() == 3 {
        "VERSION"
    } else {
        bare
    };
    format!("{mask}{end}")
}

fn is_id(word: &str) -> bool {
    word.parse::<JobId>().is_ok()
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_digit())
}

/// Whether it is written as the command writes durations, such as `1.2s` or `3h20m`.
fn is_duration(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
        && word.split_inclusive(char::is_alphabetic).count() > 0
        && word.ends_with(['s', 'm', 'h', 'd'])
        && word
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '.' | 'µ' | 'm' | 's' | 'h' | 'd'))
}

#[test]
fn a_page_has_commands_and_what_happens_meanwhile() {
    let page = "text\n```console\n$ jobq queues\nQUEUE  READY\n$ jobq pause \\\n    mail\n```\n\
                <!-- meanwhile: it rains -->\n```sh\n$ no\n```\n";
    let step = |command: &str, output: &str| {
        Part::Step(Step { command: command.into(), output: output.into() })
    };
    let rain = Part::Meanwhile("it rains".into());
    let expected = [step("jobq queues", "QUEUE  READY\n"), step("jobq pause mail", ""), rain];
    assert_eq!(parts(page), expected);
}

#[test]
fn what_differs_from_run_to_run_is_masked() {
    for (text, expected) in [
        ("mail  112  0/min  -", "mail 112 RATE DURATION"),
        ("web1:4711  0.1.0  3h20m  1.2s", "HOST:PID VERSION DURATION DURATION"),
        ("failed  2030-01-01T08:00:00Z, 850ms ago", "failed TIME, DURATION ago"),
        ("pool 01a21a6e-b2b4-74bc-a3f4-43fa36f842c4: asked", "pool ID: asked"),
        ("2/4  1 lost  10.0.3.7  days  5", "2/4 1 lost 10.0.3.7 days 5"),
    ] {
        assert_eq!(masked(&format!("? waits of mail: none yet\n{text}")), format!("{expected}\n"));
    }
    assert_eq!(ids("a 01a21a6e-b2b4-74bc-a3f4-43fa36f842c4: b").count(), 1);
}
