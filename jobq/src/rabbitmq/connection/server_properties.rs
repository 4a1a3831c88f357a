//! The broker's version, from the properties that it sends before the login. `lapin` does not
//! expose them.

use std::time::Duration;

use lapin::protocol::{AMQPClass, connection, parse_class};

use crate::engine::Hold;
use crate::rabbitmq::values::text;

/// A greeting has some 500 bytes.
const LONGEST: usize = 64 * 1024;

/// The first version whose queues can have a consumer timeout of their own.
pub(crate) const WITH_TIMEOUTS_OF_QUEUES: (u32, u32) = (3, 12);
/// The default `consumer_timeout` of a broker.
const DEFAULT_HOLD: Duration = Duration::from_secs(30 * 60);

/// The first bytes of a connection, which the broker sends before the login.
#[derive(Debug, Default)]
pub(crate) struct Greeting(Vec<u8>);

impl Greeting {
    pub(crate) fn pass(&mut self, bytes: &[u8]) {
        let room = LONGEST - self.0.len();
        self.0.extend(&bytes[..bytes.len().min(room)]);
    }

    /// The version in it.
    pub(crate) fn version(&self) -> Option<String> {
        // A method frame: its type, channel 0, and its length.
        let (&[1, 0, 0, length @ ..], content) = self.0.split_first_chunk::<7>()? else {
            return None;
        };
        version_in(content.get(..usize::try_from(u32::from_be_bytes(length)).ok()?)?)
    }
}

/// Parses `3.10.8` as 3 and 10.
pub(crate) fn number(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(['.', '-', '+']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
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
            "set `consumer_timeout` in the broker's rabbitmq.conf to more milliseconds than the \
             longest job takes (86400000 is a day); the default is 30 minutes, and RabbitMQ \
             {version} does not let clients set it, unlike 3.12 and newer"
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
        let content = greeting(b"version");
        let length = u32::try_from(content.len()).unwrap().to_be_bytes();
        let frame = [&[1, 0, 0][..], &length, &content, &[0xce]].concat();
        let mut arriving = Greeting::default();
        for (count, byte) in frame.iter().enumerate() {
            let is_whole = count >= 7 + content.len();
            assert_eq!(arriving.version().is_some(), is_whole, "{count}");
            arriving.pass(&[*byte]);
        }
        arriving.pass(&vec![0; 2 * LONGEST]);
        assert_eq!(arriving.version().as_deref(), Some("4.3.6!"));
        assert_eq!(arriving.0.len(), LONGEST);
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
