//! What is made from the definitions of the commands, and what a closed pipe does.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

use crate::process::{command, run};

#[tokio::test]
async fn completions_are_made_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = run(command(&["completions", shell])).await;
        assert!(ran.lines(0).len() > 20 && ran.out.contains("enqueue"), "{shell}");
    }
    assert!(run(command(&["completions", "tcsh"])).await.error(2).contains("tcsh"));
}

#[tokio::test]
async fn manual_pages_are_made_for_each_command() {
    let ran = run(command(&["man"])).await;
    assert!(ran.lines(0).iter().any(|line| line.starts_with(".TH jobq 1")), "{ran:#?}");

    let folder = jobq_tests::files::Directory::new();
    let path = folder.path().to_str().unwrap();
    run(command(&["man", "--directory", path])).await.lines(0);
    for page in ["jobq.1", "jobq-queues.1", "jobq-workers-quiet.1"] {
        assert!(folder.file(page).exists(), "{page}");
    }
    let missing = folder.file("missing");
    let ran = run(command(&["man", "--directory", missing.to_str().unwrap()])).await;
    assert!(ran.error(5).contains("cannot write the man pages into"), "{ran:#?}");
}

#[tokio::test]
async fn every_command_has_help() {
    let ran = run(command(&["--help"])).await;
    for text in ["Exit codes:", "JOBQ_URL", "JOBQ_MANAGEMENT_URL", "JOBQ_NAMESPACE"] {
        assert!(ran.out.contains(text), "{text}: {ran:#?}");
    }
    let names = ran.lines(0);
    let names = names.iter().skip_while(|line| **line != "Commands:").skip(1);
    let names = names.take_while(|line| line.starts_with("  "));
    // A description of several lines goes on further to the right.
    let names = names
        .filter(|line| !line.starts_with("   ") && line.split_whitespace().next() != Some("help"));
    let mut seen = 0;
    for name in names.filter_map(|line| line.split_whitespace().next()) {
        let ran = run(command(&[name, "--help"])).await;
        assert!(ran.lines(0).iter().any(|line| line.starts_with("Usage: jobq")), "{ran:#?}");
        seen += 1;
    }
    assert!(seen > 10, "the commands were found");
}

#[tokio::test]
async fn a_closed_pipe_is_no_error() {
    let mut command = command(&["completions", "bash"]);
    // More than a pipe holds would be better, but a reader that is gone is enough.
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut reader = BufReader::with_capacity(1, child.stdout.take().unwrap());
    reader.read_line(&mut line).await.unwrap();
    drop(reader);
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).await.unwrap();
    assert_eq!((child.wait().await.unwrap().code(), errors.as_str()), (Some(0), ""));
}
