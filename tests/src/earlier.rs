//! Programs of an earlier version beside those of this one.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::files::Directory;
use crate::test_store::{Store, until};

/// The commit of the earlier version.
const COMMIT: &str = "86f2642";
/// The parts of the repository that the program is made of.
const PARTS: [&str; 5] = ["jobq", "jobq-derive", "jobq-names", "Cargo.toml", "Cargo.lock"];
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin/mixed.rs");

/// Compiles the program `mixed` with the earlier version, in a folder that the tests share, and
/// returns where it is. Whoever comes later finds it there.
///
/// # Panics
///
/// If the repository does not have that version, or if it does not compile.
#[must_use]
pub fn program(folder: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let root = root.canonicalize().expect("the folder of the project");
    let folder = folder.join(format!("earlier-{COMMIT}"));
    let (source, package) = (folder.join("source"), folder.join("mixed"));
    fs::create_dir_all(&package).expect("the folder can be made");
    let lock = File::create(folder.join("lock")).expect("a file in it");
    lock.lock().expect("it can be locked");
    if !source.exists() {
        extract(&root, &folder, &source);
    }
    let manifest = format!(
        "[package]\nname = \"mixed\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [workspace]\n\n\
         [[bin]]\nname = \"mixed\"\npath = {SOURCE:?}\n\n\
         [profile.dev]\ndebug = false\n\n\
         [dependencies]\n\
         jobq = {{ path = \"../source/jobq\", features = [\"testing\"] }}\n\
         serde = {{ version = \"1\", features = [\"derive\"] }}\n\
         serde_json = \"1\"\n\
         tokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\", \"sync\"] }}\n\
         tracing-subscriber = \"0.3\"\n"
    );
    fs::write(package.join("Cargo.toml"), manifest).expect("the package can be written");
    // Its own versions; Cargo takes the others out.
    fs::copy(source.join("Cargo.lock"), package.join("Cargo.lock")).expect("its lock file");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet"]).current_dir(&package);
    run(cargo.env("CARGO_TARGET_DIR", folder.join("target")));
    folder.join("target/debug/mixed")
}

/// Takes the earlier version out of the history.
fn extract(root: &Path, folder: &Path, source: &Path) {
    let git = || {
        let mut git = Command::new("git");
        git.arg("-C").arg(root);
        git
    };
    let known = git().args(["cat-file", "-e", &format!("{COMMIT}^{{commit}}")]).output();
    assert!(
        known.is_ok_and(|known| known.status.success()),
        "{} has no commit {COMMIT}, whose programs this test runs beside those of today: it needs \
         git and the whole history (`git fetch --unshallow`)",
        root.display()
    );
    let (archive, parts) = (folder.join("source.tar"), folder.join("parts"));
    let _ = fs::remove_dir_all(&parts);
    fs::create_dir_all(&parts).expect("the folder can be made");
    run(git().arg("archive").arg("-o").arg(&archive).arg(COMMIT).args(PARTS));
    run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&parts));
    fs::rename(parts, source).expect("it can be renamed");
}

fn run(command: &mut Command) {
    let output = command.output().expect("the command is installed");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
}

/// A process of the program `mixed`. It ends with the test.
#[derive(Debug)]
pub struct Mixed {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    folder: Directory,
}

impl Mixed {
    /// Starts this program on a store.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn start(program: &Path, store: &Store) -> Self {
        let folder = Directory::new();
        let log = File::create(folder.file("log")).expect("a file for the log");
        let mut child = Command::new(program)
            .args([&store.url, &store.namespace])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the program starts");
        let input = child.stdin.take().expect("its input");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, input, output, folder }
    }

    /// Its log.
    ///
    /// # Panics
    ///
    /// If the log cannot be read.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.file("log")).expect("its log")
    }

    /// Lets it do something, and returns the answer.
    ///
    /// # Errors
    ///
    /// The text of its error; its log, if it has ended.
    ///
    /// # Panics
    ///
    /// If the answer is none.
    pub fn ask(&mut self, command: &Value) -> Result<Value, String> {
        // One that has ended reads nothing, and answers nothing.
        let _ = writeln!(self.input, "{command}");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it answers");
        if line.is_empty() {
            return Err(self.log());
        }
        let mut answer: Value = serde_json::from_str(&line).expect("it answers in JSON");
        match answer["error"].take() {
            Value::Null => Ok(answer["ok"].take()),
            error => Err(error.to_string()),
        }
    }

    /// [`ask`](Self::ask) for what must be done.
    ///
    /// # Panics
    ///
    /// If it is not.
    pub fn must(&mut self, command: &Value) -> Value {
        self.ask(command).unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    /// Waits for so many attempts of this program's pool, and returns them: the numbers of jobs, with
    /// those of the attempts.
    pub async fn runs(&mut self, count: usize) -> Vec<(u64, u64)> {
        let mut runs = Vec::new();
        until("the attempts", async || {
            let new: Vec<(u64, u64)> =
                serde_json::from_value(self.must(&json!("runs"))).expect("numbers");
            runs.extend(new);
            (runs.len() >= count).then_some(())
        })
        .await;
        runs
    }

    /// Waits until its answer is as it must be, and returns it.
    pub async fn until(&mut self, command: &Value, is: impl Fn(&Value) -> bool) -> Value {
        until(&command.to_string(), async || {
            let answer = self.must(command);
            is(&answer).then_some(answer)
        })
        .await
    }
}

impl Drop for Mixed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
