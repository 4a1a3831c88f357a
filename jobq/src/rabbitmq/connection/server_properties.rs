//! The broker's version, from the properties that it sends before the login. `lapin` does not
//! expose them.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use lapin::protocol::{AMQPClass, connection, parse_class};
use lapin::tcp::AMQPUriTcpExt as _;
use lapin::uri::AMQPUri;
use tokio_util::task::AbortOnDropHandle;

use super::link::Target;
use crate::background;
use crate::engine::Hold;
use crate::rabbitmq::values::text;

/// How long to wait for the broker's greeting.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);
/// A greeting has some 500 bytes.
const LONGEST: usize = 64 * 1024;
/// The protocol header of AMQP 0.9.1, which the client sends first.
const HEADER: &[u8] = b"AMQP\x00\x00\x09\x01";

/// The first version whose queues can have a consumer timeout of their own.
pub(crate) const WITH_TIMEOUTS_OF_QUEUES: (u32, u32) = (3, 12);
/// The default `consumer_timeout` of a broker.
const DEFAULT_HOLD: Duration = Duration::from_secs(30 * 60);

/// The version of the first node that answers.
pub(crate) async fn version(target: &Arc<Target>) -> Option<String> {
    let target = Arc::clone(target);
    let asking = background::spawn(async move {
        for (_, node) in target.address.nodes_from(0) {
            let asking = ask(node, &target);
            let answer = tokio::time::timeout(GREETING_TIMEOUT.min(target.timeout), asking).await;
            if let Ok(Some(version)) = answer {
                return Some(version);
            }
        }
        None
    });
    AbortOnDropHandle::new(asking).await.ok().flatten()
}

/// Parses `3.10.8` as 3 and 10.
pub(crate) fn number(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(['.', '-', '+']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

async fn ask(node: &AMQPUri, target: &Target) -> Option<String> {
    let runtime = lapin::runtime::default_runtime().ok()?;
    let opening = node.connect_with_config_async(target.tls.config.as_ref(), &runtime);
    let mut stream = opening.await.ok()?;
    let mut sent = 0;
    while sent < HEADER.len() {
        let rest = &HEADER[sent..];
        let writing = poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, rest)).await;
        sent += writing.ok().filter(|sent| *sent > 0)?;
    }
    poll_fn(|cx| Pin::new(&mut stream).poll_flush(cx)).await.ok()?;
    // A method frame: its type, channel 0, and its length.
    let [1, 0, 0, length @ ..] = *read(&mut stream, 7).await?.first_chunk::<7>()? else {
        return None;
    };
    let length = usize::try_from(u32::from_be_bytes(length)).ok().filter(|l| *l <= LONGEST)?;
    version_in(&read(&mut stream, length).await?)
}

async fn read(stream: &mut (impl AsyncRead + Unpin), length: usize) -> Option<Vec<u8>> {
    let mut content = vec![0; length];
    let mut read = 0;
    while read < length {
        let rest = &mut content[read..];
        let reading = poll_fn(|cx| Pin::new(&mut *stream).poll_read(cx, rest));
        read += reading.await.ok().filter(|read| *read > 0)?;
    }
    Some(content)
}

fn version_in(content: &[u8]) -> Option<String> {
    let (_, AMQPClass::Connection(connection::AMQPMethod::Start(start))) =
        parse_class(content).ok()?
    else {
        return None;
    };
    let version = start.server_properties.inner().get("version");
    version.and_then(text).map(str::to_owned)
}

/// How long a broker lets a worker hold a job, if jobq cannot set that. On newer versions the
/// queues that jobq declares state a day.
pub(crate) fn hold(version: Option<&str>) -> Option<Hold> {
    let version = version?;
    (number(version)? < WITH_TIMEOUTS_OF_QUEUES).then(|| {
        let remedy = format!(
            "set `consumer_timeout` in the rabbitmq.conf of the broker to more milliseconds than \
             the longest job takes (86400000 is a day); the default is 30 minutes, and RabbitMQ \
             {version} lets no client set it, as 3.12 and newer do"
        );
        Hold::new(DEFAULT_HOLD, remedy)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_among_the_properties() {
        let greeting = |key: &[u8]| {
            let mut table = vec![u8::try_from(key.len()).unwrap()];
            table.extend(key);
            table.extend(b"S\x00\x00\x00\x064.3.6!");
            // connection.start, AMQP 0.9, the properties, no mechanisms and locales.
            let mut content = vec![0, 10, 0, 10, 0, 9];
            content.extend(u32::try_from(table.len()).unwrap().to_be_bytes());
            content.extend(table);
            content.extend([0; 8]);
            content
        };
        assert_eq!(version_in(&greeting(b"version")).as_deref(), Some("4.3.6!"));
        assert_eq!(version_in(&greeting(b"product")), None);
        for broken in [&greeting(b"version")[..9], b"", b"AMQP\x00\x00\x09\x01"] {
            assert_eq!(version_in(broken), None);
        }
    }

    #[test]
    fn old_brokers_take_jobs_back() {
        for old in ["3.10.8", "3.9.0-rc.1", "3.11"] {
            let held = hold(Some(old)).unwrap();
            assert_eq!(held.limit, DEFAULT_HOLD);
            assert!(held.remedy.contains("consumer_timeout"), "{}", held.remedy);
        }
        for other in ["3.12.0", "4.0.5", "4.3.6", "10.1.0", "", "x", "4"] {
            assert_eq!(hold(Some(other)), None, "{other}");
        }
        assert_eq!(hold(None), None);
    }
}
