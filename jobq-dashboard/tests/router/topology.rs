//! What programs declare, beside what is there.

use jobq::rabbitmq::Topology;
use jobq::{Client, WorkerPool};
use jobq_dashboard::Access;
use jobq_tests::broker;
use jobq_tests::test_store::Store;
use serde_json::{Value, json};

use crate::kit::{Greet, Kit, Wait};

fn pool(client: &Client) -> WorkerPool {
    WorkerPool::new(client).register::<Greet>().register::<Wait>()
}

/// The page of the doctor of a dashboard that knows these declarations.
async fn page(client: &Client, topology: &Topology) -> String {
    let add = |dashboard: jobq_dashboard::Dashboard| dashboard.topology(topology.clone());
    let kit = Kit::on(client.clone(), add, Access::Read);
    kit.get("/doctor").await.text
}

/// These declarations with this change of their JSON.
fn changed(topology: &Topology, change: impl Fn(&mut Vec<Value>)) -> Topology {
    let mut json = serde_json::to_value(topology).expect("it is JSON");
    change(json["declarations"].as_array_mut().expect("it is a list"));
    serde_json::from_value(json).expect("it is still a topology")
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_topology_the_page_says_what_to_do_or_why_there_is_none() {
    let kit = Kit::new().await;
    let unknown = kit.get("/doctor").await.text;
    for part in ["does not know the topology", "Dashboard::topology", "--topology FILE"] {
        assert!(unknown.contains(part), "{part}: {unknown}");
    }
    let nothing = page(&kit.client, &pool(&kit.client).topology().unwrap()).await;
    assert!(nothing.contains("There is nothing to compare"), "{nothing}");
    assert!(nothing.contains("only RabbitMQ has a topology"), "{nothing}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_different_or_unknown_is_shown() {
    let store = Store::rabbitmq().await;
    let (client, namespace) = (store.client().await, store.namespace.clone());
    let declared = pool(&client).topology().unwrap();
    let (mail, work) = (format!("queue `{namespace}:mail`"), format!("{namespace}:mail"));
    let missing = page(&client, &declared).await;
    assert!(missing.contains(&mail) && missing.contains("missing</span>"), "{missing}");
    assert!(missing.contains("exchange `"), "{missing}");

    let running = pool(&client).spawn().await.unwrap();
    let unknown = page(&client, &declared).await;
    assert!(!unknown.contains(&mail), "{unknown}");
    // No job has needed them yet.
    assert!(!unknown.contains("the delay levels") && !unknown.contains(".level."), "{unknown}");
    // Without the management API nobody knows them.
    assert!(unknown.contains("bindings") && unknown.contains("management API"), "{unknown}");

    let other = changed(&declared, |declarations| {
        let queues = declarations.iter_mut().filter_map(|declared| declared.get_mut("queue"));
        for queue in queues.filter(|queue| queue["name"] == json!(work)) {
            queue["arguments"]["x-delivery-limit"] = json!(7);
        }
    });
    let different = page(&client, &other).await;
    for part in [&mail, "different</span>", "x-delivery-limit", "&#39;7&#39;", "2147483647"] {
        assert!(different.contains(part), "{part}: {different}");
    }
    let foreign = client_of(&store, "other").await;
    let refused = page(&foreign, &declared).await;
    assert!(refused.contains("could not be compared"), "{refused}");
    assert!(refused.contains("not in namespace `other`"), "{refused}");
    running.shutdown().await.unwrap();
}

async fn client_of(store: &Store, namespace: &str) -> Client {
    let builder = Client::builder(&store.url).namespace(namespace);
    builder.connect().await.expect("the broker can be reached")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topology_that_is_as_declared_is_said() {
    let test = "topology::a_topology_that_is_as_declared_is_said";
    let Some((node, management)) = broker::shared_with_management(test).await else { return };
    let store = Store::on_broker(node.url());
    let builder = Client::builder(&store.url).namespace(&store.namespace);
    let client = builder.management(management).connect().await.unwrap();
    let declared = pool(&client).topology().unwrap();
    client.admin().apply_topology(&declared).await.unwrap();
    let same = page(&client, &declared).await;
    assert!(same.contains("As declared:"), "{same}");
    let more = changed(&declared, |declarations| {
        let mut bindings = declarations.clone();
        bindings.retain(|declared| declared.get("binding").is_some());
        let mut binding = bindings[0].clone();
        binding["binding"]["key"] = json!("nobody");
        declarations.push(binding);
    });
    let missing = page(&client, &more).await;
    assert!(missing.contains("missing</span>") && missing.contains("key=nobody"), "{missing}");
}
