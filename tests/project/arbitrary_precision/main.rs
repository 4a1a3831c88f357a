//! A program whose other crates enable `arbitrary_precision` of `serde_json`: every float that serde
//! looks at before it reads it is unreadable. It is built without debug assertions.

use jobq::testing::Jobs;
use jobq::{BoxError, ErrorKind, Job, State, job};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::mpsc::{Sender, channel};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
enum Reading {
    Warm { degrees: f64 },
    Unknown { at: u64 },
}

#[job]
async fn measure(reading: Reading) -> Result<(), BoxError> {
    drop(reading);
    Ok(())
}

#[derive(Serialize, Deserialize, Job)]
struct Report {
    reading: Reading,
}

/// What the fields of a plain payload are.
#[job]
fn plain(
    degrees: f64,
    all: Vec<Option<f64>>,
    numbers: Vec<i64>,
    told: State<Sender<(f64, Vec<Option<f64>>, Vec<i64>)>>,
) -> Result<(), BoxError> {
    Ok(told.send((degrees, all, numbers))?)
}

#[job]
fn note(any: Value, told: State<Sender<Value>>) -> Result<(), BoxError> {
    Ok(told.send(any)?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    assert!(!cfg!(debug_assertions));
    let (plains, heard) = channel();
    let (notes, noted) = channel();
    let jobs = Jobs::new().state(plains).state(notes);
    let jobs = jobs.register::<Measure>().register::<Plain>().register::<Note>().start().await;
    let client = jobs.client();

    let warm = || Reading::Warm { degrees: 36.6 };
    let errors = [
        client.enqueue(Measure { reading: warm() }).await.unwrap_err(),
        client.enqueue(Report { reading: warm() }).await.unwrap_err(),
    ];
    for (error, name) in errors.iter().zip(["Measure", "Report"]) {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(&format!("::{name}` cannot be deserialized")), "{error}");
        println!("refused: {error}");
    }
    client.enqueue(Measure { reading: Reading::Unknown { at: 7 } }).await.unwrap();

    let sent = (90.333_333_333_333_33, vec![None, Some(-0.0), Some(5e-324)], vec![i64::MIN, 0]);
    let (degrees, all, numbers) = sent.clone();
    client.enqueue(Plain { degrees, all, numbers }).await.unwrap();
    let any = json!({"a": [1.5, u64::MAX], "b": 1e300});
    client.enqueue(Note { any: any.clone() }).await.unwrap();
    jobs.drain().await.all_completed();
    assert_eq!((heard.recv().unwrap(), noted.recv().unwrap()), (sent, any));
}
