//! The command on files of other versions and other users: it looks and changes nothing.

use std::path::Path;

use jobq_tests::files::{Directory, NEWEST_SCHEMA, make_job_file, schema_of};
use jobq_tests::test_store::{Step, Store, TestStore};
use tokio::process::Command;

use crate::process::{Ran, command, on, run};
use crate::server::Server;

/// The commands that only look.
const LOOKS: [&[&str]; 6] = [
    &["queues", "mail"],
    &["workers"],
    &["doctor"],
    &["failed", "list", "mail"],
    &["failed", "groups", "mail"],
    &["check", "--failed-max", "5"],
];

async fn on_file(path: &Path, arguments: &[&str]) -> Ran {
    let mut command = command(arguments);
    command.env("JOBQ_URL", format!("sqlite://{}", path.display()));
    run(command).await
}

#[tokio::test]
async fn looking_and_changing_leave_a_file_to_older_programs() {
    let directory = Directory::new();
    let path = directory.file("jobs.db");
    make_job_file(&path, NEWEST_SCHEMA - 1);
    let enqueue = ["enqueue", "mail", "--queue", "mail", "--payload", "{}"];
    let changes: [&[&str]; 3] = [&["pause", "mail"], &["resume", "mail"], &enqueue];
    for arguments in LOOKS.into_iter().chain(changes) {
        let ran = on_file(&path, arguments).await;
        assert_eq!(ran.code, 0, "{arguments:?} {ran:#?}");
        assert_eq!(schema_of(&path), NEWEST_SCHEMA - 1, "{arguments:?}");
    }
    let ran = on_file(&path, &["queues", "mail", "--json"]).await;
    assert_eq!(ran.json(0, "queues")["queues"][0]["ready"], 3);

    // A scrape of the figures.
    let mut server = command(&["metrics", "--listen", "127.0.0.1:0"]);
    server.env("JOBQ_URL", format!("sqlite://{}", path.display()));
    let answer = Server::spawn(server).await.get("/metrics").await;
    assert!(answer.contains("{queue=\"mail\",state=\"ready\"} 3"), "{answer}");
    assert_eq!(schema_of(&path), NEWEST_SCHEMA - 1);
}

#[tokio::test]
async fn an_older_file_is_migrated_by_its_own_command_alone() {
    let directory = Directory::new();
    let path = directory.file("jobs.db");
    make_job_file(&path, NEWEST_SCHEMA - 2);
    let file = path.display().to_string();
    let enqueue = ["enqueue", "mail", "--queue", "mail", "--payload", "{}"];
    let changes: [&[&str]; 2] = [&["pause", "mail"], &enqueue];
    for arguments in LOOKS.into_iter().take(5).chain(changes) {
        let ran = on_file(&path, arguments).await;
        let told = ran.error(5);
        assert!(told.contains(&format!("has schema {}", NEWEST_SCHEMA - 2)), "{told}");
        assert!(told.contains(&format!("`jobq migrate {file}`")), "{told}");
    }
    assert_eq!(schema_of(&path), NEWEST_SCHEMA - 2);

    let ran = run(command(&["migrate", &file])).await;
    let expected =
        format!("the job file {file} has schema {NEWEST_SCHEMA}; it had {}", NEWEST_SCHEMA - 2);
    assert_eq!(ran.lines(0), [expected]);
    let document = run(command(&["migrate", &file, "--json"])).await.json(0, "migrate");
    assert_eq!(
        (&document["from"], &document["to"]),
        (&NEWEST_SCHEMA.into(), &NEWEST_SCHEMA.into())
    );
    assert_eq!(on_file(&path, &["queues", "mail"]).await.code, 0);

    let missing = directory.file("missing.db");
    let ran = run(command(&["migrate", &missing.display().to_string()])).await;
    assert!(ran.error(5).contains("does not exist"), "{ran:#?}");
    assert!(!missing.exists());
}

#[tokio::test]
async fn a_variable_with_a_newline_is_named_and_makes_no_file() {
    let directory = Directory::new();
    let url = format!("{}\n", directory.url("topsecret.db"));
    let secret = "topsecret of the test\r";
    let enqueue = ["enqueue", "mail", "--payload", "{}"];
    let dashboard = ["dashboard", "--demo", "--listen", "127.0.0.1:0"];
    let table: [(&str, &str, &[&str], &str); 7] = [
        ("JOBQ_URL", &url, &["queues"], "ends with a newline (U+000A)"),
        ("JOBQ_URL", &url, &enqueue, "ends with a newline (U+000A)"),
        ("JOBQ_URL", "sqlite:// topsecret.db", &["queues"], "begins with a space (U+0020)"),
        ("JOBQ_URL", "sqlite://\u{feff}topsecret.db", &enqueue, "begins with a byte order mark"),
        ("JOBQ_NAMESPACE", "shop ", &enqueue, "ends with a space (U+0020)"),
        ("JOBQ_MANAGEMENT_URL", "\ttopsecret", &enqueue, "begins with a tab (U+0009)"),
        ("JOBQ_DASHBOARD_SECRET", secret, &dashboard, "ends with a carriage return (U+000D)"),
    ];
    for (variable, value, arguments, expected) in table {
        let mut command = command(arguments);
        command.env("JOBQ_URL", directory.url("jobs.db")).env(variable, value);
        let ran = run(command).await;
        let told = ran.error(2);
        assert!(told.contains(variable) && told.contains(expected), "{told}");
        assert!(!told.contains("topsecret"), "{told}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// A user who may only read the file, and one who may write its directory besides.
#[cfg(unix)]
#[tokio::test]
async fn a_user_who_may_only_read_looks_while_a_program_has_the_file_open() {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;

    const NOBODY: u32 = 65_534;
    fn by_nobody(mut command: Command) -> Command {
        command.uid(NOBODY).gid(NOBODY);
        command
    }

    // Others may run neither the command nor another user where this one is not root.
    let tried = by_nobody(command(&["--version"])).output().await;
    if !tried.is_ok_and(|output| output.status.success()) {
        eprintln!(
            "SKIPPED: a_user_who_may_only_read_looks_while_a_program_has_the_file_open needs root, \
             and a folder of the build that others may read"
        );
        return;
    }
    for mode in [0o755, 0o777] {
        let test = TestStore::on(Store::sqlite().await).await;
        let path = test.store.url.strip_prefix("sqlite://").unwrap().to_owned();
        let directory = Path::new(&path).parent().unwrap();
        set_permissions(directory, Permissions::from_mode(mode)).unwrap();
        set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let pool = test.pool().spawn().await.unwrap();
        test.enqueue([Step::Abort("no".into())]).await;
        test.failed("scripted").await;

        let ask = |arguments: &[&str]| run(by_nobody(on(&test.store, arguments)));
        let ran = ask(&["queues", "scripted"]).await;
        assert!(ran.lines(0)[1].contains("scripted"), "{ran:#?}");
        let document = ask(&["queues", "scripted", "--json"]).await.json(0, "queues");
        assert_eq!(document["queues"][0]["failed"], 1);
        let ran = ask(&["failed", "list", "scripted"]).await;
        assert!(ran.out.contains("no") && ran.code == 0, "{ran:#?}");
        assert_eq!(ask(&["doctor"]).await.code, 0);
        let ran = ask(&["workers"]).await;
        assert!(ran.out.is_empty() || ran.code == 0, "{ran:#?}");
        assert!(ran.err.contains("read-only access to the job file"), "{ran:#?}");
        let told = ask(&["pause", "scripted"]).await;
        assert!(
            told.error(5).contains("is read-only; grant this user write permission"),
            "{told:#?}"
        );
        assert!(told.err.contains("queue paused") && told.err.contains("is_finished=false"));

        pool.shutdown().await.unwrap();
        test.client.close().await;
        let files = || std::fs::read_dir(directory).unwrap().count();
        let before = files();
        let told = ask(&["queues"]).await;
        for fragment in [&*path, "is read-only for this user", "no process has it open"] {
            assert!(told.error(5).contains(fragment), "{told:#?}");
        }
        assert_eq!(files(), before, "it left no file of its own");
        set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let told = ask(&["queues"]).await;
        assert!(told.error(5).contains("read and write permission on the file"), "{told:#?}");
    }
}
