//! What a broker says first, and of what version it is.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// The content of the first frame, `connection.start`; `None` from one that is not ready.
pub(crate) fn greeting(node: impl ToSocketAddrs) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect(node).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(b"AMQP\x00\x00\x09\x01").ok()?;
    let mut head = [0; 7];
    stream.read_exact(&mut head).ok()?;
    let [1, _, _, length @ ..] = head else {
        return None;
    };
    let mut content = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut content).ok()?;
    Some(content)
}

/// The version among the properties that a broker greets with, a field of type `S`.
pub(crate) fn version(greeting: &[u8]) -> Option<&str> {
    let key = b"\x07versionS";
    let at = greeting.windows(key.len()).position(|found| found == key)? + key.len();
    let (length, text) = greeting[at..].split_first_chunk()?;
    str::from_utf8(text.get(..u32::from_be_bytes(*length) as usize)?).ok()
}
