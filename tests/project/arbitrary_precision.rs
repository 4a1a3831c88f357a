//! Features of `serde_json` that another crate of the program enables change what serde reads.

use std::fs;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/project/arbitrary_precision/main.rs");

/// The program is a workspace of its own, since its features would be those of all others. It is
/// compiled without debug assertions, so that payloads are checked as in a release build.
#[test]
fn payloads_that_a_feature_of_serde_json_makes_unreadable_are_refused() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("arbitrary_precision");
    let manifest = format!(
        "[package]\nname = \"arbitrary_precision\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [workspace]\n\n\
         [[bin]]\nname = \"arbitrary_precision\"\npath = {SOURCE:?}\n\n\
         [profile.dev]\ndebug = false\ndebug-assertions = false\n\n\
         [dependencies]\n\
         jobq = {{ path = {:?}, default-features = false, features = [\"testing\"] }}\n\
         serde = {{ version = \"1\", features = [\"derive\"] }}\n\
         serde_json = {{ version = \"1\", features = [\"arbitrary_precision\"] }}\n\
         tokio = {{ version = \"1\", features = [\"macros\", \"rt\"] }}\n",
        root.join("jobq")
    );
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    // The versions that the workspace was tested with; Cargo takes the others out.
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    let output = cargo.args(["run", "--quiet"]).current_dir(&folder);
    let output = output.env("CARGO_TARGET_DIR", folder.join("target")).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.matches("refused: ").count(), 2, "{said}");
}
