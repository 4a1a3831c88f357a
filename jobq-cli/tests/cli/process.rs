//! Runs the command.

use std::process::{Output, Stdio};

use jobq_tests::test_store::{Store, soon, until};
use serde_json::Value;
use tokio::process::Command;

use crate::schema;

/// The end of a run of the command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("what it prints is UTF-8");
        Self {
            code: output.status.code().expect("no signal ends it"),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

impl Ran {
    /// The lines of standard output, of a run with this exit code.
    pub(crate) fn lines(&self, code: i32) -> Vec<&str> {
        assert_eq!(self.code, code, "{self:#?}");
        self.out.lines().collect()
    }

    /// The only document of a run with this exit code, which must match a schema.
    pub(crate) fn json(&self, code: i32, schema: &str) -> Value {
        let lines = self.lines(code);
        let [line] = lines[..] else { panic!("one document is one line: {self:#?}") };
        let document = serde_json::from_str(line).unwrap();
        schema::check(schema, &document);
        document
    }

    /// The message of a run that ended with this exit code before it printed anything else.
    pub(crate) fn error(&self, code: i32) -> &str {
        assert!(self.lines(code).is_empty(), "{self:#?}");
        &self.err
    }
}

/// The command with these arguments, off a terminal and in an environment without settings.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jobq"));
    for variable in ["JOBQ_URL", "JOBQ_MANAGEMENT_URL", "JOBQ_NAMESPACE", "JOBQ_LOG", "NO_COLOR"] {
        command.env_remove(variable);
    }
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// The command on a store.
pub(crate) fn on(store: &Store, arguments: &[&str]) -> Command {
    let mut command = command(arguments);
    command.env("JOBQ_URL", &store.url).args(["--namespace", &store.namespace]);
    command
}

/// Runs a command to its end.
pub(crate) async fn run(mut command: Command) -> Ran {
    let output = soon("the end of the command", command.output()).await;
    output.expect("the command can be started").into()
}

/// Runs the command with these arguments on a store.
pub(crate) async fn jobq(store: &Store, arguments: &[&str]) -> Ran {
    run(on(store, arguments)).await
}

/// Runs the command until it ends as expected: on a machine that is busy, a pool may answer late.
pub(crate) async fn eventually(
    store: &Store,
    arguments: &[&str],
    is_expected: impl Fn(&Ran) -> bool,
) -> Ran {
    until("the expected end of the command", async || {
        let ran = jobq(store, arguments).await;
        let expected = is_expected(&ran);
        if !expected {
            eprintln!("not yet: {ran:#?}");
        }
        expected.then_some(ran)
    })
    .await
}
