//! A way to the broker on which it is not heard that a consumer has begun, until the test says so.

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::raw::read;

/// How a frame with a method begins, before its channel; and the number of `basic.consume-ok`.
const METHOD: u8 = 1;
const BASIC_CONSUME_OK: [u8; 4] = [0, 60, 0, 21];

/// The URL of such a way to this broker, for a client without TLS, and what lets the answers through.
///
/// # Panics
///
/// If there is no port for it.
pub async fn late_consumers_proxy(url: &str) -> (String, watch::Sender<bool>) {
    let broker = url.rsplit(['@', '/']).next().expect("a host and a port").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
    let port = listener.local_addr().expect("it has an address").port();
    let released = watch::Sender::new(false);
    let waiting = released.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let broker = TcpStream::connect(&broker).await.expect("the broker is there");
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_broker, mut to_broker) = broker.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_broker).await });
            let mut released = waiting.subscribe();
            tokio::spawn(async move {
                while let Ok(frame) = read(&mut from_broker, 0).await {
                    if frame[0] == METHOD && frame[7..11] == BASIC_CONSUME_OK {
                        // The test may have ended.
                        let _ = released.wait_for(|released| *released).await;
                    }
                    if to_client.write_all(&frame).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (format!("amqp://127.0.0.1:{port}"), released)
}
