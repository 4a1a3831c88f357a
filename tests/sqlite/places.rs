//! Places in which a file of jobs cannot be, and others that are there only for a while:
//! each is told clearly, and nothing is changed or lost.

use std::path::Path;
use std::time::Duration;

use jobq::engine::conformance::{EngineExt as _, eventually, open, soon};
use jobq::engine::{Figure, Part, Place, Verdict};
use jobq::{Client, Error, ErrorKind};
use jobq_tests::files::{Directory, SmallDisk};
use jobq_tests::jobs::{push, ready};
use jobq_tests::test_store::{Scripted, Step, Store, TestStore};

pub(super) async fn refusal(path: &Path) -> Error {
    let url = format!("sqlite://{}", path.display());
    let client = Client::builder(&url).timeout(Duration::from_millis(200));
    let error = soon("an answer", client.connect()).await.expect_err("refused");
    assert!(error.to_string().contains(&path.display().to_string()), "names the file: {error}");
    error
}

pub(super) fn assert_says(error: &Error, kind: ErrorKind, fragments: &[&str]) {
    assert_eq!(error.kind(), kind, "{error:?}");
    for fragment in fragments {
        assert!(error.to_string().contains(fragment), "expected `{fragment}` in: {error}");
    }
}

#[tokio::test]
async fn a_file_that_is_no_database_is_left_alone() {
    let directory = Directory::new();
    for text in ["no database", &"no database, and longer than a page. ".repeat(500)] {
        let path = directory.file("letter.txt");
        std::fs::write(&path, text).unwrap();
        let error = refusal(&path).await;
        assert_says(&error, ErrorKind::Refused, &["is not an SQLite file", "use another file"]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}

#[tokio::test]
async fn a_database_of_another_program_is_left_alone() {
    let directory = Directory::new();
    let path = directory.file("other.db");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE letters (text TEXT)").unwrap();
    let error = refusal(&path).await;
    let fragments = ["belongs to another program", "expected 0x6a6f6271", "a file of its own"];
    assert_says(&error, ErrorKind::Refused, &fragments);
    let mode: String = other.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "delete", "nothing was written");
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_refused() {
    let directory = Directory::new();
    let path = directory.file("jobs.db");
    open(&directory.url("jobs.db"), "jobq").await.unwrap().close().await;
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch("PRAGMA user_version = 1000").unwrap();
    drop(file);
    let before = std::fs::read(&path).unwrap();
    let error = refusal(&path).await;
    let fragments = ["newer jobq", "schema 1000", "supports schemas up to", "update this program"];
    assert_says(&error, ErrorKind::Refused, &fragments);
    assert!(std::fs::read(&path).unwrap() == before, "nothing was written");
}

#[tokio::test]
async fn a_missing_directory_and_a_directory_are_told() {
    let directory = Directory::new();
    let error = refusal(&directory.file("missing/jobs.db")).await;
    let missing = directory.file("missing").display().to_string();
    assert_says(
        &error,
        ErrorKind::Refused,
        &["the directory", &missing, "does not exist; create it"],
    );
    let error = refusal(directory.path()).await;
    assert_says(&error, ErrorKind::Refused, &["is a directory", "use a file"]);
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_refused() {
    let directory = Directory::new();
    let path = directory.file("jobs.db");
    open(&directory.url("jobs.db"), "jobq").await.unwrap().close().await;
    let mut permissions = std::fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&path, permissions).unwrap();
    if std::fs::OpenOptions::new().write(true).open(&path).is_ok() {
        println!("not applicable: this user may write read-only files");
        return;
    }
    let error = refusal(&path).await;
    assert_says(&error, ErrorKind::Refused, &["write permission"]);
}

#[tokio::test]
async fn a_locked_file_is_waited_for_and_then_told() {
    let directory = Directory::new();
    let path = directory.file("jobs.db");
    let url = directory.url("jobs.db");
    // An engine with the client's timeout of 200 ms.
    let client = Client::builder(&url).timeout(Duration::from_millis(200)).connect().await.unwrap();
    let engine = open(&url, "jobq").await.unwrap();
    ready(&*engine, "mail").await;
    let holder = rusqlite::Connection::open(&path).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let admin = client.admin();
    let error = soon("an answer", admin.pause("mail", "a deploy")).await.unwrap_err();
    let fragments = ["is locked by another process", &path.display().to_string(), "timeout"];
    assert_says(&error, ErrorKind::Timeout, &fragments);
    assert!(!error.maybe_enqueued());
    holder.execute_batch("ROLLBACK").unwrap();
    admin.pause("mail", "a deploy").await.expect("not locked any more");
    client.close().await;

    // A file that another program keeps to itself cannot even be looked at.
    engine.close().await;
    holder.execute_batch("PRAGMA locking_mode = exclusive; BEGIN EXCLUSIVE").unwrap();
    assert_says(&refusal(&path).await, ErrorKind::Timeout, &["is locked by another process"]);
}

#[tokio::test]
async fn a_call_with_a_timeout_waits_no_longer_for_a_locked_file() {
    let directory = Directory::new();
    let url = directory.url("jobs.db");
    let client = Client::connect(&url).await.unwrap();
    client.declare::<Scripted>().await.unwrap();
    let holder = rusqlite::Connection::open(directory.file("jobs.db")).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let job = || Scripted { steps: vec![Step::Succeed] };
    let call = client.enqueue(job()).timeout("100ms").into_future();
    let error = soon("an answer", call).await.unwrap_err();
    assert_says(&error, ErrorKind::Timeout, &["no answer in 100ms"]);
    assert!(error.maybe_enqueued(), "it is on its way");
    let call = client.publish("user.created", &7).timeout("100ms").into_future();
    assert!(soon("an answer", call).await.unwrap_err().maybe_enqueued());
    // Two batches are on their way.
    let call = client.enqueue_all((0..5_000).map(|_| job())).timeout("100ms").into_future();
    let error = soon("an answer", call).await.unwrap_err();
    let (refused, unknown) = (error.refused().len(), error.unknown().len());
    assert_eq!((error.accepted().len(), refused + unknown), (0, 5_000));
    assert!(unknown > 0 && refused > 0, "{error}");

    holder.execute_batch("ROLLBACK").unwrap();
    let all = u64::try_from(unknown).unwrap() + 1;
    eventually("those on their way", all.into(), || async {
        client.counts("scripted").await.unwrap().ready
    })
    .await;
}

/// A process that only looks waits for nobody, and nobody waits for it.
#[tokio::test]
async fn a_locked_file_is_read() {
    let directory = Directory::new();
    let engine = open(&directory.url("jobs.db"), "jobq").await.unwrap();
    ready(&*engine, "mail").await;
    push(&*engine, "mail", 3).await;

    let holder = rusqlite::Connection::open(directory.file("jobs.db")).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let admin = engine.admin();
    assert_eq!(soon("counts", admin.counts("mail")).await.unwrap().ready, 3);
    let parts = soon("parts", admin.parts("mail")).await.unwrap();
    assert!(parts.contains(&Part::new(Place::Ready, 3)), "{parts:?}");
    assert!(soon("names", admin.queues()).await.unwrap().names.contains("mail"));
    assert_eq!(soon("a pause", admin.paused("mail")).await.unwrap(), Figure::Known(None));
    let visit = admin.failed_visit("mail", Box::new(|_| Verdict::Keep));
    assert!(soon("failed jobs", visit).await.unwrap().complete);
    engine.diagnose().unwrap().examine(&[]).await.unwrap();
}

#[tokio::test]
async fn a_file_on_a_read_only_disk_is_refused() {
    let test = "a_file_on_a_read_only_disk_is_refused";
    let Some(disk) = SmallDisk::mount(test, 1024 * 1024) else {
        return;
    };
    let path = disk.directory().file("jobs.db");
    let engine = open(&disk.directory().url("jobs.db"), "jobq").await.unwrap();
    ready(&*engine, "mail").await;
    engine.close().await;
    let before = std::fs::read(&path).unwrap();
    disk.make_read_only();
    assert_says(
        &refusal(&path).await,
        ErrorKind::Refused,
        &["grant this user", "write permission"],
    );
    let new = disk.directory().file("new.db");
    assert_says(&refusal(&new).await, ErrorKind::Refused, &["grant this user", "write permission"]);
    assert!(std::fs::read(&path).unwrap() == before && !new.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_goes_on_by_itself_when_a_lock_is_over() {
    let mut test = TestStore::on(Store::sqlite().await).await;
    let path = test.store.url.strip_prefix("sqlite://").unwrap().to_owned();
    let client = Client::builder(&test.store.url).namespace(&test.store.namespace);
    let client = client.timeout(Duration::from_millis(200)).connect().await.unwrap();
    let running = test.pool_of(&client).spawn().await.unwrap();
    let held = test.enqueue([Step::Wait]).await;
    assert_eq!(test.run().await.id, held);

    let holder = rusqlite::Connection::open(&path).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = client.enqueue(Scripted { steps: vec![Step::Succeed] });
    let error = soon("an answer", refused.into_future()).await.unwrap_err();
    assert_says(&error, ErrorKind::Timeout, &["is locked by another process", &path, "timeout"]);
    assert!(!error.maybe_enqueued());
    // It ends while that cannot be recorded.
    test.go();
    assert_eq!(test.end().await, held);
    let error = client.failed("scripted").retry_all().await.unwrap_err();
    assert_says(&error, ErrorKind::Timeout, &["is locked by another process"]);
    holder.execute_batch("ROLLBACK").unwrap();

    let next = test.enqueue([Step::Succeed]).await;
    assert_eq!(test.run().await.id, next, "neither the refused one nor one that has ended");
    eventually("jobs in the file", 0, || async {
        holder.query_row("SELECT count(*) FROM jobs", [], |row| row.get::<_, i64>(0)).unwrap()
    })
    .await;
    assert!(!test.has_run());
    running.shutdown().await.unwrap();
}

/// A file that is not where it was opened.
async fn tell_of_a_lost_file(lose: fn(&Path)) {
    let store = Store::sqlite().await;
    let path = store.url.trim_start_matches("sqlite://").to_owned();
    let mut test = TestStore::on(store).await;
    let running = test.pool().spawn().await.unwrap();
    test.enqueue([Step::Succeed]).await;
    test.end().await;

    lose(Path::new(&path));
    let told = soon("the end of the pool", running.wait()).await.unwrap_err();
    assert_says(&told, ErrorKind::Refused, &[&path, "removed or replaced", "start the program"]);
    for _ in 0..2 {
        let job = Scripted { steps: vec![Step::Succeed] };
        let error = test.client.enqueue(job).await.unwrap_err();
        assert_says(&error, ErrorKind::Refused, &[&path, "removed or replaced"]);
        assert!(!error.maybe_enqueued(), "nobody finds it");
    }
    assert!(test.client.counts("scripted").await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_removed_is_told() {
    tell_of_a_lost_file(|path| std::fs::remove_file(path).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_replaced_is_told() {
    tell_of_a_lost_file(|path| {
        let copy = path.with_extension("copy");
        std::fs::copy(path, &copy).unwrap();
        std::fs::rename(copy, path).unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_file_that_is_moved_away_and_back_is_used_again() {
    let store = Store::sqlite().await;
    let path = store.url.trim_start_matches("sqlite://").to_owned();
    let client = store.client().await;
    let job = || Scripted { steps: vec![Step::Succeed] };
    client.enqueue(job()).await.unwrap();
    let away = format!("{path}.away");
    std::fs::rename(&path, &away).unwrap();
    assert!(!client.enqueue(job()).await.unwrap_err().maybe_enqueued());
    std::fs::rename(&away, &path).unwrap();
    client.enqueue(job()).await.unwrap();
    assert_eq!(client.counts("scripted").await.unwrap().ready, 2);
}
