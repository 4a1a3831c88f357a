//! The pages of a dashboard whose broker does not tell everything.

use std::time::Duration;

use axum::http::StatusCode;
use jobq::Client;
use jobq_dashboard::Access;
use jobq_tests::proxy::{Proxy, Toward};
use jobq_tests::raw::Raw;
use jobq_tests::test_store::Store;

use crate::kit::{Greet, Kit, until};

/// The dashboard of this client.
fn kit(client: &Client) -> Kit {
    Kit::on(client.clone(), |dashboard| dashboard, Access::All)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_is_no_pool_makes_figures_unknown() {
    let store = Store::rabbitmq().await;
    let kit = kit(&store.client().await);
    kit.client.declare::<Greet>().await.unwrap();
    let page = async |why: &str| {
        until("the figures of the queue", async || {
            let page = kit.get("/").await.text;
            let (_, row) = page.split_once("id=\"q-mail\"")?;
            let row = row.split("</tr>").next().unwrap_or_default();
            row.contains(why).then(|| row.to_owned())
        })
        .await
    };
    let cell = |row: &str, label: &str| {
        let (_, cell) = row.split_once(&format!("data-label=\"{label}\">")).unwrap();
        cell.split("</td>").next().unwrap_or_default().to_owned()
    };
    let nobody = page("no pool").await;
    assert!(cell(&nobody, "Pools").contains(">0<"), "{nobody}");
    let raw = Raw::connect(&store.url).await;
    let _consumer = raw.consume(&format!("{}:mail", store.namespace), "foreign").await;
    let unknown = page("1 consumers belong to no pool").await;
    for label in ["In flight", "Pools", "Done in a minute", "Waited"] {
        assert!(cell(&unknown, label).contains("class=\"unknown\""), "{label}: {unknown}");
    }
    for label in ["Ready", "Failed"] {
        assert!(cell(&unknown, label).contains(">0<"), "{label}: {unknown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_may_have_arrived_is_not_told_as_refused() {
    let store = Store::rabbitmq().await;
    let proxy = Proxy::to(&store.url).await;
    let builder = Client::builder(proxy.url()).namespace(&store.namespace);
    let kit = kit(&builder.timeout(Duration::from_secs(5)).connect().await.unwrap());
    let form = "job=greet&payload=%7B%22error%22:%22%22,%22secret%22:%22%22%7D";
    // The first one declares the queue.
    let enqueued = kit.post("/queues/mail/enqueue", form).await;
    assert_eq!(enqueued.status, StatusCode::SEE_OTHER, "{}", enqueued.text);
    proxy.freeze(Toward::Client);
    let doubtful = kit.post("/queues/mail/enqueue", form).await;
    doubtful.says(StatusCode::GATEWAY_TIMEOUT, "may be in its queue nevertheless");
    let activity = kit.get("/activity").await.text;
    assert!(activity.contains("may be in its queue nevertheless"), "{activity}");
    let there = store.client().await.counts("mail").await.unwrap().ready;
    assert_eq!(there, 2, "it has arrived");
}
