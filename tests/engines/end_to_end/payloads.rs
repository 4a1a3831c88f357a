//! A payload arrives as it was enqueued, or is refused.

use std::collections::{BTreeMap, HashMap};

use jobq::{BoxError, Client, ErrorKind, FailedReason, Job, State, WorkerPool, job};
use jobq_tests::both_engines;
use jobq_tests::test_store::{Store, soon, until};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;

both_engines!(
    numbers_arrive_bit_for_bit,
    what_json_would_change_is_refused,
    what_no_worker_could_read_is_refused,
);

const FAILS: f64 = 90.333_333_333_333_33;

type Readings = mpsc::UnboundedSender<(f64, f32, u128, Value)>;

#[job(retries = 0)]
async fn measure(
    reading: f64,
    short: f32,
    count: u128,
    any: Value,
    readings: State<Readings>,
) -> Result<(), BoxError> {
    readings.send((reading, short, count, any))?;
    if reading.to_bits() == FAILS.to_bits() { Err("it is too hot".into()) } else { Ok(()) }
}

#[allow(clippy::option_option)] // a user may write it, and JSON cannot carry it
type Text = Option<Option<String>>;

#[job]
async fn note(text: Text, mark: Option<()>) -> Result<(), BoxError> {
    drop((text, mark));
    Ok(())
}

/// A job with this reading, and others made of it.
fn measured(reading: f64) -> Measure {
    #[allow(clippy::cast_possible_truncation)] // also a `f32` with all its digits
    let short = reading as f32;
    let short = if short.is_finite() { short } else { 0.1 };
    let any = json!({"reading": [reading], "digits": reading.to_string()});
    Measure { reading, short, count: u128::MAX - u128::from(reading.to_bits()), any }
}

fn pool(client: &Client, readings: Readings) -> WorkerPool {
    WorkerPool::new(client).state(readings).register::<Measure>().register::<Note>()
}

async fn numbers_arrive_bit_for_bit(store: Store) {
    let client = store.client().await;
    let (readings, mut heard) = mpsc::unbounded_channel();
    let running = pool(&client, readings).spawn().await.unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let random = std::iter::repeat_with(|| f64::from_bits(random.u64(..)));
    let numbers: Vec<_> = [FAILS, -0.0, 5e-324, f64::MAX, 1e23]
        .into_iter()
        .chain(random.filter(|number| number.is_finite()).take(2_000))
        .collect();
    client.enqueue_all(numbers.iter().copied().map(measured)).await.unwrap();
    let mut left: HashMap<_, _> =
        numbers.iter().map(|number| (number.to_bits(), measured(*number))).collect();
    while !left.is_empty() {
        let (reading, short, count, any) = soon("a reading", heard.recv()).await.unwrap();
        let sent = left.remove(&reading.to_bits()).expect("this was sent");
        assert_eq!((short.to_bits(), count, any), (sent.short.to_bits(), sent.count, sent.any));
    }

    let failed =
        until("the failed job", async || client.failed("measure").list(1).await.ok()?.pop()).await;
    let sent = measured(FAILS);
    let shown = json!({
        "reading": FAILS,
        // `serde_json::Value` has no such integer.
        "count": sent.count.to_string(),
        "short": failed.payload()["short"],
        "any": sent.any,
    });
    assert_eq!(failed.payload(), shown);
    assert_eq!(failed.payload_bytes(), serde_json::to_vec(&sent).unwrap());
    running.shutdown().await.unwrap();
}

async fn what_json_would_change_is_refused(store: Store) {
    let client = store.client().await;
    let note = |text, mark| Note { text, mark };
    let refused = [
        client.enqueue(measured(f64::NAN)).await.unwrap_err(),
        client.enqueue(measured(f64::NEG_INFINITY)).await.unwrap_err(),
        client.enqueue(note(Some(None), None)).await.unwrap_err(),
        client.enqueue(note(None, Some(()))).await.unwrap_err(),
        client.publish("readings.new", &[f64::INFINITY]).await.unwrap_err(),
        client.enqueue_all([measured(f64::NAN)]).await.unwrap_err().refused()[0].1.clone(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        assert!(!error.maybe_enqueued());
    }
    for text in [None, Some(Some("a text".to_owned()))] {
        client.enqueue(note(text, None)).await.unwrap();
    }
    assert_eq!(client.counts("note").await.unwrap().ready, 2);
    assert_eq!(client.counts("measure").await.unwrap().ready, 0);
}

/// Types that serde writes and does not read: JSON turns keys into texts, and what has to be looked
/// at before it is read keeps them so.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind")]
enum Tagged {
    ById { names: BTreeMap<u32, String> },
    ByMark { names: BTreeMap<bool, String> },
    Wide { count: i128 },
    Text { name: String },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    ById { names: BTreeMap<i64, String> },
    Text { name: String },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Flattened {
    id: u64,
    #[serde(flatten)]
    names: BTreeMap<u64, String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Twice {
    id: u64,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, Job)]
#[job(name = "sort", retries = 0)]
struct Sort {
    tagged: Option<Tagged>,
    untagged: Option<Untagged>,
    flattened: Option<Flattened>,
    twice: Option<Twice>,
    plain: BTreeMap<u32, i128>,
}

#[job]
async fn rename(
    #[serde(rename(serialize = "from_name", deserialize = "from"))] from: String,
) -> Result<(), BoxError> {
    drop(from);
    Ok(())
}

#[derive(Debug, Serialize, Deserialize, Job)]
#[job(name = "hurry", retries = 0, unchecked)]
struct Hurry {
    tagged: Tagged,
}

async fn hurry(job: Hurry) -> Result<(), BoxError> {
    drop(job);
    Ok(())
}

async fn what_no_worker_could_read_is_refused(store: Store) {
    let client = store.client().await;
    let ann = || "ann".to_owned();
    let tagged = |tagged| Sort { tagged: Some(tagged), ..Sort::default() };
    let untagged = |untagged| Sort { untagged: Some(untagged), ..Sort::default() };
    let flattened = |names| Sort { flattened: Some(Flattened { id: 1, names }), ..Sort::default() };
    let twice = |key: &str| {
        let others = BTreeMap::from([(key.to_owned(), json!(2))]);
        Sort { twice: Some(Twice { id: 1, others }), ..Sort::default() }
    };
    let unreadable = [
        tagged(Tagged::ById { names: BTreeMap::from([(7, ann())]) }),
        tagged(Tagged::ByMark { names: BTreeMap::from([(true, ann())]) }),
        tagged(Tagged::Wide { count: 5 }),
        untagged(Untagged::ById { names: BTreeMap::from([(-7, ann())]) }),
        flattened(BTreeMap::from([(7, ann())])),
        twice("id"),
    ];
    let said = "`engines::end_to_end::payloads::Sort` cannot be deserialized from its own JSON";
    for job in &unreadable {
        let error = client.enqueue(job.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{job:?}: {error:?}");
        assert!(!error.maybe_enqueued());
        let cause = std::error::Error::source(&error).unwrap().to_string();
        for part in ["job `sort`", said, &cause] {
            assert!(error.to_string().contains(part), "`{part}` in {error}");
        }
    }
    let error = client.enqueue_all(unreadable.clone()).await.unwrap_err();
    assert_eq!(error.refused().len(), unreadable.len());
    let error = client.enqueue(Rename { from: ann() }).await.unwrap_err();
    assert!(error.to_string().contains("missing field `from`"), "{error}");

    let readable = [
        Sort { plain: BTreeMap::from([(7, i128::MIN)]), ..Sort::default() },
        tagged(Tagged::ById { names: BTreeMap::new() }),
        tagged(Tagged::Text { name: ann() }),
        untagged(Untagged::Text { name: ann() }),
        flattened(BTreeMap::new()),
        twice("other"),
    ];
    client.enqueue_all(readable.clone()).await.unwrap();
    assert_eq!(client.counts("sort").await.unwrap().ready, readable.len() as u64);

    // Whoever turns the check off finds the job among the failed ones.
    client.enqueue(Hurry { tagged: Tagged::Wide { count: 5 } }).await.unwrap();
    let running = WorkerPool::new(&client).handle(hurry).spawn().await.unwrap();
    let failed =
        until("the failed job", async || client.failed("hurry").list(1).await.ok()?.pop()).await;
    assert_eq!(failed.reason(), FailedReason::UnreadablePayload);
    running.shutdown().await.unwrap();
}
