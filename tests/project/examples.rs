//! The examples show what the README says that they show; those that take a URL, on both engines.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use jobq_tests::broker;
use jobq_tests::files::Directory;

/// The example that is a package of its own.
const QUICKSTART: &str = "quickstart";

/// Runs an example that takes a URL, on a file without one, and gives its lines without their
/// times.
fn run(example: &str, url: Option<&str>) -> Vec<String> {
    let (lines, has_file) = output(example, url);
    assert_eq!(has_file, url.is_none());
    lines
}

/// Runs an example whose jobs are in memory and gives its lines without their times.
fn run_in_memory(example: &str) -> Vec<String> {
    let (lines, has_file) = output(example, None);
    assert!(!has_file);
    lines
}

/// Runs an example in a folder of its own, and gives its lines and whether it made a job file.
fn output(example: &str, url: Option<&str>) -> (Vec<String>, bool) {
    let folder = Directory::new();
    let output = command(example, &folder, url).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| without_time(line).to_owned()).collect();
    (lines, folder.path().join("jobq.db").exists())
}

/// Runs an example in this folder.
pub(crate) fn command(example: &str, folder: &Directory, url: Option<&str>) -> Command {
    let mut command = if example == QUICKSTART {
        // With another example: alone it would compile its packages with other features, once more.
        let build = cargo(&["build", "--bin", QUICKSTART, "--example", "events"]).status();
        assert!(build.expect("cargo runs").success());
        Command::new(built(QUICKSTART))
    } else {
        cargo(&["run", "--example", example])
    };
    command.current_dir(folder.path()).env_remove("JOBQ_URL");
    if let Some(url) = url {
        command.env("JOBQ_URL", url);
    }
    command
}

/// A program that Cargo has built beside this one.
fn built(program: &str) -> PathBuf {
    let this = env::current_exe().expect("this program has a path");
    let target = this.ancestors().nth(3).expect("it is in `target/debug/deps`");
    target.join("debug").join(program)
}

fn cargo(arguments: &[&str]) -> Command {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).args(["--quiet", "--locked", "--manifest-path"]).arg(manifest);
    // `ring` is built anew, and all that uses it, where Cargo finds variables of another package.
    for (name, _) in env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG_")) {
        command.env_remove(name);
    }
    command.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_MANIFEST_LINKS");
    command
}

/// A line without the time before it, such as `[ 0.5 s] `.
fn without_time(line: &str) -> &str {
    let timed = line.strip_prefix('[').and_then(|line| line.split_once("] "));
    timed.map_or(line, |(_, line)| line)
}

/// The place of a line among these, where it must be once.
fn place(lines: &[String], line: &str) -> usize {
    let mut found = lines.iter().enumerate().filter(|(_, found)| *found == line);
    let (Some((place, _)), None) = (found.next(), found.next()) else {
        panic!("not once {line:?} in\n{}", lines.join("\n"));
    };
    place
}

fn assert_order(lines: &[String], order: &[&str]) {
    assert!(order.iter().map(|line| place(lines, line)).is_sorted(), "{}", lines.join("\n"));
}

fn check_quickstart(lines: &[String]) {
    for user in ["ann", "bob", "eve"] {
        place(lines, &format!("send_welcome: a letter to {user}"));
    }
    let order = [
        "charge_card:  order 17, attempt 1 of 4: the bank is busy",
        "charge_card:  order 17, attempt 2 of 4: the bank is busy",
        "charge_card:  order 17, attempt 3 of 4: charged",
        r#"failed:       ship_parcel {"parcel":5} after 2 attempts: the depot is closed (exhausted)"#,
        "main:         the depot opens, and the parcel is retried",
        "ship_parcel:  parcel 5, attempt 1 of 2: on its way",
        "main:         all done",
    ];
    assert_order(lines, &order);
    let parcel = [
        "ship_parcel:  parcel 5, attempt 1 of 2: the depot is closed",
        "ship_parcel:  parcel 5, attempt 2 of 2: the depot is closed",
    ];
    assert_order(lines, &parcel);
    assert_eq!(lines.len(), 13);
}

fn check_events(lines: &[String]) {
    let published = "shop:         ann signs up and orders";
    let audit = [
        "audit:        subscribed to user.* and order.#, in a process of its own",
        published,
        r#"audit:        user.created {"user":"ann"}"#,
        "shop:         all done",
    ];
    assert_order(lines, &audit);
    assert_order(lines, &[published, r#"audit:        order.paid.card {"order":17}"#]);
    assert_order(lines, &[published, "welcome:      a letter to ann"]);
    let failing = [
        published,
        "add_reader:   ann, attempt 1 of 2: the server is down",
        "add_reader:   ann, attempt 2 of 2: the server is down",
        r#"failed:       add_reader user.created {"user":"ann"} after 2 attempts: the server is down (exhausted)"#,
        "shop:         the server is up, and the event is retried: for add_reader alone",
        "add_reader:   ann, attempt 1 of 2: added",
        "shop:         all done",
    ];
    assert_order(lines, &failing);
    assert_eq!(lines.len(), 11);
}

fn check_layers(lines: &[String]) {
    let order = [
        "rolled back",
        "pay, attempt 1: the bank is busy",
        "committed: 1 payment",
        "pay, attempt 2: done",
    ];
    assert_eq!(lines, order);
}

fn check_delays(lines: &[String]) {
    let starts = "main:       the pool starts";
    for time in ["after 400 ms", "at its time"] {
        assert_order(lines, &[starts, &format!("remind:     {time}")]);
    }
    for job in ["call_bank: ", "call_depot:"] {
        let attempt = |number, answer| format!("{job} attempt {number} of 4: {answer}");
        let failing = (1..=3).map(|number| attempt(number, "no answer"));
        let attempts: Vec<_> = failing.chain([attempt(4, "answered")]).collect();
        let order: Vec<_> = [starts].into_iter().chain(attempts.iter().map(|a| &**a)).collect();
        assert_order(lines, &order);
    }
    assert_order(lines, &[starts, r#"failed:     send_offer {"user":"ann"} (expired)"#]);
    assert_eq!(lines.len(), 12);
}

fn check_cron(lines: &[String]) {
    let timely = |shop, schedule| format!("report of shop {shop}, by {schedule}, in time: true");
    let order = [
        timely(7, "report-7"),
        "clean_up: every 1s".to_owned(),
        "report-7: every 2s".to_owned(),
        "report-8: 0 6 * * MON".to_owned(),
        timely(8, "report-8"),
    ];
    let first = |line: &String| lines.iter().position(|found| found == line);
    let places: Option<Vec<_>> = order.iter().map(first).collect();
    assert!(places.is_some_and(|places| places.is_sorted()), "{}", lines.join("\n"));
    assert!(lines.iter().filter(|line| *line == "cleaned up").count() >= 2);
}

fn check_priorities(lines: &[String]) {
    let (link, before) = ("a link for user 7", "letters that were sent before the link: ");
    let told = lines.iter().find_map(|line| line.strip_prefix(before)).expect("a number");
    assert_order(
        lines,
        &["the first letter", link, &format!("{before}{told}"), "all letters are sent"],
    );
    let letters: u64 = told.parse().expect("a number");
    assert!(letters < 150, "{letters} of 300");
}

fn check_failed_jobs(lines: &[String]) {
    place(lines, r#"listed {"parcel":0}: there is no parcel 0 (aborted), attempts: 1"#);
    let order = [
        r#"listed {"parcel":5}: the printer has no paper (exhausted), attempts: 2"#,
        r#"  "queue": "print_label","#,
        r#"    "parcel": 5"#,
        r#"    "clerk": "ann""#,
        r#"  "attempts": 2,"#,
        r#"  "error": "the printer has no paper","#,
        r#"  "reason": "exhausted","#,
        "printed parcel 5",
        "failed jobs left: 0",
    ];
    assert_order(lines, &order);
}

fn check_axum_shutdown(lines: &[String]) {
    let begun = "ship:   order 17 is being packed";
    let (stopped, ended) = ("server: shutting down", "pool:   ended");
    assert_order(lines, &[begun, stopped, "client: HTTP/1.1 202 Accepted", ended]);
    assert_order(lines, &[begun, "ship:   order 17 is on its way", ended]);
    assert_eq!(lines.len(), 5);
}

fn check_dashboard(lines: &[String]) {
    let expected = ["session=none: HTTP/1.0 403 Forbidden", "session=1234: HTTP/1.0 200 OK"]
        .map(str::to_owned);
    assert_eq!(lines, expected);
}

#[test]
fn dashboard_in_memory() {
    check_dashboard(&run_in_memory("dashboard"));
}

#[test]
fn quickstart_on_a_file() {
    check_quickstart(&run(QUICKSTART, None));
}

#[tokio::test]
async fn quickstart_on_rabbitmq() {
    check_quickstart(&run(QUICKSTART, Some(&broker::shared().await)));
}

#[test]
fn events_on_a_file() {
    check_events(&run("events", None));
}

#[tokio::test]
async fn events_on_rabbitmq() {
    check_events(&run("events", Some(&broker::shared().await)));
}

#[test]
fn layers_on_a_file() {
    check_layers(&run("layers", None));
}

#[tokio::test]
async fn layers_on_rabbitmq() {
    check_layers(&run("layers", Some(&broker::shared().await)));
}

#[test]
fn cron_on_a_file() {
    check_cron(&run("cron", None));
}

#[tokio::test]
async fn cron_on_rabbitmq() {
    check_cron(&run("cron", Some(&broker::shared().await)));
}

#[test]
fn priorities_on_a_file() {
    check_priorities(&run("priorities", None));
}

#[tokio::test]
async fn priorities_on_rabbitmq() {
    check_priorities(&run("priorities", Some(&broker::shared().await)));
}

#[test]
fn delays_in_memory() {
    check_delays(&run_in_memory("delays"));
}

#[test]
fn state_in_memory() {
    let letters = ["letter 1 to ann: welcome", "letter 2 to ann: the bill of order 17, attempt 1"];
    assert_eq!(run_in_memory("state"), letters);
}

#[test]
fn failed_jobs_in_memory() {
    check_failed_jobs(&run_in_memory("failed_jobs"));
}

#[test]
fn headers_in_memory() {
    let order = [
        "main: order 1 is refused, invalid: true",
        "pay:  order 17, attempt 1, tenant acme, trace 4bf92f35",
        "pay:  order 17, attempt 2, tenant acme, trace 4bf92f35",
        "ship: order 17, attempt 1, tenant acme, trace none",
    ];
    assert_eq!(run_in_memory("headers"), order);
}

#[test]
fn own_engine_in_memory() {
    assert_eq!(run_in_memory("own_engine"), ["attempt 2: hello ann"]);
}

#[test]
fn axum_shutdown_in_memory() {
    check_axum_shutdown(&run_in_memory("axum_shutdown"));
}
