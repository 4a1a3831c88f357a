//! A way to the broker on which confirms come late, one by one and the last one first. A
//! broker may send them so: it promises no order but that a message is returned before it
//! is confirmed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::raw::read;

/// Confirms are passed on when the broker has been silent for so long.
const SILENCE: Duration = Duration::from_millis(20);
/// How a frame with a method begins, before its channel; and the number of `basic.ack`.
const METHOD: u8 = 1;
const BASIC_ACK: [u8; 4] = [0, 60, 0, 80];

/// The URL of such a way to this broker, for a client without TLS.
///
/// # Panics
///
/// If there is no port for it.
pub async fn late_confirms_proxy(url: &str) -> String {
    let broker = url.rsplit(['@', '/']).next().expect("a host and a port").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
    let port = listener.local_addr().expect("it has an address").port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let broker = TcpStream::connect(&broker).await.expect("the broker is there");
            let (mut from_client, to_client) = client.into_split();
            let (from_broker, mut to_broker) = broker.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_broker).await });
            tokio::spawn(pass(from_broker, to_client));
        }
    });
    format!("amqp://127.0.0.1:{port}")
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> io::Result<()> {
    let (frames, mut received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok(frame) = read(&mut from, 0).await {
            let _ = frames.send(frame);
        }
    });
    let mut channels = BTreeMap::<[u8; 2], Confirms>::new();
    loop {
        match timeout(SILENCE, received.recv()).await {
            Ok(Some(frame)) if frame[0] == METHOD && frame[7..11] == BASIC_ACK => {
                channels.entry([frame[1], frame[2]]).or_default().add(&frame[11..20]);
            }
            Ok(Some(frame)) => to.write_all(&frame).await?,
            Ok(None) => return to.shutdown().await,
            Err(_) => {
                for (channel, confirms) in &mut channels {
                    for tag in std::mem::take(&mut confirms.held).into_iter().rev() {
                        to.write_all(&ack(*channel, tag)).await?;
                    }
                }
            }
        }
    }
}

/// What was confirmed on one channel.
#[derive(Default)]
struct Confirms {
    /// All up to this one were.
    up_to: u64,
    /// So were these beyond it.
    beyond: BTreeSet<u64>,
    /// The client was not told of these.
    held: BTreeSet<u64>,
}

impl Confirms {
    /// A number, and whether it is for all before it, too.
    fn add(&mut self, arguments: &[u8]) {
        let (tag, multiple) = arguments.split_at(8);
        let tag = u64::from_be_bytes(tag.try_into().expect("8 bytes"));
        if multiple == [0] {
            self.beyond.insert(tag);
            self.held.insert(tag);
            return;
        }
        self.held.extend((self.up_to + 1..=tag).filter(|tag| !self.beyond.contains(tag)));
        self.beyond = self.beyond.split_off(&(tag + 1));
        self.up_to = tag;
    }
}

/// A confirm of one message.
fn ack(channel: [u8; 2], tag: u64) -> Vec<u8> {
    let arguments = [&BASIC_ACK[..], &tag.to_be_bytes(), &[0]].concat();
    let length = [0, 0, 0, 13];
    [&[METHOD], &channel[..], &length, &arguments, &[0xce]].concat()
}
