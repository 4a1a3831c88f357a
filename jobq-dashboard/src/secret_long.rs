//! What a comparison of secrets takes, in instructions: these do not differ from run to run, as time
//! does. `./tests/run --all` alone runs it, as valgrind is slow.

use std::env;
use std::hint::black_box;
use std::process::Command;

use super::Secret;

const SECRET: &str = "a secret of the test, of forty letters..";

/// The comparison of the dashboard.
#[inline(never)]
fn compare_secrets(secret: &Secret, guess: &str) -> bool {
    secret.is(guess.as_bytes())
}

/// A comparison that ends at the first difference: what the test has to notice.
#[inline(never)]
fn compare_letters(secret: &Secret, guess: &str) -> bool {
    secret.text.bytes().zip(guess.bytes()).all(|(one, other)| one == other)
}

/// Compares once. The other test runs it under valgrind.
#[test]
#[ignore = "a process of the other test"]
fn one_comparison() {
    let variable = |name| env::var(name).expect("the other test sets it");
    let (secret, guess) = (Secret::of(&variable("SECRET")), variable("GUESS"));
    black_box(compare_secrets(black_box(&secret), black_box(&guess)));
    black_box(compare_letters(black_box(&secret), black_box(&guess)));
}

/// The instructions of a function in one comparison.
fn instructions(function: &str, secret: &str, guess: &str) -> u64 {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("callgrind.out");
    let output = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(format!("--toggle-collect=*{function}*"))
        .arg(env::current_exe().expect("it is known"))
        .args(["--exact", "secret::long::one_comparison", "--ignored", "--test-threads=1"])
        .env("SECRET", secret)
        .env("GUESS", guess)
        .output()
        .expect("valgrind runs");
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(file).expect("callgrind writes its file");
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
    let total = total.unwrap_or_else(|| panic!("no total: {output:?}"));
    total.trim().parse().expect("it is a number")
}

#[test]
fn a_comparison_takes_the_same_whatever_is_right() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("SKIPPED: a_comparison_takes_the_same_whatever_is_right needs valgrind");
        return;
    }
    let first = format!("X{}", &SECRET[1..]);
    let last = format!("{}X", &SECRET[..SECRET.len() - 1]);
    let none = "X".repeat(SECRET.len());
    let right = instructions("compare_secrets", SECRET, SECRET);
    assert!(right > 1_000, "it hashes: {right}");
    for guess in [&first, &last, &none] {
        assert_eq!(instructions("compare_secrets", SECRET, guess), right, "{guess}");
    }
    // A secret of another length.
    assert_eq!(instructions("compare_secrets", &SECRET[..16], SECRET), right);
    // What it would be otherwise.
    let letters = [&first, &last].map(|guess| instructions("compare_letters", SECRET, guess));
    assert!(letters[0] < letters[1], "{letters:?}");
}
