//! A payload arrives as it was enqueued, or is refused.

use std::collections::HashMap;

use jobq::{BoxError, Client, ErrorKind, State, WorkerPool, job};
use jobq_tests::both_engines;
use jobq_tests::stage::{Store, soon, until};
use serde_json::{Value, json};
use tokio::sync::mpsc;

both_engines!(numbers_arrive_bit_for_bit, what_json_would_change_is_refused);

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
