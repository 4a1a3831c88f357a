//! Pauses, and questions to pools, between processes on one file.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use jobq::engine::conformance::{EngineExt as _, eventually, open, open_with_lease, soon};
use jobq::engine::{
    Ask, Controlled, Engine, Figure, Pause, PoolId, PoolReport, Question, Reply, Settlement,
};
use jobq_tests::files::Directory;
use jobq_tests::jobs::{push, ready};

use super::{LEASE, LONG, Process, id_of, take};

/// Long enough for a job that would come in spite of a pause.
const EARLY: Duration = Duration::from_millis(300);

/// How many consumers of the queue belong to no pool that answers.
async fn unaccounted(engine: &dyn Engine) -> Figure<u32> {
    let ask = Ask::all(Question::Report, vec!["mail".into()], EARLY);
    let mut answers = soon("answers", engine.admin().ask(ask)).await.unwrap();
    answers.unaccounted.remove("mail").unwrap()
}

async fn unaccounted_becomes(engine: &dyn Engine, expected: u32) {
    eventually("consumers", Figure::Known(expected), || unaccounted(engine)).await;
}

#[tokio::test]
async fn a_pause_stops_other_processes() {
    let directory = Directory::new();
    let url = directory.url("jobs.db");
    let engine = open(&url, "jobq").await.unwrap();
    ready(&*engine, "mail").await;
    let mut workers = [Process::start(&url, LONG, "work"), Process::start(&url, LONG, "work")];
    unaccounted_becomes(&*engine, 2).await;
    for why in ["first", "second"] {
        let pause = Pause::new(SystemTime::now(), "ann", why);
        engine.admin().pause("mail", &pause).await.unwrap();
        // Both know when their consumers are not listed any more.
        unaccounted_becomes(&*engine, 0).await;
        let mut pushed = push(&*engine, "mail", 20).await;
        let [one, other] = &mut workers;
        let early = tokio::time::timeout(EARLY, async {
            tokio::select! { line = one.line() => line, line = other.line() => line }
        });
        assert_eq!(early.await.ok(), None);
        assert_eq!(engine.admin().counts("mail").await.unwrap().ready, 20);

        assert!(engine.admin().resume("mail").await.unwrap());
        let mut done = Vec::new();
        while done.len() < 20 {
            let line = tokio::select! { line = one.line() => line, line = other.line() => line };
            done.push(id_of(&line.expect("goes on")));
        }
        done.sort();
        pushed.sort();
        assert_eq!(done, pushed);
        unaccounted_becomes(&*engine, 2).await;
    }
}

#[tokio::test]
async fn a_killed_process_pauses_nothing_and_is_not_counted() {
    let directory = Directory::new();
    let url = directory.url("jobs.db");
    let engine = open_with_lease(&url, "jobq", LEASE).await.unwrap();
    ready(&*engine, "mail").await;
    push(&*engine, "mail", 3).await;
    let file = rusqlite::Connection::open(directory.file("jobs.db")).unwrap();
    file.busy_timeout(LONG).unwrap();
    for (lease, is_known) in [(LONG, true), (LEASE, false)] {
        let mut process = Process::start(&url, lease, "hold");
        process.ask("next").await;
        unaccounted_becomes(&*engine, 1).await;
        if !is_known {
            // As for a process in another container.
            file.execute("UPDATE owners SET process = NULL", []).unwrap();
        }
        process.signal("STOP").await;
        if is_known {
            assert_eq!(unaccounted(&*engine).await, Figure::Known(1), "it lives");
        }
        process.kill().await;
        // Nobody has taken its jobs over, since nobody else takes any.
        unaccounted_becomes(&*engine, 0).await;
        let consumers = || file.query_row("SELECT count(*) FROM consumers", [], |row| row.get(0));
        assert_eq!(consumers().unwrap(), 1_i64);
        let mut consumer = engine.consume_from("mail", 1).await.unwrap();
        soon("a settlement", take(&mut consumer).await.settle(Settlement::Release)).await.unwrap();
        eventually("consumers", 1, || async { consumers().unwrap() }).await;
        soon("a stop", consumer.stop()).await;
        eventually("consumers", 0, || async { consumers().unwrap() }).await;
    }
}

#[tokio::test]
async fn a_process_of_an_earlier_version_makes_the_count_unknown() {
    let directory = Directory::new();
    let engine = open(&directory.url("jobs.db"), "jobq").await.unwrap();
    let file = rusqlite::Connection::open(directory.file("jobs.db")).unwrap();
    assert_eq!(unaccounted(&*engine).await, Figure::Known(0));
    file.execute("INSERT INTO owners (until) VALUES (9000000000000000)", []).unwrap();
    let answer = unaccounted(&*engine).await;
    assert!(answer.why().unwrap().contains("earlier version"), "{answer:?}");
    file.execute("UPDATE owners SET until = 1", []).unwrap();
    assert_eq!(unaccounted(&*engine).await, Figure::Known(0));
}

/// A pool that keeps what it is asked.
#[derive(Debug)]
struct Pool(PoolId, Mutex<Vec<Question>>);

impl Controlled for Pool {
    fn id(&self) -> PoolId {
        self.0
    }

    fn queues(&self) -> Vec<String> {
        vec!["mail".into()]
    }

    fn answer(&self, question: &Question) -> Reply {
        self.1.lock().unwrap().push(question.clone());
        Reply::Report(PoolReport::new(self.0, "here".into(), SystemTime::now(), Vec::new()))
    }
}

#[tokio::test]
async fn questions_are_heard_once_and_only_in_time() {
    let directory = Directory::new();
    let url = directory.url("jobs.db");
    let engine = open_with_lease(&url, "jobq", LONG).await.unwrap();
    let pool = Arc::new(Pool(PoolId::new(), Mutex::default()));
    let _member = engine.admin().join(Arc::clone(&pool) as Arc<dyn Controlled>).await.unwrap();
    let file = rusqlite::Connection::open(directory.file("jobs.db")).unwrap();
    file.busy_timeout(LONG).unwrap();
    let put = |ends: i64, question: &str| {
        let sql = "INSERT INTO questions (ends, owner, pool, question)
            SELECT ?1, owner, id, ?2 FROM pools";
        assert_eq!(file.execute(sql, (ends, question)).unwrap(), 1);
    };
    // Those who asked have ended: one long ago, one with a version to come, one just now.
    put(1, r#"{"ask":"stop"}"#);
    put(i64::MAX, r#"{"ask":"dance"}"#);
    put(i64::MAX, r#"{"ask":"quiet"}"#);
    let count = |sql| file.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let answers = || count("SELECT count(*) FROM questions WHERE answer IS NOT NULL");
    let all = || count("SELECT count(*) FROM questions");
    eventually("an answer", (1, 2), || async { (answers(), all()) }).await;
    let other = open(&url, "jobq").await.unwrap();
    let ask = Ask::all(Question::Report, vec!["mail".into()], LONG);
    let found = soon("answers", other.admin().ask(ask)).await.unwrap();
    assert_eq!(found.replies.len(), 1);
    assert_eq!(*pool.1.lock().unwrap(), [Question::Quiet, Question::Report]);
    // What is over or cannot be read is removed; an answer may still be waited for.
    let left = "SELECT group_concat(question) FROM questions";
    let left: String = file.query_row(left, [], |row| row.get(0)).unwrap();
    assert_eq!(left, r#"{"ask":"quiet"}"#);
}
