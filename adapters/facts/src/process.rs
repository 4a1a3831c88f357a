//! The common parts of the private servers.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command};

/// Whether the tests run as root.
pub(crate) fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("id can be run");
    String::from_utf8_lossy(&id.stdout).trim() == "0"
}

/// The end of the file `log` of this folder.
pub(crate) fn log(folder: &Path) -> File {
    let log = File::options().create(true).append(true).open(folder.join("log"));
    log.expect("its log can be written")
}

/// Sends a signal to a process that runs.
pub(crate) fn signal(process: &Child, signal: &str) {
    let mut kill = Command::new("kill");
    let status = kill.arg(format!("-{signal}")).arg(process.id().to_string()).status();
    assert!(status.expect("kill can be run").success(), "the process runs");
}
