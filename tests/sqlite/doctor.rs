//! What the doctor finds of a file.

use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};

use jobq::{Client, ErrorKind, FindingKind, Severity};
use jobq_tests::test_store::{Scripted, Step, Store, TestStore};

#[tokio::test]
async fn of_a_sound_file_nothing_is_found() {
    let test = TestStore::on(Store::sqlite().await).await;
    test.enqueue([Step::Succeed]).await;
    let report = test.client.doctor().job::<Scripted>().await.expect("it can be examined");
    // What the machine of the test is like is not the test's matter.
    let of_the_file: Vec<_> = report
        .findings()
        .iter()
        .filter(|found| !matches!(found.kind(), FindingKind::Space | FindingKind::Place))
        .collect();
    assert!(of_the_file.is_empty(), "{report}");
    assert!(report.version().is_some_and(|version| version.starts_with("3.")), "{report}");
    assert!(report.to_string().contains("jobs.db"), "{report}");
}

#[tokio::test]
async fn a_file_in_memory_is_told() {
    let report = jobq::doctor("sqlite::memory:").await.expect("it can be examined");
    let [found] = report.findings() else { panic!("{report}") };
    assert_eq!((found.kind(), found.severity()), (FindingKind::Place, Severity::Warning));
}

#[tokio::test]
async fn a_damaged_file_is_told() {
    let store = Store::sqlite().await;
    let test = TestStore::on(store).await;
    for _ in 0..200 {
        test.enqueue([Step::Fail("x".repeat(1_000))]).await;
    }
    // All of it is in the file itself when the last client has left.
    test.client.close().await;
    let path = test.store.url.strip_prefix("sqlite://").expect("it is a file's");
    let length = fs::metadata(path).expect("it is there").len();
    assert!(length > 224 * 1024, "{length}");
    let mut file = fs::File::options().write(true).open(path).expect("it can be written");
    // Behind the first pages of all tables, without which it cannot be opened.
    file.seek(SeekFrom::Start(160 * 1024)).expect("it is long enough");
    file.write_all(&vec![0xff; 32 * 1024]).expect("it is damaged now");
    let client = test.store.client().await;
    let report = client.doctor().await.expect("it can be examined");
    let damage = report.errors().find(|found| found.kind() == FindingKind::Damage);
    assert!(damage.is_some_and(|found| found.about().contains("jobs.db")), "{report}");
}

#[tokio::test]
async fn a_file_has_no_management_api() {
    let builder = Client::builder("sqlite::memory:").management("http://ann:geheim@mq");
    assert!(!format!("{builder:?}").contains("geheim"));
    let error = builder.connect().await.expect_err("there is nobody to ask");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    let error = Client::builder("amqp://localhost").management("geheim").connect().await;
    let error = error.expect_err("it is no URL");
    assert!(error.is_invalid() && !format!("{error:?}").contains("geheim"), "{error:?}");
}
