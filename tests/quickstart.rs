//! The quickstart shows what the README says that it shows, on both engines.
// What fails to unwrap fails its test.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use jobq_tests::broker;
use jobq_tests::files::Directory;

/// Runs the quickstart in a folder of its own and gives its lines without their times.
fn quickstart(url: Option<&str>) -> Vec<String> {
    let folder = Directory::new();
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--locked", "--example", "quickstart", "--manifest-path"]);
    command.arg(manifest).current_dir(folder.path()).env_remove("JOBQ_URL");
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

fn check(lines: &[String]) {
    let place = |line: &str| {
        let found = lines.iter().position(|found| found == line);
        found.unwrap_or_else(|| panic!("no line {line:?} in\n{}", lines.join("\n")))
    };
    for user in ["ann", "bob", "eve"] {
        place(&format!("send_welcome: a letter to {user}"));
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
    assert!(order.map(place).is_sorted(), "{}", lines.join("\n"));
    let parcel = ["attempt 1 of 2", "attempt 2 of 2"];
    let parcel =
        parcel.map(|it| place(&format!("ship_parcel:  parcel 5, {it}: the depot is closed")));
    assert!(parcel.is_sorted());
    assert_eq!(lines.len(), 13);
}

#[test]
fn on_a_file() {
    check(&quickstart(None));
}

#[tokio::test]
async fn on_rabbitmq() {
    let url = broker::shared().await;
    check(&quickstart(Some(&url)));
}
