//! `docs/logs.md` has each line that jobq writes, with its level and its fields.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A level, a text and the names of the fields.
type Line = (String, String, Vec<String>);

/// The fields of each line of a job.
const OF_A_JOB: [&str; 4] = ["job", "id", "queue", "attempt"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The code below a folder, but for tests and the shop of the demonstration.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| if path.is_dir() { sources(&path) } else { vec![path] };
    let is_code = |path: &PathBuf| {
        let name = path.to_string_lossy();
        name.ends_with(".rs") && !name.ends_with("_tests.rs") && !name.ends_with("/demo.rs")
    };
    entries.flat_map(below).filter(is_code).collect()
}

/// The arguments of a macro, from the text behind its opening bracket.
fn arguments(text: &str) -> Vec<String> {
    let (mut found, mut depth, mut in_text, mut is_escaped) =
        (vec![String::new()], 1, false, false);
    for c in text.chars() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if in_text => is_escaped = true,
            '"' => in_text = !in_text,
            _ if in_text => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 1 => {
                found.push(String::new());
                continue;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
        found.last_mut().unwrap().push(c);
    }
    found.into_iter().map(|argument| argument.trim().to_owned()).collect()
}

/// A literal as the text that it means.
fn unquoted(literal: &str) -> String {
    let mut lines = literal.trim_matches('"').split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |text, line| text + line.trim_start())
}

/// The lines that the code of a file writes.
fn written(code: &str) -> Vec<Line> {
    let code = code.split("#[cfg(test)]").next().unwrap_or_default();
    let mut lines = Vec::new();
    for level in ["error", "warn", "info", "debug", "trace"] {
        for (place, opening) in code.match_indices(&format!("tracing::{level}!(")) {
            let arguments = arguments(&code[place + opening.len()..]);
            let text = arguments.iter().position(|argument| argument.starts_with('"')).unwrap();
            let is_field = |argument: &&String| !argument.starts_with("target:");
            let fields = arguments[..text].iter().filter(is_field).map(|argument| {
                let name = argument.split('=').next().unwrap_or_default();
                let name = name.trim().trim_start_matches(['%', '?']);
                name.rsplit('.').next().unwrap_or_default().to_owned()
            });
            lines.push((level.to_owned(), unquoted(&arguments[text]), fields.collect()));
        }
    }
    lines
}

/// The lines in the tables of the page.
fn documented(page: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    for section in page.split("\n## ") {
        let is_of_jobs = section.starts_with("Jobs\n");
        for row in section.lines().filter(|line| line.starts_with("| ")) {
            let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [level, text, fields] = cells[..] else { continue };
            if level == "level" {
                continue;
            }
            let of_a_job = OF_A_JOB.iter().filter(|_| is_of_jobs).map(|name| (*name).to_owned());
            let named = fields.split(", ").map(|name| name.trim_matches('`').to_owned());
            let fields = of_a_job.chain(named.filter(|name| !name.is_empty())).collect();
            lines.push((level.to_owned(), text.to_owned(), fields));
        }
    }
    lines
}

#[test]
fn the_page_has_each_line_of_the_code_and_no_other() {
    let crates = ["jobq/src", "jobq-cli/src", "jobq-dashboard/src", "jobq-opentelemetry/src"];
    let crates = crates.map(|folder| root().join(folder));
    let files = crates.iter().flat_map(|folder| sources(folder));
    let code: BTreeSet<_> =
        files.flat_map(|file| written(&fs::read_to_string(file).unwrap())).collect();
    let page = documented(&fs::read_to_string(root().join("docs/logs.md")).unwrap());
    let unique: BTreeSet<_> = page.iter().cloned().collect();
    assert_eq!(unique.len(), page.len(), "a line is there twice");
    let missing: Vec<_> = code.difference(&unique).collect();
    let stale: Vec<_> = unique.difference(&code).collect();
    assert!(missing.is_empty(), "docs/logs.md lacks {missing:#?}");
    assert!(stale.is_empty(), "docs/logs.md has what no code writes: {stale:#?}");
    assert!(code.len() > 50, "the code was found");
}

#[test]
fn a_line_is_read_as_it_is_written() {
    let code = r#"
        tracing::warn!(%job, ?error, limit = limit.get(1, "a"), self.name, "text, with \
            \"more\" of {it}", it);
        tracing::info!("short");
        tracing::debug!(queue = name, "again");
        #[cfg(test)]
        mod tests { tracing::info!("not of the code"); }
    "#;
    let line = |level: &str, text: &str, fields: &[&str]| -> Line {
        (level.into(), text.into(), fields.iter().map(|name| (*name).to_owned()).collect())
    };
    let expected = [
        line("warn", r#"text, with \"more\" of {it}"#, &["job", "error", "limit", "name"]),
        line("info", "short", &[]),
        line("debug", "again", &["queue"]),
    ];
    assert_eq!(written(code), expected);
}
