use std::net::TcpStream;

use super::*;
use crate::greeting::{greeting, version};

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_keeps_its_data_and_leaves_nothing_behind() {
    let Some(broker) = Broker::to_kill("a_broker_keeps_its_data").await else {
        return;
    };
    let greeting = greeting((broker.node.place.clients, broker.node.port)).unwrap();
    assert_eq!(version(&greeting).unwrap(), broker.ctl(&["version"]).await.trim());
    broker.ctl(&["add_vhost", "kept"]).await;
    broker.kill();
    assert!(TcpStream::connect(("127.0.0.1", broker.node.port)).is_err());
    broker.restart().await;
    assert!(broker.ctl(&["list_vhosts"]).await.contains("kept"));
    broker.stop();
    assert!(broker.log().contains("RabbitMQ"));
    let (epmd, dir) = (broker.node.place.epmd_port, broker.node.outside(&broker.node.dir));
    drop(broker);
    assert!(TcpStream::connect(("127.0.0.1", epmd)).is_err());
    assert!(!dir.exists());
}
