//! Relays in the reports of pools, and pools that have nothing but a relay.

use std::time::Duration;

use jobq::admin::{Order, PoolRelay, Queues, RelayActivity};
use jobq::{Client, WorkerPool};
use jobq_outbox_facts::Postgres;
use jobq_tests::both_engines;
use jobq_tests::test_store::Store;
use jobq_tokio_postgres::PgOutbox;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(60);

/// The report of the only pool about its only relay, when that is as expected.
async fn relay_until(client: &Client, is_so: impl Fn(&PoolRelay) -> bool) -> PoolRelay {
    let looking = async {
        loop {
            let pools =
                client.admin().pools(Queues::All, Duration::from_secs(1)).await.unwrap().pools;
            if let [pool] = &*pools
                && let [relay] = &*pool.relays
                && is_so(relay)
            {
                return relay.clone();
            }
        }
    };
    timeout(LIMIT, looking).await.expect("the pool reports its relay so")
}

both_engines!(a_pool_may_have_a_relay_alone);

async fn a_pool_may_have_a_relay_alone(store: Store) {
    let (database, client) = (Postgres::start(), store.client().await);
    let namespace = &store.namespace;
    database.sql(&format!(
        "INSERT INTO jobq_outbox (namespace, queue, name, job_id, payload)
        VALUES ('{namespace}', 'absent', 'absent', gen_random_uuid(), '7')"
    ));
    let outbox = PgOutbox::connect(database.url("postgres")).await.unwrap();
    let running = WorkerPool::new(&client).relay(outbox).spawn().await.unwrap();
    let relay = relay_until(&client, |relay| relay.refused == Some(1)).await;
    assert_eq!((relay.state, relay.waiting, relay.oldest), (RelayActivity::Sending, Some(0), None));
    assert!(relay.source.starts_with("jobq_outbox of database"), "{relay:?}");
    database.sql("ALTER TABLE jobq_outbox RENAME TO elsewhere");
    let relay = relay_until(&client, |relay| relay.problem.is_some()).await;
    assert_eq!(relay.state, RelayActivity::Interrupted);
    assert!(relay.since.is_some() && relay.problem.unwrap().contains("does not exist"));
    // It takes the orders of a pool.
    let pool =
        client.admin().pools(Queues::All, Duration::from_secs(1)).await.unwrap().pools[0].pool;
    client.admin().tell(pool, Order::Quiet).await.unwrap();
    relay_until(&client, |relay| relay.state == RelayActivity::Ended).await;
    client.admin().tell(pool, Order::Stop).await.unwrap();
    timeout(LIMIT, running.wait()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_relay_alone_ends_with_its_client() {
    let client = Client::connect("sqlite::memory:").await.unwrap();
    let database = Postgres::start();
    let outbox = PgOutbox::connect(database.url("postgres")).await.unwrap();
    let running = WorkerPool::new(&client).relay(outbox).spawn().await.unwrap();
    client.close().await;
    let ended = timeout(LIMIT, running.wait()).await.unwrap();
    assert!(ended.is_err_and(|error| error.is_closed()));
}
