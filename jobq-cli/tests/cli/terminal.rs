//! A terminal that tests read and write: a session of tmux.

use std::process::Command;

use jobq_tests::files::Directory;
use jobq_tests::test_store::until;

/// A terminal in which the command runs. Dropping it ends both.
#[derive(Debug)]
pub(crate) struct Terminal {
    /// The socket of a tmux of its own.
    folder: Directory,
}

impl Terminal {
    /// Starts the command with these arguments on the store of this URL, in 100 columns and 30
    /// lines.
    pub(crate) fn start(url: &str, arguments: &[&str]) -> Self {
        let terminal = Self { folder: Directory::new() };
        let program = env!("CARGO_BIN_EXE_jobq");
        let url = format!("JOBQ_URL={url}");
        // It says how the command ended, and goes on as a shell, which takes the terminal as it is.
        let script = r#""$@"; echo "ended with $?"; exec sh -i"#;
        let new = ["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30"];
        let run = ["env", &url, "TERM=xterm", "sh", "-c", script, "sh", program];
        terminal.tmux(&[&new[..], &run, arguments].concat());
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux")
            .arg("-S")
            .arg(self.folder.file("socket"))
            .args(arguments)
            .output()
            .expect("tmux is installed");
        assert!(output.status.success(), "tmux {arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Presses these keys, by their names.
    pub(crate) fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Sends a signal to the command.
    pub(crate) fn signal(&self, name: &str) {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        let shell = shell.trim();
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"));
        let children = children.expect("the shell runs");
        let sent = Command::new("kill").args(["-s", name, children.trim()]).status();
        assert!(sent.expect("kill is installed").success(), "{name} to `{children}`");
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen has what is expected.
    pub(crate) async fn shows(&self, what: &str, is_expected: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        until(what, async || {
            let screen = self.screen();
            let is_new = screen != last;
            if is_new {
                // Shown if the test fails.
                eprintln!("waiting for {what}:\n{screen}");
                last.clone_from(&screen);
            }
            is_expected(&screen).then_some(screen)
        })
        .await
    }

    /// Waits until the screen has a text.
    pub(crate) async fn shows_text(&self, text: &str) -> String {
        self.shows(&format!("`{text}` on the screen"), |screen| screen.contains(text)).await
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let socket = self.folder.file("socket");
        let _ = Command::new("tmux").arg("-S").arg(socket).arg("kill-server").output();
    }
}
