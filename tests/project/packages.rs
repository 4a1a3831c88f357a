//! How many packages a program compiles with jobq. The README states the figures.

use std::collections::BTreeSet;
use std::process::Command;

/// The packages that `cargo` compiles for a package with these features, itself included.
fn packages(package: &str, arguments: &[&str]) -> usize {
    listed(package, "{p}", arguments).len()
}

/// The packages that `cargo` compiles for a package, in this format.
fn listed(package: &str, format: &str, arguments: &[&str]) -> BTreeSet<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    cargo.args(["tree", "-p", package, "-e", "normal,build", "--prefix", "none", "--locked"]);
    let output = cargo.args(["--format", format]).args(arguments).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("names are UTF-8");
    let lines = text.lines().map(|line| line.trim_end_matches(" (*)"));
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// The most packages, which is what there are and a few: a library may split in two. Whoever needs
/// more looks first at what the new ones bring along.
#[test]
fn a_program_compiles_few_packages() {
    let table: [(&[&str], usize); 4] = [
        (&["--no-default-features", "--features", "sqlite"], 64),
        // With rustix, since std has no clock that counts the sleep of a machine.
        (&["--no-default-features", "--features", "rabbitmq"], 99),
        // With base64, since the payloads of failed jobs are exported byte by byte.
        (&[], 111),
        (&["--all-features"], 192),
    ];
    for (arguments, most) in table {
        let count = packages("jobq", arguments);
        assert!(count <= most, "{arguments:?}: {count} packages, at most {most}");
    }
}

/// The command is a program of its own; whoever uses the library compiles none of it.
#[test]
fn the_command_compiles_few_packages() {
    let count = packages("jobq-cli", &[]);
    // With tokio-postgres and its TLS, for `jobq relay`.
    assert!(count <= 306, "{count} packages, at most 306");
}

/// The first command of the README compiles jobq and the program, and nothing else.
#[test]
fn the_quickstart_compiles_no_more_than_jobq() {
    let count = packages("quickstart", &[]);
    assert_eq!(count, packages("jobq", &[]) + 1);
    assert!(count <= 112, "{count} packages, at most 112, as the README says");
}

/// Beside `cargo build`, tests compile jobq alone once more: with other features, or another package,
/// all that depends on it would be, too.
#[test]
fn the_test_kit_needs_nothing_below_jobq() {
    let below = |arguments| {
        let mut packages = listed("jobq", "{p} with {f}", arguments);
        packages.retain(|package| !package.starts_with("jobq v"));
        packages
    };
    assert_eq!(below(&["--features", "testing"]), below(&[]));
}
