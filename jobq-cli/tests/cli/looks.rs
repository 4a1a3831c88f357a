//! The commands that look: `jobq queues`, `check`, `doctor` and `metrics`.

use jobq_tests::test_store::{Step, Store, TestStore};
use jobq_tests::{both_engines, on_a_file};

use crate::nights::Metrics;
use crate::process::{command, jobq, run};

both_engines!(
    queues_are_a_table_and_a_document,
    a_queue_that_does_not_exist_is_said_to_be_missing,
    the_doctor_gives_its_report,
);

// The nights are told by a check and by figures on a broker.
on_a_file!(a_check_says_which_limit_is_exceeded, prometheus_reads_the_figures);

/// A test with two jobs that are ready and one that failed.
pub(crate) async fn set_up(store: Store) -> TestStore {
    let test = TestStore::on(store).await;
    let pool = test.pool().spawn().await.unwrap();
    test.enqueue([Step::Abort("the card is stolen".into())]).await;
    test.failed("scripted").await;
    pool.shutdown().await.unwrap();
    test.enqueue([Step::Succeed]).await;
    test.enqueue([Step::Succeed]).await;
    test
}

async fn queues_are_a_table_and_a_document(store: Store) {
    let test = set_up(store).await;
    let ran = jobq(&test.store, &["queues", "scripted"]).await;
    let lines = ran.lines(0);
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let titles = "QUEUE READY WAITING IN-FLIGHT FAILED POOLS RATE WAITED STATE";
    assert_eq!(words(lines[0]), words(titles));
    assert_eq!(words(lines[1])[..2], ["scripted", "2"]);
    assert_eq!(lines.len(), 2);

    let ran = jobq(&test.store, &["queues", "scripted", "--parts"]).await;
    let lines: Vec<_> = ran.lines(0).into_iter().map(words).collect();
    let expected: &[&str] = if test.store.is_file() {
        &[
            "QUEUE PLACE JOBS",
            "scripted ready 2",
            "scripted solo 0",
            "scripted waiting 0",
            "scripted failed 1",
        ]
    } else {
        &["QUEUE PLACE JOBS", "scripted ready 2", "scripted waiting ?", "scripted failed 1"]
    };
    assert_eq!(lines, expected.iter().map(|line| words(line)).collect::<Vec<_>>());
    assert_eq!(ran.err.contains("? WAITING of scripted: "), !test.store.is_file(), "{ran:#?}");

    let document = jobq(&test.store, &["queues", "scripted", "--json"]).await.json(0, "queues");
    let queue = &document["queues"][0];
    assert_eq!((&queue["ready"], &queue["failed"]), (&2.into(), &1.into()));
    for (figure, value) in queue.as_object().unwrap() {
        let is_unknown = queue["unknown"].get(figure).is_some();
        let may_be_none =
            ["waits", "paused", "waited_ms", "p50_ms", "p95_ms"].contains(&figure.as_str());
        assert!(value.is_null() == is_unknown || may_be_none, "{figure}: {document:#}");
    }
    assert!(jobq(&test.store, &["queues", "no name"]).await.error(2).contains("no name"));
}

async fn a_check_says_which_limit_is_exceeded(store: Store) {
    let test = set_up(store).await;
    let check = async |limits: &[&str]| {
        let arguments = [&["check", "scripted"], limits].concat();
        jobq(&test.store, &arguments).await
    };
    let ran = check(&["--failed-max", "1", "--ready-max", "2"]).await;
    assert_eq!(ran.lines(0), ["ok: scripted"]);
    let ran = check(&["--failed-max", "0", "--ready-max", "1"]).await;
    let expected = [
        "scripted: failed: expected at most 0, found 1",
        "scripted: ready: expected at most 1, found 2",
    ];
    assert_eq!(ran.lines(1), expected);
    let document = check(&["--failed-max", "0", "--json"]).await.json(1, "check");
    assert_eq!((&document["ok"], &document["breaches"][0]["found"]), (&false.into(), &1.into()));
    assert!(check(&[]).await.error(2).contains("--failed-max"));
    // A long pause is no reason for which nobody is told that jobs wait.
    test.client.admin().pause("scripted", "upgrade").await.unwrap();
    let document = check(&["--waited-max", "100ms", "--json"]).await.json(1, "check");
    let why = document["breaches"][0]["unknown"].as_str().unwrap();
    assert_eq!(why, "jobs wait, and none started in the last minute; the queue is paused");
    test.client.admin().resume("scripted").await.unwrap();

    let file = jobq_tests::files::Directory::new();
    for (text, code) in [("typo # and a comment\n", 1), ("\n# none\n", 2), ("{}", 2)] {
        std::fs::write(file.file("queues"), text).unwrap();
        let path = file.file("queues").display().to_string();
        let ran = jobq(&test.store, &["check", "--queues-from", &path, "--failed-max", "0"]).await;
        assert_eq!(ran.code, code, "{ran:#?}");
        assert!(code == 2 || ran.out.starts_with("typo: failed: "), "{ran:#?}");
    }
    let ran = jobq(&test.store, &["check", "typo", "--failed-max", "0"]).await;
    let expected = ["typo: failed: expected at most 0, found unknown (there is no such queue)"];
    assert_eq!(ran.lines(1), expected);
}

async fn a_queue_that_does_not_exist_is_said_to_be_missing(store: Store) {
    let test = set_up(store).await;
    let ran = jobq(&test.store, &["queues", "scripted", "typo"]).await;
    let lines = ran.lines(4);
    assert!(lines[1].ends_with("unattended") && lines[2].ends_with("missing"), "{ran:#?}");
    let document = jobq(&test.store, &["queues", "typo", "--json"]).await.json(4, "queues");
    assert_eq!(document["queues"][0]["state"], "missing");
    for (arguments, schema) in [
        (&["list", "typo"][..], "failed-list"),
        (&["groups", "typo"], "failed-groups"),
        (&["retry", "typo", "--all"], "failed-operation"),
        (&["discard", "typo", "--error", "no"], "failed-operation"),
        (&["purge", "typo", "--yes"], "failed-operation"),
    ] {
        let ran = jobq(&test.store, &[&["failed"], arguments, &["--json"]].concat()).await;
        ran.json(4, schema);
        assert!(ran.err.contains("queue `typo` does not exist"), "{ran:#?}");
    }
    let ran = jobq(&test.store, &["pause", "typo"]).await;
    assert!(ran.error(4).contains("queue `typo` does not exist"), "{ran:#?}");
    let is_paused = async || {
        let ran = jobq(&test.store, &["queues", "typo", "--json"]).await;
        !ran.json(ran.code, "queues")["queues"][0]["paused"].is_null()
    };
    assert!(!is_paused().await);
    let ran = jobq(&test.store, &["pause", "typo", "--in-advance"]).await;
    assert_eq!(ran.lines(0), ["queue typo is paused; pools that stopped: 0"]);
    assert!(is_paused().await);
}

async fn the_doctor_gives_its_report(store: Store) {
    let test = set_up(store).await;
    let ran = jobq(&test.store, &["doctor", "scripted"]).await;
    let name = if test.store.is_file() { "SQLite" } else { "RabbitMQ" };
    assert!(ran.out.starts_with(name), "{ran:#?}");
    let report = test.client.doctor().queue("scripted").await.unwrap();
    assert_eq!(ran.code, i32::from(!report.is_sound()));
    let ran = jobq(&test.store, &["doctor", "scripted", "--json"]).await;
    let document = ran.json(ran.code, "doctor");
    assert_eq!(document["findings"].as_array().unwrap().len(), report.findings().len());
}

async fn prometheus_reads_the_figures(store: Store) {
    let test = set_up(store).await;
    let answer = Metrics::start(&test.store, &["scripted"]).await.scrape().await;
    assert!(answer.contains(r#"jobq_queue_jobs{queue="scripted",state="ready"} 2"#), "{answer}");
    assert!(answer.contains(r#"jobq_queue_jobs{queue="scripted",state="failed"} 1"#), "{answer}");
    assert!(answer.contains("text/plain; version=0.0.4"), "{answer}");
    assert!(answer.contains("\njobq_up 1\n") && answer.contains("\njobq_level_jobs 0\n"));
    assert!(answer.contains("\njobq_overview_complete 1\n"), "{answer}");

    // Alerts stand on figures that are there. This one is of the programs.
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/alerts.yml");
    let rules = std::fs::read_to_string(rules).unwrap();
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let names = rules.split(|c| !is_of_name(c)).filter(|word| word.starts_with("jobq_"));
    let mut others: Vec<_> =
        names.filter(|name| !answer.contains(&format!("\n# TYPE {name} gauge\n"))).collect();
    others.dedup();
    assert_eq!(others, ["jobq_attempts_total"], "{answer}");
}

#[tokio::test]
async fn a_url_must_lead_to_something() {
    let folder = jobq_tests::files::Directory::new();
    let mut nothing = command(&["queues"]);
    nothing.current_dir(folder.path());
    assert!(run(nothing).await.error(2).contains("JOBQ_URL"));

    let mut missing = command(&["queues", "--url", "sqlite://typo.db"]);
    missing.current_dir(folder.path());
    assert!(run(missing).await.error(5).contains("the job file typo.db does not exist"));
    assert!(!folder.file("typo.db").exists());

    let unreachable = command(&["queues", "--url", "amqp://127.0.0.1:1"]);
    assert!(run(unreachable).await.error(5).contains("127.0.0.1:1"));

    // The file of the library's default is the command's, if it exists.
    let mut new = command(&["enqueue", "greet", "--url", "sqlite://jobq.db"]);
    new.current_dir(folder.path());
    run(new).await.lines(0);
    let mut default = command(&["queues", "greet"]);
    default.current_dir(folder.path());
    assert_eq!(run(default).await.lines(0).len(), 2);
}

#[tokio::test]
async fn the_environment_may_name_the_namespace() {
    let store = Store::sqlite().await;
    let ready = async |variable: &str, arguments: &[&str], code| {
        let mut command = command(&[&["queues", "greet", "--json"], arguments].concat());
        command.env("JOBQ_URL", &store.url).env("JOBQ_NAMESPACE", variable);
        run(command).await.json(code, "queues")["queues"][0]["ready"].clone()
    };
    jobq(&store, &["enqueue", "greet"]).await.lines(0);
    let of_store = &*store.namespace;
    assert_eq!(ready(of_store, &[], 0).await, 1);
    assert_eq!(ready("other", &["--namespace", of_store], 0).await, 1, "the option is stronger");
    assert_eq!(ready("other", &[], 4).await, 0, "there is no such queue");
    assert_eq!(ready("", &[], 4).await, 0, "an empty variable is none");
}

#[tokio::test]
async fn colours_are_for_terminals() {
    let store = Store::sqlite().await;
    jobq(&store, &["enqueue", "greet"]).await.lines(0);
    let plain = jobq(&store, &["queues", "greet"]).await;
    assert!(!plain.out.contains('\x1b'), "{plain:#?}");
    let forced = jobq(&store, &["queues", "greet", "--color", "always"]).await;
    assert!(forced.out.contains("\x1b["), "{forced:#?}");
    let json = jobq(&store, &["queues", "greet", "--color", "always", "--json"]).await;
    json.json(0, "queues");
}
