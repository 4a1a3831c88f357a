use std::io::ErrorKind;
use std::time::Instant;

use tokio::sync::mpsc;

use super::*;
use crate::test_store::{soon, until};

/// Somebody who says everything again, and tells of the end of what he hears.
async fn echo() -> (String, mpsc::UnboundedReceiver<io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (ends, ended) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let ends = ends.clone();
            tokio::spawn(async move {
                let mut buffer = [0; 64];
                let end = loop {
                    match stream.read(&mut buffer).await {
                        Ok(0) => break Ok(()),
                        Ok(length) => stream.write_all(&buffer[..length]).await.unwrap(),
                        Err(error) => break Err(error),
                    }
                };
                let _ = ends.send(end);
                // It may go on speaking.
                let _ = stream.write_all(b"last").await;
            });
        }
    });
    (format!("amqp://ann:secret@127.0.0.1:{port}/shop?heartbeat=1"), ended)
}

async fn client_of(proxy: &Proxy) -> TcpStream {
    let address = proxy.line_address();
    TcpStream::connect(address).await.unwrap()
}

impl Proxy {
    fn line_address(&self) -> String {
        let url = self.url();
        url.rsplit('@').next().unwrap().split('/').next().unwrap().to_owned()
    }
}

async fn hears(client: &mut TcpStream, expected: &[u8]) {
    let mut heard = vec![0; expected.len()];
    soon("what was said", client.read_exact(&mut heard)).await.unwrap();
    assert_eq!(heard, expected);
}

async fn says(client: &mut TcpStream, word: &[u8]) {
    client.write_all(word).await.unwrap();
    hears(client, word).await;
}

#[tokio::test]
async fn it_passes_on_and_delays() {
    let (url, _ended) = echo().await;
    let proxy = Proxy::to(&url).await;
    let (before, after) = (proxy.url(), "/shop?heartbeat=1");
    assert!(before.starts_with("amqp://ann:secret@127.0.0.1:") && before.ends_with(after));
    let mut client = client_of(&proxy).await;
    says(&mut client, b"one").await;
    assert_eq!(proxy.accepted(), 1);
    proxy.delay(Duration::from_millis(150));
    let begin = Instant::now();
    says(&mut client, b"two").await;
    assert!(begin.elapsed() >= Duration::from_millis(300), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn it_keeps_what_is_frozen_until_it_thaws() {
    let (url, _ended) = echo().await;
    let proxy = Proxy::to(&url).await;
    let mut client = client_of(&proxy).await;
    says(&mut client, b"one").await;
    // Not dropped before the end: an end is answered.
    let mut others = Vec::new();
    for toward in [Toward::Broker, Toward::Client] {
        proxy.freeze(toward);
        client.write_all(b"two").await.unwrap();
        let kept = async || (proxy.kept(toward) == 3).then_some(());
        until("it is kept", kept).await;
        let nothing = client.try_read(&mut [0; 1]).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        // A new connection is taken, and silent as well.
        let silent = client_of(&proxy).await;
        assert_eq!(silent.try_read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
        others.push(silent);
        proxy.thaw();
        hears(&mut client, b"two").await;
        assert_eq!(proxy.kept(toward), 0);
    }
}

#[tokio::test]
async fn it_ends_connections_on_both_sides() {
    let (url, mut ended) = echo().await;
    let proxy = Proxy::to(&url).await;
    for cut in [Cut::Reset, Cut::End] {
        let mut client = client_of(&proxy).await;
        says(&mut client, b"one").await;
        proxy.freeze(Toward::Broker);
        client.write_all(b"lost").await.unwrap();
        until("it is kept", async || (proxy.kept(Toward::Broker) == 4).then_some(())).await;
        proxy.cut(cut).await;
        let here = soon("an end here", client.read(&mut [0; 8])).await;
        let there = soon("an end there", ended.recv()).await.unwrap();
        let kind = |end: io::Result<()>| end.err().map(|error| error.kind());
        let expected = (cut == Cut::Reset).then_some(ErrorKind::ConnectionReset);
        assert_eq!((kind(here.map(|_| ())), kind(there)), (expected, expected), "{cut:?}");
        assert_eq!(proxy.kept(Toward::Broker), 0);
        proxy.thaw();
    }
}

#[tokio::test]
async fn it_closes_one_half() {
    let (url, mut ended) = echo().await;
    let proxy = Proxy::to(&url).await;
    let mut client = client_of(&proxy).await;
    says(&mut client, b"one").await;
    proxy.half_close(Toward::Broker);
    soon("an end there", ended.recv()).await.unwrap().unwrap();
    hears(&mut client, b"last").await;

    let mut client = client_of(&proxy).await;
    says(&mut client, b"one").await;
    proxy.half_close(Toward::Client);
    assert_eq!(soon("an end here", client.read(&mut [0; 8])).await.unwrap(), 0);
    assert!(ended.try_recv().is_err(), "the other half is open");
    drop(client);
    soon("an end there", ended.recv()).await.unwrap().unwrap();
}

#[tokio::test]
async fn it_refuses_and_takes_connections_again() {
    let (url, _ended) = echo().await;
    let proxy = Proxy::to(&url).await;
    let mut client = client_of(&proxy).await;
    // Until it is taken it waits at the listener, and would end with that.
    says(&mut client, b"taken").await;
    proxy.refuse(true);
    let refused = async || {
        let error = TcpStream::connect(proxy.line_address()).await.err()?;
        (error.kind() == ErrorKind::ConnectionRefused).then_some(())
    };
    until("a refusal", refused).await;
    says(&mut client, b"the old one lives").await;
    proxy.refuse(false);
    let taken = async || TcpStream::connect(proxy.line_address()).await.ok();
    says(&mut until("a connection", taken).await, b"one").await;
}
