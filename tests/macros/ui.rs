//! What the macros refuse, with the errors that users see, and what they accept.
//!
//! After a change of a text, `TRYBUILD=overwrite cargo test -p jobq-macro-tests --test ui`
//! writes the new ones; review them like code.

use std::process::Command;

/// The compiler whose errors the cases show: others say the same in other words.
const COMPILER: &str = "rustc 1.95.";

#[test]
fn each_mistake_is_an_error_that_says_what_to_write() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().unwrap().stdout;
    let version = String::from_utf8_lossy(&version);
    if !version.starts_with(COMPILER) {
        eprintln!(
            "SKIPPED: the ui cases need {COMPILER}x, whose errors they show; this is {version}"
        );
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.pass("ui/pass/*.rs");
    cases.compile_fail("ui/*.rs");
}
