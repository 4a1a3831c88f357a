//! The examples show what the README says that they show, on both engines.

use std::env;
use std::path::Path;
use std::process::Command;

use jobq_tests::broker;
use jobq_tests::files::Directory;

/// Runs an example in a folder of its own and gives its lines without their times.
fn run(example: &str, url: Option<&str>) -> Vec<String> {
    let folder = Directory::new();
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--locked", "--example", example, "--manifest-path"]);
    command.arg(manifest).current_dir(folder.path()).env_remove("JOBQ_URL");
    // `ring` is built anew, and all that uses it, where Cargo finds variables of another package.
    for (name, _) in env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG_")) {
        command.env_remove(name);
    }
    command.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_MANIFEST_LINKS");
    if let Some(url) = url {
        command.env("JOBQ_URL", url);
    }
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(folder.path().join("jobq.db").exists(), url.is_none());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split_once("] ").unwrap().1.to_owned()).collect()
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
        "main:         the depot opens, and the parcel is put back",
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
        "shop:         the server is up, and the event is put back: for add_reader alone",
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

#[test]
fn quickstart_on_a_file() {
    check_quickstart(&run("quickstart", None));
}

#[tokio::test]
async fn quickstart_on_rabbitmq() {
    check_quickstart(&run("quickstart", Some(&broker::shared().await)));
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
