//! Files of earlier versions of jobq: looking leaves them as they are, programs migrate them.

use jobq::admin::{Place, Queues};
use jobq::engine::conformance::{EngineExt as _, open, soon};
use jobq::engine::{Ask, Figure, Pause, Question, QueueSpec, Verdict};
use jobq::{BoxError, Client, ErrorKind, WorkerPool, job};
use jobq_tests::files::{Directory, NEWEST_SCHEMA, make_job_file, schema_of};
use jobq_tests::jobs::push;
use jobq_tests::test_store::{Scripted, Step, until};

use super::LONG;
use super::places::assert_says;

/// The schema before the newest.
const BEFORE: usize = NEWEST_SCHEMA - 1;

/// What a file holds, without the numbers of its log.
fn content(directory: &Directory) -> String {
    let file = rusqlite::Connection::open(directory.file("jobs.db")).unwrap();
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    let mut tables = file.prepare(tables).unwrap();
    let names = tables.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let dump = |name: String| {
        let mut rows = file.prepare(&format!("SELECT * FROM {name}")).unwrap();
        let columns = rows.column_count();
        let rows = rows.query_map([], |row| {
            (0..columns)
                .map(|column| row.get_ref(column).map(|value| format!("{value:?}")))
                .collect()
        });
        let rows: Vec<Vec<String>> = rows.unwrap().map(Result::unwrap).collect();
        format!("{name} {rows:?}")
    };
    names.map(|name| dump(name.unwrap())).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn looking_reads_the_schema_before_and_changes_nothing() {
    for schema in [BEFORE, NEWEST_SCHEMA] {
        let directory = Directory::new();
        let path = directory.file("jobs.db");
        make_job_file(&path, schema);
        let before = content(&directory);
        let engine = open(&directory.url("jobs.db"), "jobq").await.unwrap();
        let admin = engine.admin();
        let counts = soon("counts", admin.counts("mail")).await.unwrap();
        // A job is ready, one waits, one has failed, and one comes of an event.
        assert_eq!((counts.ready, counts.waiting, counts.failed), (2.into(), 1.into(), 1.into()));
        assert_eq!(admin.parts("mail").await.unwrap().len(), 4);
        assert_eq!(admin.queues().await.unwrap().names.len(), 1);
        assert_eq!(admin.paused("mail").await.unwrap(), Figure::Known(None));
        let mut seen = 0;
        let visit = admin.failed_visit(
            "mail",
            Box::new(move |job| {
                seen += 1;
                assert_eq!((job.error(), seen), ("no", 1));
                Verdict::Keep
            }),
        );
        assert!(soon("failed jobs", visit).await.unwrap().complete);
        let ask = Ask::all(Question::Report, vec!["mail".to_owned()], LONG);
        let answers = soon("answers", admin.ask(ask)).await.unwrap();
        assert_eq!(answers.unaccounted["mail"], Figure::Known(0));
        assert!(engine.diagnose().unwrap().examine(&[]).await.unwrap().is_sound());
        soon("the end", engine.close()).await;
        assert_eq!((schema_of(&path), content(&directory)), (schema, before));
    }
}

#[tokio::test]
async fn changes_use_the_schema_before_as_it_is_and_programs_migrate() {
    let directory = Directory::new();
    let path = directory.file("jobs.db");
    make_job_file(&path, BEFORE);
    let engine = open(&directory.url("jobs.db"), "jobq").await.unwrap();
    let admin = engine.admin();
    admin.pause("mail", &Pause::default()).await.unwrap();
    assert!(admin.resume("mail").await.unwrap());
    let visited = admin.failed_visit("mail", Box::new(|_| Verdict::Retry)).await.unwrap();
    assert_eq!(visited.settled.len(), 1);
    assert_eq!(admin.counts("mail").await.unwrap().ready, 3);
    assert_eq!(schema_of(&path), BEFORE);

    push(&*engine, "mail", 1).await;
    assert_eq!(schema_of(&path), NEWEST_SCHEMA);
    assert_eq!(admin.counts("mail").await.unwrap().ready, 4);
}

#[tokio::test]
async fn a_consumer_and_a_declaration_migrate() {
    for schema in [1, BEFORE] {
        for consumes in [true, false] {
            let directory = Directory::new();
            let path = directory.file("jobs.db");
            make_job_file(&path, schema);
            let engine = open(&directory.url("jobs.db"), "jobq").await.unwrap();
            if consumes {
                let mut consumer = engine.consume_from("mail", 1).await.unwrap();
                super::take(&mut consumer).await;
            } else {
                engine.declare(&[QueueSpec::new("mail")]).await.unwrap();
            }
            assert_eq!(schema_of(&path), NEWEST_SCHEMA);
        }
    }
}

#[tokio::test]
async fn an_older_file_is_refused_by_its_version_until_it_is_migrated() {
    for schema in [1, BEFORE - 1] {
        let directory = Directory::new();
        let (url, path) = (directory.url("jobs.db"), directory.file("jobs.db"));
        make_job_file(&path, schema);
        let client = Client::connect(&url).await.unwrap();
        let has = format!("has schema {schema} of");
        let fragments = [&*has, "`jobq migrate ", &path.display().to_string()];
        for error in [
            client.counts("mail").await.unwrap_err(),
            client.doctor().await.unwrap_err(),
            client.failed("mail").list(1).await.unwrap_err(),
            client.admin().pause("mail", "a deploy").await.unwrap_err(),
            client.admin().pools(Queues::All, LONG).await.unwrap_err(),
        ] {
            assert_says(&error, ErrorKind::Refused, &fragments);
        }
        let tool = Client::builder(&url).keep_schema();
        let error = tool.clone().connect().await.unwrap_err();
        assert_says(&error, ErrorKind::Refused, &fragments);
        assert_eq!(schema_of(&path), schema);

        let migrated = Client::builder(&url).migrate().await.unwrap();
        assert_eq!((migrated.from, migrated.to), (schema as u64, NEWEST_SCHEMA as u64));
        assert!(!migrated.clock_replaced);
        assert_eq!(client.counts("mail").await.unwrap().failed, 1, "of the same client");
        let job = Scripted { steps: vec![Step::Succeed] };
        tool.connect().await.unwrap().enqueue(job).await.unwrap();
        let again = Client::builder(&url).migrate().await.unwrap();
        assert_eq!((again.from, schema_of(&path)), (again.to, NEWEST_SCHEMA));
    }
}

#[tokio::test]
async fn a_tool_enqueues_with_the_schema_before() {
    let directory = Directory::new();
    let (url, path) = (directory.url("jobs.db"), directory.file("jobs.db"));
    make_job_file(&path, BEFORE);
    let job = || Scripted { steps: vec![Step::Succeed] };
    let tool = Client::builder(&url).keep_schema().connect().await.unwrap();
    tool.enqueue(job()).await.unwrap();
    assert_eq!(schema_of(&path), BEFORE);
    let client = Client::connect(&url).await.unwrap();
    assert_eq!(client.counts("scripted").await.unwrap().ready, 1);
    assert_eq!(schema_of(&path), BEFORE, "of a client that has only looked");
    client.enqueue(job()).await.unwrap();
    assert_eq!(schema_of(&path), NEWEST_SCHEMA);
    assert_eq!(tool.counts("scripted").await.unwrap().ready, 2);
}

#[job(priorities)]
async fn ranked() -> Result<(), BoxError> {
    Ok(())
}

#[tokio::test]
async fn a_priority_in_a_file_of_schema_9_is_found_by_the_migration() {
    let directory = Directory::new();
    let (url, path) = (directory.url("jobs.db"), directory.file("jobs.db"));
    make_job_file(&path, 9);
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch("INSERT INTO queues (namespace, name) VALUES ('jobq', 'ranked')").unwrap();
    let insert = "INSERT INTO jobs (queue, due, attempts, job_id, enqueued_at, payload, headers)
        SELECT id, 5, 0, randomblob(16), 4, x'7b7d', ?1 FROM queues WHERE name = 'ranked'";
    for headers in [Some("low"), Some("high"), None] {
        let headers = headers.map(|priority| format!(r#"{{"jobq-priority":"{priority}"}}"#));
        db.execute(insert, [headers]).unwrap();
    }
    drop(db);
    let parts = async |client: &Client| {
        let overview = client.admin().overview(Queues::one("ranked")).await.unwrap();
        let parts = overview.queues.into_iter().flat_map(|queue| queue.parts);
        let due = parts.filter(|part| part.jobs.known() > Some(&0));
        due.map(|part| (part.place, *part.jobs.known().unwrap())).collect::<Vec<_>>()
    };
    Client::builder(&url).migrate().await.unwrap();
    let client = Client::connect(&url).await.unwrap();
    let expected = [(Place::High, 1), (Place::Ready, 1), (Place::Low, 1)];
    assert_eq!(parts(&client).await, expected);
    let pool = WorkerPool::new(&client).register::<Ranked>().spawn().await.unwrap();
    until("the jobs to end", async || {
        client.counts("ranked").await.unwrap().is_empty().then_some(())
    })
    .await;
    pool.shutdown().await.unwrap();
}

#[tokio::test]
async fn only_a_file_that_is_there_is_migrated() {
    let directory = Directory::new();
    let builder = Client::builder(directory.url("missing.db"));
    assert_says(&builder.migrate().await.unwrap_err(), ErrorKind::Refused, &["does not exist"]);
    assert!(!directory.file("missing.db").exists());
    let error = Client::builder("amqp://localhost").migrate().await.unwrap_err();
    assert_says(&error, ErrorKind::Unsupported, &["the URL of a broker"]);
}
