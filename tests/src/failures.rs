//! Queues with failed jobs in them.

use jobq::FailedReason;
use jobq::engine::conformance::{EngineExt as _, soon};
use jobq::engine::{Engine, Envelope, QueueSpec, Settlement};
use tokio::task::JoinSet;

/// The most deliveries that are settled at once.
const AT_ONCE: u16 = 200;

/// Fails these jobs, each with the error that it has here. Those of one batch fail in any order.
///
/// # Panics
///
/// If the engine does not do as it is told.
pub async fn fail(engine: &dyn Engine, queue: &str, jobs: impl Iterator<Item = Envelope> + Send) {
    engine.declare(&[QueueSpec::new(queue)]).await.expect("declares");
    let mut count = 0;
    let not_pushed = engine.push_all(&mut jobs.inspect(|_| count += 1)).await;
    assert!(not_pushed.is_empty(), "{not_pushed:?}");
    let mut consumer = engine.consume_from(queue, AT_ONCE).await.expect("consumes");
    while count > 0 {
        let mut settling = JoinSet::new();
        for _ in 0..count.min(AT_ONCE.into()) {
            let next = soon("a delivery", consumer.next()).await;
            let delivery = next.expect("the consumer goes on").expect("a delivery");
            let error = String::from_utf8_lossy(&delivery.envelope().payload).into_owned();
            let reason = FailedReason::Exhausted;
            settling.spawn(delivery.settle(Settlement::Fail { reason, error, attempts: 1 }));
        }
        count -= settling.len();
        for settled in settling.join_all().await {
            settled.expect("settles");
        }
    }
    soon("the consumer to stop", consumer.stop()).await;
}
